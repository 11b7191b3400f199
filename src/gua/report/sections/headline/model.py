"""What the idle-held hours are made of, so that a bursty server and an abandoned notebook do not look alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONG_STREAK_MS: Final = 30 * 60_000
"""A streak of idle-held ticks of a card from this length on is a long one [ms]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSplit:
    """GPU time in ms of idle-held cards by the streak it lies in: together the idle-held time of the headline.

    A streak is idle-held ticks of one card in a row: an active or truly-idle tick ends it; an unknown tick, or a gap of
    up to twice the longer of the two ticks beside it, does not. ``never_used``: no engine, process or sample of any
    tick of the streak was above 0. ``low``: some was, and stayed below ``active_utilization``. ``long`` is the part
    in streaks of :data:`LONG_STREAK_MS` and more. ``unknown``: counted in hours whose ticks are gone and whose streaks
    nobody kept. A streak is what lies of it in the window.
    """

    never_used_gpu_ms: float
    never_used_long_gpu_ms: float
    low_gpu_ms: float
    low_long_gpu_ms: float
    unknown_gpu_ms: float

    @property
    def long_gpu_ms(self) -> float:
        """Return the GPU time in long streaks."""
        return self.never_used_long_gpu_ms + self.low_long_gpu_ms
