"""How long a tick covers: from the last spooled tick's mark, the clocks and the agent's own age.

The tick covers (ts - duration, ts] of the wall clock. Whatever restarts, stalls, suspends or clock steps
happen, the spans of one agent never overlap, except after a counted set-back of more than 10 minutes,
and their sum never exceeds the time that really passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gua.core.ports import Mark

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


@dataclass(frozen=True, kw_only=True, slots=True)
class TickCoverage:
    """``duration_ms`` is 0 where there is no tick."""

    duration_ms: int
    outcome: Outcome


def coverage(now: Mark, mark: Mark | None, *, interval_ms: int, uptime_ms: int) -> TickCoverage:
    """Return what a tick read at ``now`` covers.

    ``mark`` is the last tick that was spooled, ``uptime_ms`` the agent's own age. A break, more than
    two intervals since the mark, is measured by the clock that passed more; a term that does not exist
    (no mark, other boot) is left out, and on the same boot the monotonic clock always bounds the span.
    """
    if mark is None:
        return _covering(min(interval_ms, uptime_ms), Outcome.RESUMED)
    wall_ms = now.ts_ms - mark.ts_ms
    monotonic_ms = now.monotonic_ms - mark.monotonic_ms if _same_boot(now, mark) else None
    bounds_ms = [wall_ms] if monotonic_ms is None else [wall_ms, monotonic_ms]
    fresh_ms = [interval_ms, uptime_ms]
    if wall_ms < -SET_BACK_LIMIT_MS:
        return _covering(min(fresh_ms + bounds_ms[1:]), Outcome.RESTARTED)
    if wall_ms <= 0:
        return TickCoverage(duration_ms=0, outcome=Outcome.WAITING)
    if now.boot_id is not None and now.boot_id == mark.boot_id and monotonic_ms is None:
        return _covering(min(fresh_ms + bounds_ms), Outcome.MARK_AHEAD)
    if monotonic_ms is None or max(bounds_ms) > BREAK_INTERVALS * interval_ms:
        return _covering(min(fresh_ms + bounds_ms), Outcome.RESUMED)
    return _covering(min(bounds_ms), Outcome.CONTINUED)


def _covering(duration_ms: int, outcome: Outcome) -> TickCoverage:
    if duration_ms <= 0:
        return TickCoverage(duration_ms=0, outcome=Outcome.TOO_SOON)
    return TickCoverage(duration_ms=duration_ms, outcome=outcome)


def _same_boot(now: Mark, mark: Mark) -> bool:
    """Return whether both moments can be of one boot, in which the monotonic clock never goes back.

    Where the system does not tell, a clock that went on counts as the same boot: after a restart it only bounds the
    span more than needed.
    """
    return now.boot_id == mark.boot_id and now.monotonic_ms >= mark.monotonic_ms
