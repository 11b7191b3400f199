"""The loop: when ticks are due, what is made of each, and what is logged if none can be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.clock import FakeClock
from gua.agent.loop import Loop, due_in_ms, phase_ms, step_ms
from gua.agent.sampler import QueueHealth, Sampler
from gua.core.errors import UnavailableError
from gua.core.ports import Mark, ProcessFacts, RawCard, RawProcess
from gua.core.tick import CardReading, Origin, ProcessReading, ReadError, Tick
from gua.core.words import Source


@given(
    wall_ms=st.integers(0, 2**42),
    interval_ms=st.integers(1_000, 600_000),
    host=st.text(min_size=1),
)
def test_a_tick_is_due_on_the_grid_and_never_more_than_a_tenth_late(wall_ms: int, interval_ms: int, host: str) -> None:
    phase = phase_ms(host, interval_ms)
    left_ms = due_in_ms(wall_ms, interval_ms, phase)
    assert 0 <= phase < interval_ms
    assert (wall_ms + left_ms - phase) % interval_ms == 0
    assert interval_ms / 10 <= left_ms < interval_ms * 1.1


def test_two_hosts_of_a_fleet_have_their_ticks_at_different_moments() -> None:
    assert len({phase_ms(f"node-{number}", 30_000) for number in range(100)}) > 95
    assert phase_ms("node-1", 30_000) == phase_ms("node-1", 30_000)


@pytest.mark.parametrize(
    ("left_ms", "step"), [(30_000, 5_000), (33_000, 4_715), (5_000, 5_000), (5_001, 2_501), (1_000, 1_000), (1, 1)]
)
def test_the_rings_are_drained_in_equal_steps_of_five_seconds_at_most(left_ms: int, step: int) -> None:
    assert step_ms(left_ms) == step


INTERVAL_MS = 30_000


@dataclass
class Cards:
    """One card, whose reading takes ``slow_ms`` of the clock."""

    clock: FakeClock
    slow_ms: int = 0
    gone: bool = False
    drained: list[int] = field(default_factory=list)

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        self.clock.advance(self.slow_ms)
        if self.gone:
            msg = "no driver"
            raise UnavailableError(msg)
        return [
            RawCard(reading=CardReading(uuid="GPU-a", duration_ms=1, gpu_time_ms=0), gpu_fraction=(1, 1), processes=())
        ], []

    def drain(self) -> None:
        self.drained.append(self.clock.monotonic)

    def close(self) -> None:
        pass


class NoFacts:
    def identify(self, process: RawProcess) -> ProcessReading:
        return ProcessReading(pid=process.pid)


@dataclass
class Out:
    """An outbox that keeps what it gets; it survives the agent, as the spool does."""

    mark: Mark | None = None
    trouble: str | None = None
    ticks: list[Tick] = field(default_factory=list)
    made: list[Tick] = field(default_factory=list)

    def put(self, ts_ms: int, raw: bytes, mark: Mark) -> None:
        assert raw == b"encoded"
        assert ts_ms == mark.ts_ms
        self.ticks.append(self.made[-1])
        self.mark = mark


@dataclass
class RecordedEvents:
    ticks: int = 0
    lateness: list[int] = field(default_factory=list)
    skips: Counter[str] = field(default_factory=Counter)
    conditions: dict[str, str] = field(default_factory=dict)

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        self.ticks += bool(tick.cards)
        self.lateness.append(lateness_ms)

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        assert message
        self.skips[reason] += count

    def condition(self, key: str, message: str | None) -> None:
        if message:
            self.conditions[key] = message
        else:
            self.conditions.pop(key, None)

    def alive(self) -> None:
        pass


def agent(
    clock: FakeClock,
    out: Out,
    log: RecordedEvents,
    cards: Cards,
    wait: Callable[[float], bool],
    processes: ProcessFacts = NoFacts(),  # noqa: B008 - it keeps nothing
) -> Loop:
    def encode(tick: Tick) -> bytes:
        out.made.append(tick)
        return b"encoded"

    return Loop(
        sampler=Sampler(
            cards=cards,
            processes=processes,
            clock=clock,
            origin=Origin(host="gpu01", source=Source.AGENT, interval_ms=INTERVAL_MS),
            initial_pid_namespace=True,
        ),
        cards=cards,
        outbox=out,
        clock=clock,
        interval_ms=INTERVAL_MS,
        phase=7_000,
        encode=encode,
        wait=wait,
        watcher=log,
        health=QueueHealth,
        on_tick=lambda: None,
    )


def until(clock: FakeClock, seconds: float) -> Callable[[float], bool]:
    """Return a wait that moves the clock and says to stop once so many seconds have passed."""
    end = clock.monotonic + seconds * 1000

    def wait(step: float) -> bool:
        clock.advance(min(int(step * 1000), max(0, int(end - clock.monotonic))))
        return clock.monotonic >= end

    return wait


def assert_no_overlap(out: Out) -> None:
    assert all(before.ts_ms <= tick.ts_ms - tick.cards[0].duration_ms for before, tick in pairwise(out.ticks))


def test_ticks_come_on_the_grid_and_the_rings_are_drained_between_them() -> None:
    clock, out, log = FakeClock(wall_ms=1_700_000_001_000), Out(), RecordedEvents()
    cards = Cards(clock)
    agent(clock, out, log, cards, until(clock, 3_600)).run()
    on_grid = out.ticks[:-1]
    assert all((tick.ts_ms - 7_000) % INTERVAL_MS == 0 for tick in on_grid)
    assert len(on_grid) == 120
    looks = sorted([*cards.drained, *(tick.ts_ms - clock.wall + clock.monotonic for tick in on_grid)])
    assert max(after - before for before, after in pairwise(looks)) <= 5_000
    assert log.ticks == len(out.ticks)
    assert set(log.lateness) == {0}


def test_every_second_until_the_stop_is_covered() -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    started = clock.wall
    agent(clock, out, log, Cards(clock), until(clock, 95.5)).run()
    assert sum(tick.cards[0].duration_ms for tick in out.ticks) == clock.wall - started == 95_500


def test_a_tick_that_takes_longer_than_the_interval_lets_others_be_missed_and_counted() -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    agent(clock, out, log, Cards(clock, slow_ms=75_000), until(clock, 300)).run()
    assert log.skips["missed"] > 3
    assert_no_overlap(out)


def test_no_driver_is_counted_and_the_next_tick_goes_on() -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    cards = Cards(clock, gone=True)
    loop = agent(clock, out, log, cards, until(clock, 65))
    loop.run()
    assert log.skips["driver"] == 3
    cards.gone = False
    agent(clock, out, log, cards, until(clock, 65)).run()
    assert out.ticks


def test_a_clock_set_back_an_hour_waits_for_nothing_and_one_set_back_a_minute_for_a_minute() -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    agent(clock, out, log, Cards(clock), until(clock, 120)).run()
    clock.wall -= 60_000
    agent(clock, out, log, Cards(clock), until(clock, 120)).run()
    assert log.skips["waiting"] >= 1
    before = len(out.ticks)
    clock.wall -= 3_600_000
    agent(clock, out, log, Cards(clock), until(clock, 60)).run()
    assert log.skips["restarted"] == 1
    assert len(out.ticks) > before


def test_a_stored_mark_that_lies_ahead_of_its_boot_stops_no_tick_and_is_counted_once() -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    agent(clock, out, log, Cards(clock), until(clock, 65)).run()
    assert out.mark is not None
    stored, before = out.mark, len(out.ticks)
    out.mark = replace(stored, monotonic_ms=stored.monotonic_ms + 10**12)
    clock.advance(5_000)
    agent(clock, out, log, Cards(clock), until(clock, 65)).run()
    assert log.skips == {"mark_ahead": 1}
    assert len(out.ticks) - before >= 3
    assert_no_overlap(out)


events = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 400)),
        st.tuples(st.just("down"), st.integers(0, 400)),
        st.tuples(st.just("suspend"), st.integers(1, 100_000)),
        st.tuples(st.just("step"), st.integers(-9 * 60, 100_000)),
        st.tuples(st.just("boot"), st.integers(1, 400)),
        st.tuples(st.just("slow"), st.integers(0, 90_000)),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(events)
def test_whatever_happens_spans_never_overlap_and_never_exceed_the_time_that_passed(
    history: list[tuple[str, int]],
) -> None:
    clock, out, log = FakeClock(), Out(), RecordedEvents()
    really_ms, boots, slow_ms = 0, 0, 0
    for what, amount in [*history, ("run", 100)]:
        before = clock.monotonic
        if what == "run":
            cards = Cards(clock, slow_ms=slow_ms)
            agent(clock, out, log, cards, until(clock, amount)).run()
            really_ms += clock.monotonic - before
        elif what == "down":
            clock.advance(amount * 1000)
            really_ms += amount * 1000
        elif what == "suspend":
            clock.wall += amount * 1000
            really_ms += amount * 1000
        elif what == "step":
            clock.wall += amount * 1000
        elif what == "slow":
            slow_ms = amount
        else:
            boots += 1
            clock.boot, clock.monotonic = f"boot {boots}", 1_000
            clock.wall += amount * 1000
            really_ms += amount * 1000
    if not log.skips["restarted"]:
        assert_no_overlap(out)
    assert sum(tick.cards[0].duration_ms for tick in out.ticks) <= really_ms


def test_a_fault_in_a_tick_is_logged_and_the_next_tick_covers_its_time() -> None:
    class Faulty(NoFacts):
        broken = 0

        def identify(self, process: RawProcess) -> ProcessReading:
            self.broken += 1
            if self.broken == 2:
                msg = "can't start new thread"
                raise RuntimeError(msg)
            return super().identify(process)

    class Held(Cards):
        def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
            (card,), errors = super().read()
            used = RawProcess(pid=7, lists=frozenset({"compute"}), memory_bytes=1, utilization=None)
            return [replace(card, processes=(used,))], errors

    clock, out, log = FakeClock(), Out(), RecordedEvents()
    loop = agent(clock, out, log, Held(clock), until(clock, 300), processes=Faulty())
    begun = clock.monotonic
    loop.run()
    assert log.skips == {"fault": 1}
    assert_no_overlap(out)
    assert sum(tick.cards[0].duration_ms for tick in out.ticks[1:]) == out.ticks[-1].ts_ms - out.ticks[0].ts_ms
    assert out.ticks[-1].ts_ms - clock.wall == 0
    assert clock.monotonic - begun == 300_000
