"""For how long each process has idled: clocks that run from tick to tick, and on through a restart of the agent.

Two kinds run side by side: idle ticks in a row, as in the view gua.idle_streaks, and the rule of gpu-idle-exporter,
two polls in a row at 0 % of a process that holds memory. Besides, which seconds of a card's tick were idle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gua.core.facts import busiest, ratio
from gua.core.rules import ProcessState, Rules, process_state
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType

GAP_MS: Final = 30_000
"""Nobody may have looked for so long, or for twice the longer of the two ticks beside it: the streak goes on."""
RESTART_GAP_MS: Final = 10 * 60 * 1000
"""The same across a restart of the agent: a process that idles before and after it has not begun to idle anew."""
IDLE_POLLS: Final = 2

Key = tuple[str, int, int | None]
"""A process on a card: the card's UUID, pid, start in Unix ms (where a pid passed on, it is another one)."""


class IdleCounter(NamedTuple):
    """One process: when it was last listed and over what span, its idle time, and its polls and time at 0 %.

    ``idle_ms`` is the time of the idle ticks of the present streak, 0 without one, ``zero_ms`` that of the polls at 0 %
    after the second: what no tick covers, or one that could not tell, does not count.
    """

    seen_ms: int
    covered_ms: int
    idle_ms: int = 0
    zero_polls: int = 0
    zero_ms: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether it is idle by the rule of two polls."""
        return self.zero_polls >= IDLE_POLLS


IdleCounters = Mapping[Key, IdleCounter]


def advance(
    before: IdleCounter | None, process: ProcessReading, now: IdleCounter, rules: Rules, *, gap_ms: int = GAP_MS
) -> IdleCounter:
    """Return a process's clock after a tick; ``now`` has the tick's time and span.

    What is unknown neither ends a streak nor counts for it; a single poll at 0 % before it does not count as one of two
    in a row.
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
    """Return for how long the process has idled, 0 for an active one, ``None`` where its state is unknown."""
    # Its state is unknown exactly where its utilization is.
    return None if process.type is ProcessType.IGNORED or process.utilization is None else clock.idle_ms


def kept(before: IdleCounters, now: IdleCounters, ts_ms: int, gap_ms: int) -> dict[Key, IdleCounter]:
    """Return the clocks after a tick: those in it, and those of processes that may still come back and have idled."""
    gone = {
        key: clock
        for key, clock in before.items()
        if key not in now and 0 <= ts_ms - clock.seen_ms <= gap_ms and (clock.idle_ms or clock.zero_polls)
    }
    return {**gone, **now}


def dumps(clocks: IdleCounters) -> bytes:
    """Return what :func:`loads` reads: the clocks that tell something, of processes whose start is known."""
    cards: dict[str, list[list[int]]] = {}
    for (uuid, pid, created_ms), clock in clocks.items():
        if created_ms is not None and (clock.idle_ms or clock.zero_polls):
            cards.setdefault(uuid, []).append([pid, created_ms, *clock])
    return json.dumps(cards, separators=(",", ":")).encode()


def loads(data: bytes) -> dict[Key, IdleCounter]:
    """Return the clocks, none if the data are not what :func:`dumps` wrote."""
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
"""From here on a sample is active. Agents and the simulator judge by the shipped rules: a store's may be others."""

_STEPS: Final = 240
_STEP_WATTS: Final = 0.25


class ToldIdleTime(NamedTuple):
    """Idle time of a tick as it is told [ms], its energy [mJ], and how much of it that is of [ms].

    ``powered_ms`` is ``None`` where the energy is that of all of it, or is not known itself.
    """

    idle_ms: int
    energy_mj: int | None
    powered_ms: int | None


def in_steps(idle_ms: int, energy_mj: int | None, powered_ms: int | None, *, interval_ms: int) -> ToldIdleTime:
    """Return idle time in steps of 1/240 of the interval, its energy in steps of a quarter of a watt over it.

    Of 30 s these are 1/8 s, less than a period of the driver's samples, and 7.5 J. What is stored takes half of the
    room. Up to half a step more may be told than samples cover; readers take no more than that.
    """
    step_ms, step_mj = max(1, interval_ms // _STEPS), max(1, round(interval_ms * _STEP_WATTS))
    told_ms = step_ms * round(idle_ms / step_ms)
    if energy_mj is None or powered_ms is None or not told_ms:
        return ToldIdleTime(told_ms, None, None)
    told_powered_ms = step_ms * round(powered_ms / step_ms)
    if not told_powered_ms:
        return ToldIdleTime(told_ms, None, None)
    told_mj = step_mj * round(energy_mj / step_mj)
    return ToldIdleTime(told_ms, told_mj, None if told_powered_ms == told_ms else told_powered_ms)


def is_told(
    mean: float | None, *, encoder: float | None, decoder: float | None, processes: tuple[ProcessReading, ...]
) -> bool:
    """Return whether a card's samples below active were idle time, by the utilizations of its tick (ratios).

    While an encoder or decoder is active nobody knows, nor where a process was active on a card whose mean is not.
    """
    if max(encoder or 0, decoder or 0) >= ACTIVE_FROM:
        return False
    return (mean or 0) >= ACTIVE_FROM or (busiest(processes) or 0) < ACTIVE_FROM
