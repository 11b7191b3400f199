"""Jobs that have a process on a card and no allocation."""

from __future__ import annotations

from fakes.cards import INTERVAL_MS, START_MS, allocation, card, process, promised, tick
from gua.agent.events import PATIENCE_MS, SilentJobs
from gua.core.tick import CardReading
from gua.core.words import ProcessType

OF_JOB = process(9, slurm_job_id="77")
LATE = PATIENCE_MS // INTERVAL_MS


def after(*cards: CardReading) -> str | None:
    """Return what is told after that many ticks in a row."""
    silent, told = SilentJobs(), None
    for number, reading in enumerate(cards):
        told = silent.after(tick(START_MS + number * INTERVAL_MS, reading))
    return told


def test_a_job_without_an_allocation_is_told_once_nobody_can_be_just_late() -> None:
    silent = card(processes=(OF_JOB,), **promised())
    assert after(*[silent] * LATE) is None
    assert after(*[silent] * (LATE + 1)) == (
        "Slurm's job 77 on card 0: no source of allocations tells of it; are the hooks installed, and is Slurm looked "
        "at?"
    )


def test_one_that_was_away_is_late_anew() -> None:
    silent = card(processes=(OF_JOB,), **promised())
    assert after(*[silent] * LATE, card(**promised()), *[silent] * LATE) is None


def test_what_is_promised_unknown_or_not_looked_at_is_no_silent_job() -> None:
    for reading in (
        card(processes=(OF_JOB,), **promised(allocation("78"))),
        card(processes=(OF_JOB,), allocation="unknown"),
        card(processes=(OF_JOB,)),
        card(processes=(process(9),), **promised()),
        card(processes=(process(9, slurm_job_id="77", type=ProcessType.IGNORED),), **promised()),
    ):
        assert after(*[reading] * (LATE + 1)) is None


def test_of_many_a_few_are_named_and_a_clock_set_back_tells_none_too_late() -> None:
    crowd = tuple(process(pid, slurm_job_id=str(pid)) for pid in range(10))
    told = after(*[card(index=None, processes=crowd, **promised())] * (LATE + 1))
    assert told is not None
    assert told.startswith("Slurm's job 0 on GPU-1, job 1 on GPU-1, job 2 on GPU-1 and 7 more: ")
    silent = SilentJobs()
    one = card(processes=(OF_JOB,), **promised())
    silent.after(tick(START_MS, one))
    assert silent.after(tick(START_MS - 3_600_000, one)) is not None
