"""Where the agent's events go, and Slurm jobs that no allocation source reports."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from fakes.cards import INTERVAL_MS, START_MS, allocated, allocation, card, process, tick
from fakes.clock import FakeClock
from gua.agent.logs import Changes
from gua.agent.loop import PATIENCE_MS, AgentEvents, SilentJobs
from gua.agent.notify import Notifier
from gua.agent.status import Board
from gua.core.tick import AllocationSourceReading, CardReading, Origin, ProcessReading, ReadError, Tick
from gua.core.words import AllocationStatus, ProcessType, Source
from gua.spool.stats import SpoolStats

CARD = CardReading(uuid="GPU-a", duration_ms=1_000, gpu_time_ms=1_000)
TICK = Tick(ts_ms=1_700_000_000_000, origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=1_000), cards=(CARD,))


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def board() -> Board:
    return Board(
        pid=1,
        version="0",
        host="gpu01",
        started_ms=0,
        interval_ms=1_000,
        destinations=[("endpoint", "http://collector.example:4318/v1/metrics")],
        clock=FakeClock(),
        spool=lambda: SpoolStats(ticks=0, bytes=0),
        in_memory=lambda: 0,
    )


@pytest.fixture
def watcher(board: Board, lines: Lines) -> AgentEvents:
    logger = logging.getLogger("watcher under test")
    logger.setLevel(logging.INFO)
    logger.handlers = [lines]
    return AgentEvents(board=board, changes=Changes(logger), notifier=Notifier({}), also_alive=lambda: None)


def test_a_thousand_good_ticks_are_not_worth_a_line(watcher: AgentEvents, lines: Lines, board: Board) -> None:
    for _ in range(1_000):
        watcher.ticked(TICK, lateness_ms=0)
        watcher.delivered("endpoint", ticks=1)
    assert lines.said == []
    assert board.status()["ticks"]["made"] == 1_000


def test_a_lost_card_and_its_return_are_each_logged_once(watcher: AgentEvents, lines: Lines) -> None:
    lost = replace(TICK, cards=(replace(CARD, failed=True),))
    for made in (TICK, lost, lost, lost, TICK, TICK):
        watcher.ticked(made, lateness_ms=0)
    assert lines.said == ["card GPU-a is lost or needs a reset", "card GPU-a is back"]


def test_failing_calls_are_logged_with_their_codes_until_they_succeed(watcher: AgentEvents, lines: Lines) -> None:
    failing = replace(TICK, errors=(ReadError(call="nvmlDeviceGetPowerUsage", code="NO_PERMISSION", uuid="GPU-a"),))
    for made in (failing, failing, TICK):
        watcher.ticked(made, lateness_ms=0)
    assert lines.said == [
        "some calls failed, the rest goes on: nvmlDeviceGetPowerUsage: NO_PERMISSION",
        "all calls succeed again",
    ]


def test_a_hanging_driver_call_is_a_condition_until_it_answers(watcher: AgentEvents, board: Board) -> None:
    hung = [ReadError(call="nvmlDeviceGetRemappedRows", code="NO_ANSWER", uuid=f"GPU-{card}") for card in "ab"]
    watcher.ticked(replace(TICK, errors=(*hung, ReadError(call="nvmlOther", code="UNKNOWN"))), lateness_ms=0)
    (said,) = board.status()["conditions"]
    assert said.startswith("the driver does not answer nvmlDeviceGetRemappedRows: the values are unknown")
    watcher.ticked(TICK, lateness_ms=0)
    assert board.status()["conditions"] == []


def test_an_outage_is_one_line_and_its_end_another(watcher: AgentEvents, lines: Lines, board: Board) -> None:
    for _ in range(20):
        watcher.failed("endpoint", "cannot reach it")
    assert board.status()["destinations"][0]["failing"] is True
    watcher.delivered("endpoint", ticks=60)
    assert lines.said == ["endpoint: cannot reach it", "endpoint: delivery goes on"]


def test_ticks_that_could_not_be_made_are_counted_by_reason(watcher: AgentEvents, lines: Lines, board: Board) -> None:
    watcher.skipped("waiting", "the clock was set back")
    watcher.skipped("waiting", "the clock was set back")
    watcher.skipped("missed", "3 ticks", 3)
    assert board.status()["ticks"]["skipped"] == {"missed": 3, "waiting": 2}
    assert lines.said == ["the clock was set back", "3 ticks"]


def test_a_condition_stands_until_it_is_taken_back(watcher: AgentEvents, lines: Lines, board: Board) -> None:
    watcher.condition("spool", "the disk is full")
    assert board.status()["conditions"] == ["the disk is full"]
    watcher.condition("spool", None)
    assert board.status()["conditions"] == []
    assert lines.said == ["the disk is full", "spool: all is well again"]


def test_a_source_of_allocations_that_fails_twice_is_logged_once_and_once_it_is_back(
    watcher: AgentEvents, lines: Lines
) -> None:
    reasons = ("no answer", None, "late", None, "no answer", "the last is 90 s old", "late", None)
    for number, reason in enumerate(reasons):
        sources = (AllocationSourceReading(source="slurm", duration_ms=1_000, reason=reason),)
        watcher.ticked(replace(TICK, ts_ms=TICK.ts_ms + number, allocation_sources=sources), lateness_ms=0)
    assert lines.said == [
        "allocations by slurm cannot be read: the last is 90 s old",
        "allocations by slurm can be read again",
    ]


def test_a_silent_job_is_a_condition_until_it_is_gone(watcher: AgentEvents, board: Board) -> None:
    silent = replace(
        CARD,
        index=3,
        allocation=AllocationStatus.UNALLOCATED,
        processes=(ProcessReading(pid=1, slurm_job_id="77"),),
    )
    for ts_ms in (TICK.ts_ms, TICK.ts_ms + 200_000):
        watcher.ticked(replace(TICK, ts_ms=ts_ms, cards=(silent,)), lateness_ms=0)
    assert [each.partition(":")[0] for each in board.status()["conditions"]] == ["Slurm's job 77 on card 3"]
    watcher.ticked(replace(TICK, ts_ms=TICK.ts_ms + 300_000), lateness_ms=0)
    assert board.status()["conditions"] == []


OF_JOB = process(9, slurm_job_id="77")
LATE = PATIENCE_MS // INTERVAL_MS


def after(*cards: CardReading) -> str | None:
    """Return the message after that many ticks in a row."""
    silent, warning = SilentJobs(), None
    for number, reading in enumerate(cards):
        warning = silent.after(tick(START_MS + number * INTERVAL_MS, reading))
    return warning


def test_a_job_without_an_allocation_is_reported_once_the_source_cannot_be_merely_late() -> None:
    silent = card(processes=(OF_JOB,), **allocated())
    assert after(*[silent] * LATE) is None
    assert after(*[silent] * (LATE + 1)) == (
        "Slurm's job 77 on card 0: in no allocation source; check that the hooks are installed and Slurm is a source"
    )


def test_one_that_was_away_is_late_anew() -> None:
    silent = card(processes=(OF_JOB,), **allocated())
    assert after(*[silent] * LATE, card(**allocated()), *[silent] * LATE) is None


def test_what_is_allocated_unknown_or_not_looked_at_is_no_silent_job() -> None:
    for reading in (
        card(processes=(OF_JOB,), **allocated(allocation("78"))),
        card(processes=(OF_JOB,), allocation="unknown"),
        card(processes=(OF_JOB,)),
        card(processes=(process(9),), **allocated()),
        card(processes=(process(9, slurm_job_id="77", type=ProcessType.IGNORED),), **allocated()),
    ):
        assert after(*[reading] * (LATE + 1)) is None


def test_few_of_many_silent_jobs_are_named_and_a_clock_set_back_does_not_delay_the_warning() -> None:
    crowd = tuple(process(pid, slurm_job_id=str(pid)) for pid in range(10))
    warning = after(*[card(index=None, processes=crowd, **allocated())] * (LATE + 1))
    assert warning is not None
    assert warning.startswith("Slurm's job 0 on GPU-1, job 1 on GPU-1, job 2 on GPU-1 and 7 more: ")
    silent = SilentJobs()
    one = card(processes=(OF_JOB,), **allocated())
    silent.after(tick(START_MS, one))
    assert silent.after(tick(START_MS - 3_600_000, one)) is not None
