"""Which seconds of a tick were idle, although the tick as a whole may be active.

The driver's samples tell of kernels. They leave the video engines out, and so do not tell idle from busy seconds of a
card on which one of those is at work.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.facts import busiest
from gua.core.rules import Rules
from gua.core.tick import ProcessReading

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
