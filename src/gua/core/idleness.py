"""Idle time of each process, counted from tick to tick and across restarts of the agent.

Two counters run side by side: consecutive idle ticks, as in the view gua_report.idle_streaks, and the rule of
gpu-idle-exporter (two consecutive polls at 0 % of a process that holds memory).
The module also rounds the idle seconds of a card's tick and decides whether they are known.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gua.core.facts import busiest, ratio
from gua.core.rules import ProcessState, Rules, process_state
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType

GAP_MS: Final = 30_000
"""Longest gap within a streak [ms], or twice the longer of the two adjacent ticks if that is more."""
RESTART_GAP_MS: Final = 10 * 60 * 1000
"""The same across a restart of the agent [ms]: a process that was idle before it and after it stayed idle."""
IDLE_POLLS: Final = 2

Key = tuple[str, int, int | None]
"""A process on a card: the card's UUID, pid, and start [Unix ms], which distinguishes reused pids."""


class IdleCounter(NamedTuple):
    """Counters of one process: its last tick's time and span, idle time, and polls and time at 0 %.

    ``idle_ms`` is the time of the idle ticks in the current streak, 0 without one. ``zero_ms`` is the time of the polls
    at 0 % after the second. Gaps between ticks and ticks of unknown utilization do not count.
    """

    seen_ms: int
    covered_ms: int
    idle_ms: int = 0
    zero_polls: int = 0
    zero_ms: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether the process is idle by the rule of two polls."""
        return self.zero_polls >= IDLE_POLLS


IdleCounters = Mapping[Key, IdleCounter]


def advance(
    before: IdleCounter | None, process: ProcessReading, now: IdleCounter, rules: Rules, *, gap_ms: int = GAP_MS
) -> IdleCounter:
    """Return a process's counter after a tick; ``now`` has the tick's time and span.

    Unknown utilization neither ends a streak nor adds to it. A single poll at 0 % before it is discarded, because the
    two polls must be consecutive.
    """
    if before is None or now.seen_ms - now.covered_ms - before.seen_ms > max(
        gap_ms, 2 * now.covered_ms, 2 * before.covered_ms
    ):
        before = now
    if process.utilization is None:
        zero = (before.zero_polls, before.zero_ms) if before.is_idle else (0, 0)
        return IdleCounter(now.seen_ms, now.covered_ms, before.idle_ms, *zero)
    is_active = process_state(ratio(process.utilization), rules) is ProcessState.ACTIVE
    idle_ms = 0 if is_active else before.idle_ms + now.covered_ms
    if process.utilization > 0 or process.memory_bytes == 0:
        return IdleCounter(now.seen_ms, now.covered_ms, idle_ms)
    zero_ms = before.zero_ms + now.covered_ms if before.is_idle else 0
    return IdleCounter(now.seen_ms, now.covered_ms, idle_ms, min(before.zero_polls + 1, IDLE_POLLS), zero_ms)


def idle_ms(clock: IdleCounter, process: ProcessReading) -> int | None:
    """Return how long the process has been idle [ms], 0 if active, ``None`` if it is ignored or its state unknown."""
    # A process's state is unknown exactly if its utilization is.
    return None if process.type is ProcessType.IGNORED or process.utilization is None else clock.idle_ms


def with_absent(before: IdleCounters, now: IdleCounters, ts_ms: int, gap_ms: int) -> dict[Key, IdleCounter]:
    """Return the counters after a tick: the current ones, and idle ones of absent processes within the gap limit."""
    absent = {
        key: clock
        for key, clock in before.items()
        if key not in now and 0 <= ts_ms - clock.seen_ms <= gap_ms and (clock.idle_ms or clock.zero_polls)
    }
    return {**absent, **now}


def dumps(clocks: IdleCounters) -> bytes:
    """Return non-zero counters of processes with a known start as JSON, the input of :func:`loads`."""
    cards: dict[str, list[list[int]]] = {}
    for (uuid, pid, created_ms), clock in clocks.items():
        if created_ms is not None and (clock.idle_ms or clock.zero_polls):
            cards.setdefault(uuid, []).append([pid, created_ms, *clock])
    return json.dumps(cards, separators=(",", ":")).encode()


def loads(data: bytes) -> dict[Key, IdleCounter]:
    """Return the counters from the output of :func:`dumps`, an empty dict if it is invalid."""
    try:
        cards: dict[str, Any] = json.loads(data)
        return {
            (uuid, int(pid), int(created_ms)): IdleCounter(*map(int, numbers))
            for uuid, rows in cards.items()
            for pid, created_ms, *numbers in rows
        }
    except (ValueError, TypeError, AttributeError):
        return {}


ACTIVE_FROM: Final = Rules().active_utilization
"""Utilization from which a sample is active. Agents and the simulator use the default; a store may be set otherwise."""

_STEPS: Final = 240
_STEP_WATTS: Final = 0.25


def in_steps(
    idle_ms: int, energy_mj: int | None, powered_ms: int | None, *, interval_ms: int
) -> tuple[int, int | None, int | None]:
    """Return idle time [ms] rounded to 1/240 of the interval, its energy [mJ], and the time it covers [ms].

    Energy is rounded to a quarter of a watt over the interval. The covered time is ``None`` if it is the whole idle
    time, or the energy is unknown. At an interval of 30 s the steps are 1/8 s, less than the driver's sampling period,
    and 7.5 J. Rounding halves the stored size. The result may exceed the sampled time by half a step; readers cap it.
    """
    step_ms, step_mj = max(1, interval_ms // _STEPS), max(1, round(interval_ms * _STEP_WATTS))
    rounded_ms = step_ms * round(idle_ms / step_ms)
    covered_ms = 0 if energy_mj is None or powered_ms is None else step_ms * round(powered_ms / step_ms)
    if energy_mj is None or not rounded_ms or not covered_ms:
        return rounded_ms, None, None
    return rounded_ms, step_mj * round(energy_mj / step_mj), None if covered_ms == rounded_ms else covered_ms


def counts_as_idle(
    mean: float | None, *, encoder: float | None, decoder: float | None, processes: tuple[ProcessReading, ...]
) -> bool:
    """Return whether a card's samples below active count as idle time, by the utilizations of its tick (ratios).

    They do not while an encoder or decoder is active, or if a process is active on a card whose mean is not.
    """
    if max(encoder or 0, decoder or 0) >= ACTIVE_FROM:
        return False
    return (mean or 0) >= ACTIVE_FROM or (busiest(processes) or 0) < ACTIVE_FROM
