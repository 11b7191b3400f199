"""What a tick covers: its time, by the last spooled tick's mark, the clocks and the agent's own age; and its samples.

The tick covers (ts - duration, ts] of the wall clock. Whatever restarts, stalls, suspends or clock steps
happen, the spans of one agent never overlap, except after a counted set-back of more than 10 minutes,
and their sum never exceeds the time that really passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from gua.core.ports import Mark, UtilizationSample

SET_BACK_LIMIT_MS: Final = 10 * 60 * 1000
BREAK_INTERVALS: Final = 2


class Outcome(StrEnum):
    """What the clocks said about a tick."""

    CONTINUED = "continued"
    """The tick follows the mark: it covers what passed since then."""
    RESUMED = "resumed"
    """No mark, another boot or a break: it covers one interval at most, and no more than the agent's age."""
    RESTARTED = "restarted"
    """The clock was set back by more than 10 minutes: the mark is dropped. Count and show it."""
    MARK_AHEAD = "mark_ahead"
    """The mark says a later monotonic time than its own boot has reached: it is dropped. Count and show it."""
    WAITING = "waiting"
    """The clock stands at or before the mark: no tick until it passes. Count and show it."""
    TOO_SOON = "too_soon"
    """Less than a millisecond passed: nothing to cover yet."""


class TickCoverage(NamedTuple):
    """``duration_ms`` is 0 where there is no tick."""

    duration_ms: int
    outcome: Outcome


def coverage(now: Mark, mark: Mark | None, *, interval_ms: int, uptime_ms: int) -> TickCoverage:
    """Return what a tick read at ``now`` covers.

    ``mark`` is the last tick that was spooled, ``uptime_ms`` the agent's own age. A break, more than
    two intervals since the mark, is measured by the clock that passed more; a term that does not exist
    (no mark, other boot) is left out, and on the same boot the monotonic clock always bounds the span.
    """
    bounds_ms, outcome = [interval_ms, uptime_ms], Outcome.RESUMED
    if mark is not None:
        wall_ms, monotonic_ms = now.ts_ms - mark.ts_ms, now.monotonic_ms - mark.monotonic_ms
        # Where the system does not tell the boot, a clock that went on counts as the same one: after a restart it only
        # bounds the span more than needed.
        is_same_boot = now.boot_id == mark.boot_id
        passed_ms = [monotonic_ms] if is_same_boot and monotonic_ms >= 0 else []
        if wall_ms < -SET_BACK_LIMIT_MS:
            bounds_ms, outcome = [*bounds_ms, *passed_ms], Outcome.RESTARTED
        elif wall_ms <= 0:
            return TickCoverage(0, Outcome.WAITING)
        elif passed_ms and max(wall_ms, monotonic_ms) <= BREAK_INTERVALS * interval_ms:
            bounds_ms, outcome = [wall_ms, monotonic_ms], Outcome.CONTINUED
        else:
            bounds_ms = [*bounds_ms, wall_ms, *passed_ms]
            if is_same_boot and now.boot_id is not None and not passed_ms:
                outcome = Outcome.MARK_AHEAD
    duration_ms = min(bounds_ms)
    return TickCoverage(duration_ms, outcome) if duration_ms > 0 else TickCoverage(0, Outcome.TOO_SOON)


class Covered(NamedTuple):
    """Ratios over a span, and how many of its milliseconds samples cover; ``None`` is unknown.

    ``idle_ms`` is how much of what samples cover lay below active, ``idle_mj`` the energy of ``powered_ms`` of that.
    """

    mean: float | None
    largest: float | None
    coverage_ms: int | None
    idle_ms: int | None = None
    idle_mj: int | None = None
    powered_ms: int | None = None


def cover(samples: Iterable[UtilizationSample], instant: float | None, *, start_ms: int, end_ms: int) -> Covered:
    """Return the utilization over (start_ms, end_ms], both Unix time.

    The mean weighs each sample by the part of it inside the span; what no sample covers counts at the
    instant value, or not at all where that is unknown. Samples come oldest first; where one begins before
    the one before it ends, the time counts for the earlier one, so that coverage is never more than the span.
    """
    coverage_ms = idle_ms = powered_ms = 0
    weighted = idle_mj = 0.0
    largest = instant
    covered_until_ms = start_ms
    is_idle_told = True
    for sample in samples:
        sample_start_ms, sample_end_ms, utilization, sample_largest, sample_idle_ms, sample_powered_ms, sample_mj = (
            sample
        )
        until_ms = min(sample_end_ms, end_ms)
        length_ms = until_ms - max(sample_start_ms, covered_until_ms)
        if length_ms <= 0:
            continue
        coverage_ms += length_ms
        weighted += length_ms * utilization
        covered_until_ms = until_ms
        if largest is None or sample_largest > largest:
            largest = sample_largest
        if sample_idle_ms is None:
            is_idle_told = False
        elif sample_idle_ms:
            whole_ms = sample_end_ms - sample_start_ms
            if length_ms == whole_ms:
                idle_ms += sample_idle_ms
                powered_ms += sample_powered_ms
                idle_mj += sample_mj
            else:
                part = length_ms / whole_ms
                idle_ms += round(sample_idle_ms * part)
                powered_ms += round(sample_powered_ms * part)
                idle_mj += sample_mj * part
    if instant is not None:
        mean = (weighted + (end_ms - start_ms - coverage_ms) * instant) / (end_ms - start_ms)
    elif coverage_ms:
        mean = weighted / coverage_ms
    else:
        return Covered(mean=None, largest=None, coverage_ms=None)
    is_powered = is_idle_told and powered_ms > 0
    return Covered(
        mean=mean,
        largest=largest,
        coverage_ms=coverage_ms,
        idle_ms=idle_ms if coverage_ms and is_idle_told else None,
        idle_mj=round(idle_mj) if is_powered else None,
        powered_ms=powered_ms if is_powered else None,
    )
