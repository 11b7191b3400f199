"""What becomes of time when clocks are set, hosts sleep, and the agent is held up."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from driver.agent import Agent as DrivenAgent
from driver.fixture import SimulatedDriver
from driver.scenario import Burst, Constant, Process, Scenario, uuid
from driver.scenario import Card as SimulatedCard
from fakes.clock import FakeClock
from fakes.host import HOUR, INTERVAL_MS, Host, show
from fakes.nvml import Card, FakeDriver
from gua.core.tick import Tick
from gua.nvml.reader import NvmlReader
from servers.agent import Agent, assert_spans_never_overlap, observed_ms

DAY = 24 * HOUR
MINUTE = 60
INTERVAL = INTERVAL_MS // 1000


def vm_pause(host: Host, seconds: float) -> None:
    """Stop the whole machine for a while; afterwards both clocks show that the time has passed."""
    host.pass_(round(seconds * 1000))


def frozen(host: Host, seconds: float) -> None:
    """Stop the whole machine for a while without any of its clocks ever showing it."""
    host.really_ms += round(seconds * 1000)


def slept(host: Host, seconds: float) -> None:
    host.suspend(seconds)


def stepped(host: Host, seconds: float) -> None:
    host.step(seconds)


@dataclass(frozen=True)
class Fault:
    """``what`` happens, by so many ``seconds``, 10 minutes and ``into_interval`` seconds after the start.

    ``unobserved`` is the most time, in s, that no tick covers afterwards; ``skipped`` counts ticks that were due.
    """

    what: Callable[[Host, float], None]
    seconds: float
    unobserved: float = 0
    skipped: Mapping[str, range] = field(default_factory=dict)


FAULTS = {
    "forward a day": Fault(stepped, DAY),
    "forward a minute": Fault(stepped, MINUTE),
    "forward 20 seconds": Fault(stepped, 20),
    "back 5 minutes": Fault(stepped, -5 * MINUTE, 5 * MINUTE, {"waiting": range(9, 12)}),
    "back 1 second": Fault(stepped, -1, 1),
    "back an hour": Fault(stepped, -HOUR, 0, {"restarted": range(1, 2)}),
    "back a day": Fault(stepped, -DAY, 0, {"restarted": range(1, 2)}),
    "suspended for 8 hours": Fault(slept, 8 * HOUR, 8 * HOUR),
    "suspended for 40 seconds": Fault(slept, 40, 40),
    "paused for an hour": Fault(vm_pause, HOUR, HOUR, {"missed": range(118, 121)}),
    "frozen for an hour": Fault(frozen, HOUR, HOUR),
}


@pytest.mark.parametrize("into_interval", [0.5, 14, 29.5])
@pytest.mark.parametrize("name", FAULTS)
def test_a_changed_clock_or_a_suspended_host_costs_the_documented_time(
    tmp_path: Path, name: str, into_interval: float
) -> None:
    fault = FAULTS[name]
    with Host(tmp_path / "spool.db") as host:
        started = host.clock.wall
        # The grid's points lie 7 s after whole multiples of the interval.
        host.pass_(INTERVAL_MS - (host.clock.wall - 7_000) % INTERVAL_MS)
        host.start()
        began = host.really_ms
        host.run(HOUR, {10 * MINUTE + into_interval: lambda: fault.what(host, fault.seconds)})
        ticks, elapsed_ms = host.ticks(), host.really_ms - began
        skipped = host.skipped()
        assert_sound(ticks, elapsed_ms, set_back=-fault.seconds if "restarted" in fault.skipped else 0)
        assert ticks[0].ts_ms > started
        unobserved = (elapsed_ms - observed_ms(ticks)) / 1000
        assert 0 <= unobserved <= fault.unobserved + (INTERVAL if fault.unobserved else 0)
        assert {reason: count for reason, count in skipped.items() if count not in fault.skipped.get(reason, ())} == {}
        assert skipped.keys() == fault.skipped.keys()
        assert host.clock.wall - ticks[-1].ts_ms <= INTERVAL_MS
        clock_faults = {error.code for error in (ticks[-1].agent.errors if ticks[-1].agent else ())}
        assert clock_faults == skipped.keys() & {"waiting", "restarted"}
        show(f"{name}, {into_interval:g} s into an interval: {unobserved:.1f} s unobserved, skipped {skipped}")


def assert_sound(ticks: Sequence[Tick], elapsed_ms: int, *, set_back: float = 0) -> None:
    """Check the guarantees; if the clock was set back so far, separately for the ticks before and after."""
    cuts = [0, *(place for place, (one, two) in enumerate(pairwise(ticks), 1) if two.ts_ms <= one.ts_ms), len(ticks)]
    assert len(cuts) == (3 if set_back else 2)
    for start, end in pairwise(cuts):
        assert_spans_never_overlap(ticks[start:end])
    assert observed_ms(ticks) <= elapsed_ms


@pytest.mark.parametrize("sizes", [(-1, 1), (1,), (-1,)], ids=["to and fro", "forward", "back"])
def test_a_clock_that_steps_a_second_with_each_tick_costs_no_more_than_its_steps_back(
    tmp_path: Path, sizes: Sequence[int]
) -> None:
    with Host(tmp_path / "spool.db") as host:
        chance = random.Random(7)  # noqa: S311 - a test that can be repeated
        steps = [chance.choice(sizes) for _ in range(240)]
        host.run(2 * HOUR, {5 + INTERVAL * place: partial(host.step, step) for place, step in enumerate(steps)})
        ticks = host.ticks()
        assert_sound(ticks, host.really_ms)
        unobserved = (host.really_ms - observed_ms(ticks)) / 1000
        assert unobserved <= sum(step < 0 for step in steps)
        assert host.skipped() == {}
        show(f"{sizes} s at each of {len(steps)} ticks: {unobserved:.1f} s of {host.really_ms / 1000:.0f} s unobserved")


@pytest.mark.parametrize("seconds", [3, 5 * MINUTE, HOUR, DAY])
def test_a_clock_that_steps_back_and_forth_a_hundred_times_never_counts_time_twice(
    tmp_path: Path, seconds: float
) -> None:
    with Host(tmp_path / "spool.db") as host:
        chance = random.Random(round(seconds))  # noqa: S311 - likewise
        at = 60.0
        events: dict[float, Callable[[], None]] = {}
        for place in range(100):
            events[at] = partial(host.step, seconds if place % 2 else -seconds)
            at += chance.uniform(10, 100)
        host.run(at + HOUR, events)
        ticks, skipped = host.ticks(), host.skipped()
        assert observed_ms(ticks) <= host.really_ms
        set_back = sum(two.ts_ms <= one.ts_ms for one, two in pairwise(ticks))
        assert set_back == skipped.get("restarted", 0)
        if seconds <= 10 * MINUTE:
            assert_spans_never_overlap(ticks)
        unobserved = (host.really_ms - observed_ms(ticks)) / 1000
        # No tick each time that it was back until it was forward again.
        assert unobserved <= 50 * (100 + 2 * INTERVAL)
        assert host.clock.wall - ticks[-1].ts_ms <= INTERVAL_MS
        show(
            f"100 x {seconds:g} s back and forth: {unobserved:.0f} of {host.really_ms / 1000:.0f} s, skipped {skipped}"
        )


class Sampled(Host):
    """A host whose driver samples its one card five times a second, stamped by the clock as it goes at that moment."""

    def __init__(self, path: Path, percent: Callable[[float], int]) -> None:
        self.percent = percent
        self.card = Card("GPU-a")
        self.read_at: list[int] = []
        clock = FakeClock()
        super().__init__(path, clock=clock, cards=NvmlReader(clock, FakeDriver(self.card)))
        self.on_tick = lambda: self.read_at.append(self.clock.monotonic)

    def pass_(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 200):
            super().pass_(200)
            self.card.gpu = self.percent(self.really_ms / 1000)
            self.card.ring.append((self.clock.wall * 1000, self.card.gpu))
        super().pass_(milliseconds % 200)
        del self.card.ring[:-100]


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("before", [100, 0])
def test_what_the_rings_hold_of_one_clock_is_not_counted_by_another(tmp_path: Path, name: str, before: int) -> None:
    fault = FAULTS[name]
    at = 5 * MINUTE + 3

    def percent(now: float) -> int:
        return before if now <= at else 100 - before

    with Sampled(tmp_path / "spool.db", percent) as host:
        # By the clock that only goes while the host does.
        happened_ms = host.clock.monotonic + at * 1000
        host.run(20 * MINUTE, {at: lambda: fault.what(host, fault.seconds)})
        ticks = list(zip(host.ticks(), host.read_at, strict=True))
    assert_sound(
        [tick for tick, _ in ticks], host.really_ms, set_back=-fault.seconds if "restarted" in fault.skipped else 0
    )
    compared = 0
    for tick, read_ms in ticks:
        card = tick.cards[0]
        assert card.utilization is not None
        assert (card.utilization_coverage_ms or 0) <= card.duration_ms
        wholly_before, wholly_after = read_ms <= happened_ms, read_ms - card.duration_ms >= happened_ms
        if wholly_before or wholly_after:
            expected = (before if wholly_before else 100 - before) / 100
            assert (card.utilization, card.utilization_max) == (expected, expected), (name, read_ms)
            compared += 1
        elif abs(fault.seconds) > 1 and fault.what is not frozen:
            # What lies between the two clocks has no samples.
            assert (card.utilization_coverage_ms or 0) <= read_ms - happened_ms + 200
    assert compared >= len(ticks) - 2 > 10


class World:
    """An agent with the real nvidia-ml-py on the simulated driver, whose clock is a file; it ticks every 30 s."""

    def __init__(self, driver: SimulatedDriver, *cards: SimulatedCard) -> None:
        self.clock = driver.scenario.with_name("clock")
        self.wall, self.monotonic = 1_700_000_000.0, 100_000_000.0
        self.clock.write_text(f"{self.wall * 1e6:.0f}\n")
        driver.write(Scenario(cards, clock=self.clock))
        self.agent = DrivenAgent(driver.environment, self.clock)
        self._set()

    def step(self, seconds: float) -> None:
        self.wall += seconds
        self._set()

    def pass_(self, seconds: float) -> None:
        self.monotonic += seconds
        self.step(seconds)

    def tick(self) -> dict[str, dict[str, Any]] | None:
        """Return the cards of the tick in 30 s, ``None`` if there is none."""
        for _ in range(6):
            self.pass_(5)
            self.agent.do("drain")
        answer = self.agent.do("tick")
        cards: dict[str, dict[str, Any]] | None = answer and answer["cards"]
        return cards

    def _set(self) -> None:
        self.agent.do(f"at {self.wall} {self.monotonic}")


IDLE_CARD, CONSTANT_CARD, BURST_CARD = uuid(1), uuid(2), uuid(3)


@pytest.mark.parametrize(
    "steps",
    [[DAY], [-HOUR], [-90, 90], [8 * HOUR, -8 * HOUR], [-1, 1] * 5, [0.05, -0.05] * 5],
    ids=["day", "hour back", "90 s back and forth", "8 h forth and back", "seconds", "0.05 s"],
)
def test_the_real_library_s_samples_stay_true_across_a_step(
    simulated_driver: SimulatedDriver, steps: list[float]
) -> None:
    world = World(
        simulated_driver,
        SimulatedCard(IDLE_CARD, processes=[Process(7)]),
        SimulatedCard(CONSTANT_CARD, processes=[Process(7, load=Constant(40))]),
        SimulatedCard(BURST_CARD, processes=[Process(7, load=Burst(period_ms=3000, on_ms=300))]),
    )
    try:
        world.tick()
        coverage = []
        for step in [0, *steps, 0, 0]:
            world.pass_(11)
            world.agent.do("drain")
            world.step(step)
            cards = world.tick()
            if cards is None:
                continue
            for uuid_, expected, slack in ((IDLE_CARD, 0, 0), (CONSTANT_CARD, 0.4, 0.001), (BURST_CARD, 0.1, 0.03)):
                card = cards[uuid_]
                assert card["utilization"] == pytest.approx(expected, abs=slack), (step, card)
                assert card["utilization_coverage_ms"] <= card["duration_ms"]
                (process,) = card["processes"]
                assert process["utilization"] == pytest.approx(expected, abs=slack + 0.01), (step, card)
            coverage.append(cards[CONSTANT_CARD]["utilization_coverage_ms"] / cards[CONSTANT_CARD]["duration_ms"])
        assert coverage[-1] > 0.98
    finally:
        world.agent.kill()
    show(f"steps {steps}: samples cover {', '.join(f'{part:.0%}' for part in coverage)} of the ticks")


@pytest.mark.reliability
def test_an_agent_that_is_stopped_for_five_seconds_counts_the_ticks_that_it_missed(agent: Agent) -> None:
    began = time.monotonic()
    agent.start()
    agent.wait_for_ticks(3)
    assert agent.process is not None
    os.kill(agent.process.pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    time.sleep(5)
    os.kill(agent.process.pid, signal.SIGCONT)
    stopped_s = time.monotonic() - stopped_at
    made = len(agent.ticks())
    agent.wait_for_ticks(made + 4)
    status = agent.status()
    agent.stop()
    ticks, elapsed_ms = agent.ticks(), (time.monotonic() - began) * 1000
    assert_sound(ticks, round(elapsed_ms))
    missed = status["ticks"]["skipped"].pop("missed")
    assert 4 <= missed <= stopped_s + 1
    assert status["ticks"]["skipped"] == {}
    gap = max(after.ts_ms - after.cards[0].duration_ms - before.ts_ms for before, after in pairwise(ticks))
    assert 3.5 < gap / 1000 < stopped_s + 1.5
    late = max(tick.agent.tick_lateness_seconds or 0 for tick in ticks if tick.agent)
    assert late > 3.5
    show(f"stopped for 5 s at 1 s: {missed} ticks missed and counted, {gap / 1000:.1f} s unobserved, {late:.1f} s late")
