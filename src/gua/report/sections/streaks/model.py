"""Streaks, not averages: idle streaks of processes, and what a rule that reclaims cards would give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gua.report.costs import OneCost
from gua.report.kit.fields import Hours, Seconds

LONGER_THAN_MS: Final = (0, 3_600_000, 8 * 3_600_000, 24 * 3_600_000)
WHAT_IF_LIMITS_MS: Final = tuple(minutes * 60_000 for minutes in (5, 15, 30, 60, 120, 240, 480, 1440))
FALSE_ALARM_MS: Final = 10 * 60_000
"""A reclaim is a false alarm if the process would have been active again within this time [ms]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreakClass:
    """Idle streaks longer than ``longer_than_ms``: how many, of how many holders, and the time in them [ms].

    ``idle_ms`` is the processes' own idle time, ``idle_held_gpu_ms`` the GPU time attributed to them while the card
    was idle-held, ``cost`` what that cost.
    """

    longer_than_ms: Seconds[int]
    streaks: int
    holders: int
    idle_ms: Hours[int]
    idle_held_gpu_ms: Hours[float]
    cost: OneCost = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIf:
    """A rule "who is idle for more than ``limit_ms`` loses the card", played over the window.

    ``gpu_ms``: GPU time given back, and what it ``cost``: that attributed to the process while the card was idle-held,
    after the first ``limit_ms`` of each idle streak. ``reclaims``: streaks that reach the limit; ``holders``: of how
    many holders (Slurm job, else pod, else container, else owner). ``false_alarms``: those whose process was active
    again within :data:`FALSE_ALARM_MS` after the limit.
    """

    limit_ms: Seconds[int]
    gpu_ms: Hours[float]
    cost: OneCost = None
    reclaims: int
    holders: int
    false_alarms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfEmpty:
    """A rule "what is allocated and empty for more than ``limit_ms`` is taken back", played over the window.

    ``gpu_ms``: GPU time given back, and what it ``cost``: of each card of an allocation, after the first ``limit_ms``
    of each streak in which nobody was there. ``reclaims``: streaks that reach the limit; ``allocations``: of how many.
    ``false_alarms``: those whose owner came within :data:`FALSE_ALARM_MS` after the limit.
    """

    limit_ms: Seconds[int]
    gpu_ms: Hours[float]
    cost: OneCost = None
    reclaims: int
    allocations: int
    false_alarms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Streaks:
    """The distribution, its classes one within the other, and the limits of what-if.

    ``unknown_gpu_ms``: idle-held GPU time in hours of which no streaks were kept. ``what_if_empty`` are the same limits
    for what is allocated and empty; none of them where nobody looks at allocation.
    """

    classes: tuple[StreakClass, ...]
    what_if: tuple[WhatIf, ...]
    unknown_gpu_ms: Hours[float]
    what_if_empty: tuple[WhatIfEmpty, ...] = ()
