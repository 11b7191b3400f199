"""Idle clocks: two hours stay two hours through a restart, and another process begins at 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.host import Host
from gua.core.idleness import IdleCounter, IdleCounters, advance, dumps, idle_ms, in_steps, loads
from gua.core.ports import Mark, RawCard, RawProcess
from gua.core.rules import Rules
from gua.core.tick import CardReading, ProcessReading, ReadError
from gua.core.words import ProcessList, ProcessType
from gua.spool.queue import Spool

HOUR_MS = 3_600_000
STEP_MS = 30_000
RULES = Rules()
IDLE, BUSY, UNKNOWN = 0.0, 0.5, None


def run(
    *utilizations: float | None, memory: int | None = 2**30, before: IdleCounter | None = None, at: int = 0
) -> IdleCounter:
    """Return the clock after ticks of 30 s each."""
    clock = before
    for number, utilization in enumerate(utilizations, start=1):
        now = IdleCounter(seen_ms=at + number * STEP_MS, covered_ms=STEP_MS)
        clock = advance(clock, ProcessReading(pid=1, utilization=utilization, memory_bytes=memory), now, RULES)
    assert clock is not None
    return clock


def test_idle_ticks_in_a_row_add_up_and_an_active_one_ends_them() -> None:
    assert [run(*[IDLE] * count).idle_ms for count in (1, 2, 10)] == [30_000, 60_000, 300_000]
    assert run(IDLE, IDLE, BUSY).idle_ms == 0
    assert run(IDLE, BUSY, IDLE).idle_ms == 30_000


def test_an_unknown_tick_neither_counts_nor_ends_a_streak() -> None:
    assert run(IDLE, UNKNOWN, IDLE).idle_ms == 60_000


def test_below_the_threshold_is_idle_for_us_and_busy_by_the_rule_of_two_polls() -> None:
    clock = run(0.05, 0.05, 0.05)
    assert (clock.idle_ms, clock.is_idle) == (90_000, False)


def test_two_polls_at_zero_make_idle_and_the_time_runs_from_the_second() -> None:
    assert [(run(*[IDLE] * count).is_idle, run(*[IDLE] * count).zero_ms) for count in (1, 2, 3, 4)] == [
        (False, 0),
        (True, 0),
        (True, 30_000),
        (True, 60_000),
    ]


def test_an_unknown_poll_neither_counts_as_zero_nor_ends_an_idle_time() -> None:
    assert not run(IDLE, UNKNOWN, IDLE).is_idle
    assert run(IDLE, IDLE, UNKNOWN, IDLE).zero_ms == 30_000
    assert run(IDLE, IDLE, *[UNKNOWN] * 240, IDLE).zero_ms == 30_000
    assert run(IDLE, IDLE, UNKNOWN, BUSY).zero_ms == 0


def test_unobserved_time_is_not_idle_by_either_rule() -> None:
    before = run(IDLE, IDLE, IDLE)
    after = run(IDLE, before=before, at=3 * STEP_MS + 60_000)
    assert (after.idle_ms, after.zero_ms) == (120_000, 60_000)


def test_a_process_that_holds_nothing_is_not_idle_and_one_of_unknown_memory_is() -> None:
    assert not run(IDLE, IDLE, memory=0).is_idle
    assert run(IDLE, IDLE, memory=None).is_idle


@pytest.mark.parametrize(("gap_ms", "kept"), [(0, True), (60_000, True), (60_001, False)])
def test_a_hole_of_up_to_two_spans_does_not_end_a_streak(gap_ms: int, *, kept: bool) -> None:
    before = run(IDLE, IDLE)
    after = run(IDLE, before=before, at=2 * STEP_MS + gap_ms)
    assert after.idle_ms == (90_000 if kept else 30_000)


def test_idle_time_is_in_ms_zero_if_active_and_none_if_unknown_or_ignored() -> None:
    def told(utilization: float | None, kind: ProcessType = ProcessType.COMPUTE) -> int | None:
        return idle_ms(run(IDLE), ProcessReading(pid=1, type=kind, utilization=utilization))

    assert (told(IDLE), told(UNKNOWN), told(IDLE, ProcessType.IGNORED)) == (30_000, None, None)
    assert idle_ms(run(BUSY), ProcessReading(pid=1, utilization=BUSY)) == 0


def test_clocks_come_back_as_they_were_stored_those_without_a_start_do_not() -> None:
    clocks: IdleCounters = {("GPU-1", 1, 5): run(IDLE, IDLE), ("GPU-1", 2, None): run(IDLE), ("GPU-2", 3, 6): run(BUSY)}
    assert loads(dumps(clocks)) == {("GPU-1", 1, 5): run(IDLE, IDLE)}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a": 1}', b'{"a": [[1]]}', b'{"a": [[1, 2, "x"]]}', b"\xff"])
def test_damaged_clocks_are_none(data: bytes) -> None:
    assert loads(data) == {}


@dataclass
class Holding:
    """One card, held by processes of these pids that do nothing."""

    pids: Sequence[int] = (11,)
    utilization: float | None = 0.0

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        reading = CardReading(
            uuid="GPU-1", index=0, duration_ms=1, gpu_time_ms=0, process_list=ProcessList.KNOWN, utilization=0.0
        )
        processes = tuple(
            RawProcess(pid=pid, lists=frozenset({"compute"}), memory_bytes=2**30, utilization=self.utilization)
            for pid in self.pids
        )
        return [RawCard(reading=reading, gpu_fraction=(1, 1), processes=processes)], []

    def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class Idle:
    """An agent on such a card; its last ticks report how long each process has idled."""

    path: Path
    cards: Holding = field(default_factory=Holding)

    def __post_init__(self) -> None:
        self.host = Host(self.path / "spool.db", clock=FakeClock(), cards=self.cards)

    def idle_seconds(self) -> dict[int, float | None]:
        return {
            process.pid: None if process.idle_ms is None else process.idle_ms / 1000
            for process in self.host.ticks()[-1].cards[0].processes
        }


def test_a_restart_in_the_middle_of_two_hours_leaves_two_hours(tmp_path: Path) -> None:
    idle = Idle(tmp_path)
    idle.host.run(3600)
    idle.host.pass_(20_000)
    idle.host.start()
    idle.host.run(3580)
    [seconds] = idle.idle_seconds().values()
    assert seconds == pytest.approx(7200, abs=31)  # the agent itself is as old, up to one interval
    assert idle.host.outbox.mark is not None
    [clock] = idle.host.outbox.mark.clocks.values()
    assert clock.zero_ms == pytest.approx(7_200_000, abs=91_000)  # from the second poll on


def test_a_restart_of_five_minutes_does_not_count_and_does_not_end_the_streak(tmp_path: Path) -> None:
    idle = Idle(tmp_path)
    idle.host.run(3600)
    before = idle.idle_seconds()[11]
    idle.host.pass_(300_000)
    idle.host.start()
    idle.host.run(60)
    after = idle.idle_seconds()[11]
    assert before is not None
    assert after is not None
    assert 0 < after - before <= 61


def set_clock(idle: Idle, milliseconds: int) -> None:
    assert isinstance(idle.host.clock, FakeClock)
    idle.host.clock.wall += milliseconds


@pytest.mark.parametrize("seconds", [61, 600, -61])
def test_a_clock_that_is_set_ends_no_streak(tmp_path: Path, seconds: int) -> None:
    idle = Idle(tmp_path)
    idle.host.run(3600)
    set_clock(idle, 1000 * seconds)
    idle.host.run(300)
    [told] = idle.idle_seconds().values()
    assert told == pytest.approx(3900, abs=62)


@pytest.mark.parametrize(("seconds", "kept"), [(9 * 60, True), (3 * 3600, False)])
def test_a_changed_clock_does_not_change_how_long_an_agent_was_away(
    tmp_path: Path, seconds: int, *, kept: bool
) -> None:
    idle = Idle(tmp_path)
    idle.host.run(3600)
    set_clock(idle, -1000 * seconds)
    idle.host.pass_(1000 * seconds)
    idle.host.start()
    idle.host.run(60)
    [told] = idle.idle_seconds().values()
    assert told is not None
    assert told >= 3600 if kept else told <= 120


def test_after_a_boot_and_for_a_pid_that_passed_on_the_streak_is_a_new_one(tmp_path: Path) -> None:
    idle = Idle(tmp_path)
    idle.host.run(3600)
    assert isinstance(idle.host.clock, FakeClock)
    idle.host.clock.boot = "another"
    idle.host.pass_(20_000)
    idle.host.start()
    idle.host.run(60)
    seconds = idle.idle_seconds()[11]
    assert seconds is not None
    assert seconds <= 80


def test_a_process_of_another_start_under_the_same_pid_begins_at_zero() -> None:
    clocks = {("GPU-1", 1, 5): run(*[IDLE] * 240)}
    assert clocks.get(("GPU-1", 1, 6)) is None
    assert run(IDLE, before=clocks.get(("GPU-1", 1, 6))).idle_ms == 30_000


def test_the_spool_keeps_clocks_with_the_mark_and_replaces_them_with_the_next(tmp_path: Path) -> None:
    clocks: IdleCounters = {("GPU-1", 1, 5): run(IDLE, IDLE)}
    mark = Mark(ts_ms=7, monotonic_ms=8, boot_id="boot", clocks=clocks)
    with Spool(tmp_path / "spool.db") as spool:
        spool.append(7, b"tick", mark)
    with Spool(tmp_path / "spool.db") as spool:
        assert spool.mark() == mark
        without = replace(mark, ts_ms=9, clocks={})
        spool.append(9, b"tick", without)
        assert spool.mark() == without


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ((12_000, 1_080_000, 9_000), (12_000, 1_080_000, 9_000)),
        # To the nearest 125 ms and 7.5 J.
        ((12_062, 1_083_749, 9_063), (12_000, 1_080_000, 9_125)),
        ((12_063, 1_083_751, 9_062), (12_125, 1_087_500, 9_000)),
        # All of it: by the energy alone, also if less than a step is missing.
        ((12_000, 1_440_000, 12_000), (12_000, 1_440_000, None)),
        ((12_040, 1_440_000, 11_980), (12_000, 1_440_000, None)),
        # Idle for the whole tick; samples cover 29,987 ms.
        ((29_987, None, None), (30_000, None, None)),
        ((0, None, None), (0, None, None)),
        # Less than half a step is none, and has no energy.
        ((62, 7_000, 62), (0, None, None)),
        ((200, 9_000, 62), (250, None, None)),
        ((12_000, 0, 12_000), (12_000, 0, None)),
    ],
)
def test_a_tick_of_30_s_is_rounded_to_eighths_of_a_second_and_quarters_of_a_watt(
    measured: tuple[int, int | None, int | None], told: tuple[int, int | None, int | None]
) -> None:
    assert in_steps(*measured, interval_ms=30_000) == told


def test_steps_are_as_fine_in_a_tick_of_a_second() -> None:
    assert in_steps(499, 35_100, 300, interval_ms=1_000) == (500, 35_000, 300)
    assert in_steps(7, 300, 7, interval_ms=100) == (7, 300, None)
