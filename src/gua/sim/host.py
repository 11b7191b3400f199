"""Simulated ticks of one host: cards, people, and an agent with interruptions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import Final

from gua.core.allocation import AllocationMatcher
from gua.core.errors import UsageError
from gua.core.moments import format_duration
from gua.core.tick import AgentReading, AllocationSourceReading, CardReading, ErrorCount, Origin, ReadError, Tick
from gua.core.words import Source
from gua.sim.calendar import MINUTE_MS, THU, TUE, Absence, Stretch, TickSpan, clock, spans
from gua.sim.cards import PartitionedCard, Simulated, WholeCard, card_slot
from gua.sim.habits import (
    HabitSetting,
    empty,
    inference,
    instance_kernel,
    notebook,
    orphan,
    shared,
    training,
    workstation,
)
from gua.sim.scheduler import ROLES, Scheduler

DAY_MS: Final = 24 * 60 * MINUTE_MS
END_MS: Final = 1_774_627_200_000
"""Fixed end of simulated time, so that a demo is the same on any day: Friday 2026-03-27 16:00 UTC.

A working afternoon, so that a short simulation shows people at work; a week that ends here has every habit.
"""

DEFAULT_INTERVAL_MS: Final = 5 * MINUTE_MS
DEFAULT_DAYS: Final = 7
SHORTEST_INTERVAL_MS: Final = 1_000
LONGEST_INTERVAL_MS: Final = 10 * MINUTE_MS
MOST_CARDS: Final = 256
LONGEST_MS: Final = 366 * DAY_MS
_PHASE_MS: Final = 500
"""Largest distance [ms] of the last grid point from ``end_ms`` (:func:`.calendar.spans`)."""

HOST: Final = "demo-host"
INSTANCE_ID: Final = "demo"
DEFAULT_CARDS: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """Parameters of a simulation: ``ticks`` grid points, ``interval_ms`` apart, on a host with ``gpus`` cards.

    Grid points during the agent's absence yield no tick. Raises UsageError for values out of range.
    """

    seed: int = 0
    gpus: int = DEFAULT_CARDS
    ticks: int = DEFAULT_DAYS * DAY_MS // DEFAULT_INTERVAL_MS
    interval_ms: int = DEFAULT_INTERVAL_MS

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= MOST_CARDS:
            raise UsageError(f"--gpus {self.gpus} is not within 1 and {MOST_CARDS}: give another number of cards")
        if not SHORTEST_INTERVAL_MS <= self.interval_ms <= LONGEST_INTERVAL_MS:
            msg = f"--interval {format_duration(self.interval_ms)} is not within 1s and 10m: give another, as in 5m"
            raise UsageError(msg)
        if self.ticks < 1:
            raise UsageError(f"{self.ticks} ticks are nothing to simulate: give --ticks or --days of 1 or more")
        if self.ticks * self.interval_ms > LONGEST_MS:
            msg = f"{self.ticks} ticks of {format_duration(self.interval_ms)} are longer than 366 days: give fewer"
            raise UsageError(msg)


def demo_origin(interval_ms: int) -> Origin:
    """Return the default origin of simulated ticks."""
    return Origin(host=HOST, source=Source.SIMULATOR, interval_ms=interval_ms, instance_id=INSTANCE_ID)


def simulate(
    scenario: Scenario, *, end_ms: int = END_MS, origin: Origin | None = None, interrupted: bool = True
) -> Iterator[Tick]:
    """Yield the ticks of a host, oldest first, with the last grid point just before ``end_ms`` (Unix ms).

    Without ``interrupted`` the agent has no absences. Equal arguments give equal ticks on any machine.
    """
    own_origin = demo_origin(scenario.interval_ms) if origin is None else origin
    cards = [_card(scenario.seed, index) for index in range(scenario.gpus)]
    scheduler = Scheduler([(_setting(scenario.seed, index), card.uuids) for index, card in enumerate(cards)])
    matcher = AllocationMatcher()
    rng = _rng(scenario.seed, "agent")
    failures: Counter[tuple[str, str]] = Counter()
    agent_ms = 0
    for span in spans(
        end_ms=end_ms,
        ticks=scenario.ticks,
        interval_ms=scenario.interval_ms,
        absences=_absences(scenario.interval_ms) if interrupted else (),
        rng=_rng(scenario.seed, "clock"),
    ):
        if span.started_ms != agent_ms:
            agent_ms = span.started_ms
            failures.clear()
        look = scheduler.look(span.ts_ms - span.duration_ms, span.ts_ms)
        errors: list[ReadError] = []
        readings: list[CardReading] = []
        for card in cards:
            readings += card.read(span, errors)
        for reading in readings:
            matcher.allocate(reading, look, ts_ms=span.ts_ms)
        failures.update((error.call, error.code) for error in errors)
        yield Tick(
            ts_ms=span.ts_ms,
            origin=own_origin,
            cards=tuple(readings),
            agent=_agent(span, failures, rng),
            errors=tuple(errors),
            allocation_sources=tuple(
                AllocationSourceReading(source=each.source, duration_ms=span.duration_ms, reason=each.reason)
                for each in look.sources
            ),
        )


def simulate_from(begin_ms: int, *, seed: int, gpus: int, interval_ms: int, origin: Origin) -> Iterator[Tick]:
    """Yield the ticks after ``begin_ms`` (Unix ms), oldest first, for 366 days; generated lazily.

    No tick covers time before ``begin_ms``. If it is the ``ts_ms`` of an earlier simulation's last tick, both continue
    like a restarted agent's ticks. The agent has no absences, which a live viewer would take for faults.
    Raises UsageError for values out of range.
    """
    scenario = Scenario(seed=seed, gpus=gpus, interval_ms=interval_ms, ticks=LONGEST_MS // interval_ms)
    end_ms = begin_ms + scenario.ticks * interval_ms + _PHASE_MS
    return simulate(scenario, end_ms=end_ms, origin=origin, interrupted=False)


# Most instructive first: a host of fewer cards has the first roles, a larger one repeats them. The card with
# ``instance_kernel`` is partitioned into MIG instances.
_ROLES: Final = (notebook, training, inference, orphan, instance_kernel, shared, training, workstation)


def _card(seed: int, index: int) -> Simulated:
    habit, setting = _ROLES[index % ROLES], _setting(seed, index)
    slot, rng = card_slot(seed, index), _rng(seed, f"card {index}")
    if habit is instance_kernel:
        return PartitionedCard(slot, (habit(setting), empty), rng)
    return WholeCard(slot, habit(setting), rng)


def _setting(seed: int, index: int) -> HabitSetting:
    rng = _rng(seed, f"habit {index}")
    return HabitSetting(seed=seed, rng=rng, name=f"{seed}:{index}", round=index // ROLES)


def _absences(interval_ms: int) -> tuple[Absence, ...]:
    """Return Tuesday's restart, which exceeds two intervals, and Thursday's hour without ticks."""
    restart = TUE + clock(10, 42)
    minutes = max(11, ceil(2.2 * interval_ms / MINUTE_MS))
    return (
        Absence(Stretch(restart, restart + minutes), restarts=True),
        Absence(Stretch(THU + clock(2), THU + clock(3)), restarts=False),
    )


def _agent(span: TickSpan, failures: Counter[tuple[str, str]], rng: Random) -> AgentReading:
    waiting = rng.randint(0, 2)
    return AgentReading(
        started_ms=span.started_ms,
        tick_duration_seconds=rng.randint(28, 61) / 1000,  # invented
        tick_lateness_seconds=span.lateness_ms / 1000,
        spool_ticks=waiting,
        spool_bytes=4_096 * waiting,
        dropped_ticks=0,
        errors=tuple(ErrorCount(call=call, code=code, count=count) for (call, code), count in sorted(failures.items())),
    )


def _rng(seed: int, name: str) -> Random:
    # Random hashes a text seed itself, equally on every machine.
    return Random(f"{seed}:{name}")  # noqa: S311 - a simulation, not a secret
