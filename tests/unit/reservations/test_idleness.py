"""For how long reservations are not used: only what ticks say counts, and what is not known counts for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.desks import CARDS, asked, got, opened
from gua.core.tick import AllocationReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, ProcessList, ProcessType, Relation, Source
from gua.reservations.idleness import IdleReservations, IdleStreak
from gua.reservations.model import Ending

ORIGIN = Origin(host="node", source=Source.AGENT, interval_ms=1000)
START = 1_800_000_000_000
MINUTE = 60_000
HELD = (ProcessReading(pid=1, type=ProcessType.COMPUTE, memory_bytes=2**30),)


def card(uuid: str, relation: Relation, utilization: float | None, *, kind: str = "manual") -> CardReading:
    is_empty = relation is Relation.NOBODY
    return CardReading(
        uuid=uuid,
        duration_ms=MINUTE,
        gpu_time_ms=MINUTE,
        process_list=ProcessList.KNOWN,
        processes=() if is_empty else HELD,
        utilization=utilization,
        utilization_max=utilization,
        memory_used_bytes=0 if is_empty else 2**30,
        memory_limit_bytes=80 * 2**30,
        memory_reserved_bytes=0,
        memory_shared=False,
        failed=False,
        allocation=AllocationStatus.ALLOCATED,
        allocations=(
            AllocationReading(
                source="gua", id="r", relation=relation, duration_ms=MINUTE, gpu_time_ms=MINUTE, kind=kind
            ),
        ),
    )


def streaks(*ticks: CardReading | tuple[CardReading, ...], source: str = "gua") -> list[int]:
    """Return for how many minutes the reservation idled after each tick, 0 where it did not."""
    of = IdleReservations(source)
    idle = []
    for number, cards in enumerate(ticks, 1):
        idle_now = of.ticked(
            Tick(ts_ms=START + number * MINUTE, origin=ORIGIN, cards=cards if isinstance(cards, tuple) else (cards,))
        )
        idle.append(idle_now["r"].idle_ms // MINUTE if "r" in idle_now else 0)
    return idle


EMPTY = card("a", Relation.NOBODY, 0.0)
IDLE = card("a", Relation.OWNER, 0.0)
USED = card("a", Relation.OWNER, 0.9)
OTHERS = card("a", Relation.OTHERS, 0.9)


@pytest.mark.parametrize(
    ("ticks", "minutes"),
    [
        ([EMPTY, IDLE, EMPTY], [1, 2, 3]),
        ([EMPTY, USED, EMPTY], [1, 0, 1]),
        ([IDLE, card("a", Relation.BOTH, 0.9), IDLE], [1, 0, 1]),  # what is active may be the owner's
        ([EMPTY, OTHERS, EMPTY], [1, 2, 3]),  # what others do is not use by who has it
        ([EMPTY, card("a", Relation.UNKNOWN, 0.9), EMPTY], [1, 0, 1]),
        ([EMPTY, card("a", Relation.OWNER, None), EMPTY], [1, 0, 1]),
        ([(EMPTY, card("b", Relation.OWNER, 0.9)), (EMPTY, card("b", Relation.NOBODY, 0.0))], [0, 1]),  # all or none
        ([card("a", Relation.OTHERS, 0.9, kind="run")] * 2, [0, 0]),  # it may run as another user, by sudo
        ([card("a", Relation.OTHERS, 0.0, kind="run")] * 2, [1, 2]),
    ],
)
def test_only_what_is_known_not_to_be_used_counts(
    ticks: list[CardReading | tuple[CardReading, ...]], minutes: list[int]
) -> None:
    assert streaks(*ticks) == minutes


def test_other_sources_are_not_followed() -> None:
    assert streaks(EMPTY, EMPTY, source="slurm") == [0, 0]


def test_time_that_no_tick_covers_ends_a_streak() -> None:
    of = IdleReservations("gua")
    of.ticked(Tick(ts_ms=START, origin=ORIGIN, cards=(EMPTY,)))
    of.ticked(Tick(ts_ms=START + MINUTE + 20_000, origin=ORIGIN, cards=(EMPTY,)))
    idle_now = of.ticked(Tick(ts_ms=START + 3 * 60 * MINUTE, origin=ORIGIN, cards=(EMPTY,)))
    assert idle_now["r"] == IdleStreak(
        since_ms=START + (3 * 60 - 1) * MINUTE, seen_ms=START + 180 * MINUTE, idle_ms=MINUTE
    )
    assert of.ticked(Tick(ts_ms=START, origin=ORIGIN, cards=(EMPTY,)))["r"].idle_ms == MINUTE  # the clock was set back


def test_cards_that_are_held_and_idle_say_since_when() -> None:
    of = IdleReservations("gua")
    for minute in (1, 2, 3):
        of.ticked(Tick(ts_ms=START + minute * MINUTE, origin=ORIGIN, cards=(IDLE, replace(EMPTY, uuid="b"))))
    assert of.cards == {"a": START}


def test_free_cards_have_the_end_of_their_last_use_or_allocation() -> None:
    of = IdleReservations("gua")
    free = replace(EMPTY, allocation=AllocationStatus.UNALLOCATED, allocations=())
    by_slurm = replace(EMPTY.allocations[0], source="slurm")
    allocated = replace(free, uuid="allocated", allocation=AllocationStatus.ALLOCATED, allocations=(by_slurm,))
    ended = replace(allocated, uuid="ended", allocations=(replace(by_slurm, until_ms=START + 2 * MINUTE - 20_000),))
    used = replace(IDLE, uuid="used", allocation=AllocationStatus.UNALLOCATED, allocations=())
    unknown = replace(free, uuid="unknown", utilization=None, process_list=ProcessList.FAILED, failed=True)
    of.ticked(Tick(ts_ms=START + MINUTE, origin=ORIGIN, cards=(used, allocated, free, unknown)))
    of.ticked(Tick(ts_ms=START + 2 * MINUTE, origin=ORIGIN, cards=(allocated, ended, free)))
    of.ticked(Tick(ts_ms=START + 3 * MINUTE, origin=ORIGIN, cards=(free,)))
    assert of.last_used_ms == {
        "used": START + MINUTE,
        "allocated": START + 2 * MINUTE,
        "ended": START + 2 * MINUTE - 20_000,
    }


def test_the_free_card_unused_for_the_longest_is_given_first(tmp_path: Path) -> None:
    # GPU-0 was used without a reservation a moment ago, or by a scheduler's job.
    desk = opened(
        tmp_path / "reservations", probe=lambda: [replace(CARDS[0], free_since_ms=4_000_000_000_000), *CARDS[1:]]
    )
    given = [got(desk, asked(uid=uid)).reservation.cards for uid in (1, 2, 3, 4)]
    assert given == [("GPU-1",), ("GPU-2",), ("GPU-3",), ("GPU-0",)]
    desk.close()


def test_a_reservation_ends_once_it_idled_for_too_long_and_not_while_its_owner_extends_it(tmp_path: Path) -> None:
    idle_now: list[str] = []
    desk = opened(tmp_path / "reservations", idle_release_ms=30 * MINUTE, log=idle_now.append)
    first, second = (got(desk, asked(for_ms=3_600_000)).reservation for _ in range(2))

    def idled(minutes: int) -> None:
        streak = IdleStreak(since_ms=START, seen_ms=START, idle_ms=minutes * MINUTE)
        desk.note_idle({first.id: streak, second.id: streak, "of another agent": streak})

    idled(29)
    desk.extend(second.id, second.since_ms + 7_200_000)
    idled(30)
    assert [each.id for each in desk.reservations()] == [second.id]
    assert idle_now == [f"reservation {first.id} of user1000 (GPU-0) ended: {Ending.IDLE.value}"]
    idled(58)
    assert len(desk.reservations()) == 1
    idled(1)  # it was used meanwhile: the streak begins anew, and nothing is forgiven
    idled(30)
    assert desk.reservations() == []
    desk.close()
    by_default = opened(tmp_path / "other")
    held = got(by_default, asked()).reservation
    by_default.note_idle({held.id: IdleStreak(since_ms=START, seen_ms=START, idle_ms=10**12)})
    assert [each.id for each in by_default.reservations()] == [held.id]
    by_default.close()
