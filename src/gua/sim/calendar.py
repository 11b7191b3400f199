"""The simulated lab's week in UTC, and the times of its agent's ticks.

Periods repeat every seven days. State depends on the time alone, not on duration or interval: a seed gives
the same week with any other options.

Tick spans follow the real agent's rule: a tick covers the time since the previous one. The first tick, and one after a
break of more than two intervals, covers at most one interval, and at most the agent's age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
WEEK_MS: Final = 7 * 24 * HOUR_MS

MON, TUE, WED, THU, FRI, SAT, SUN, NEXT_WEEK = (day * 24 * 60 for day in range(8))
"""Minutes from Monday 00:00 UTC."""

_A_MONDAY_MS: Final = 4 * 24 * HOUR_MS  # 1970-01-05


@dataclass(frozen=True, slots=True)
class Stretch:
    """Weekly period from ``start`` up to before ``end``, in minutes from Monday 00:00 UTC.

    It may cross the week's end (``end`` beyond :data:`NEXT_WEEK`) but is at most a week long.
    """

    start: int
    end: int

    def begun_ms(self, ts_ms: int) -> int | None:
        """Return the beginning [Unix ms] of the occurrence that contains ``ts_ms``; ``None`` outside."""
        into_ms = (ts_ms - _A_MONDAY_MS - self.start * MINUTE_MS) % WEEK_MS
        return ts_ms - into_ms if into_ms < self.length_ms else None

    def ended_ms(self, ts_ms: int) -> int:
        """Return the end [Unix ms] of the last occurrence that has ended by ``ts_ms``."""
        return ts_ms - (ts_ms - _A_MONDAY_MS - self.end * MINUTE_MS) % WEEK_MS

    def changes_ms(self, ts_ms: int) -> int:
        """Return the last time [Unix ms] up to which being inside or outside stays as at ``ts_ms``."""
        begun_ms = self.begun_ms(ts_ms)
        if begun_ms is None:
            return self.ended_ms(ts_ms) + WEEK_MS - self.length_ms - 1
        return begun_ms + self.length_ms - 1

    @property
    def length_ms(self) -> int:
        """Length of the period [ms]."""
        return (self.end - self.start) * MINUTE_MS

    def later(self, minutes: int) -> Stretch:
        """Return the period shifted by ``minutes``."""
        return Stretch(self.start + minutes, self.end + minutes)


def clock(hours: int, minutes: int = 0) -> int:
    """Return a time of day as minutes from midnight."""
    return 60 * hours + minutes


def daily(days: tuple[int, ...], start: int, end: int) -> tuple[Stretch, ...]:
    """Return the same period for several days."""
    return tuple(Stretch(day + start, day + end) for day in days)


def begun(stretches: tuple[Stretch, ...], ts_ms: int) -> int | None:
    """Return the beginning [Unix ms] of the first period that contains ``ts_ms``; ``None`` outside of all."""
    return next((at for stretch in stretches if (at := stretch.begun_ms(ts_ms)) is not None), None)


_BREAK_INTERVALS = 2
_SHORTEST_MS = 1
_LARGEST_PHASE_MS = 500


@dataclass(frozen=True, slots=True)
class Absence:
    """Period without ticks. ``restarts``: a new agent process starts at its end."""

    stretch: Stretch
    restarts: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TickSpan:
    """Times of one tick. ``continued``: it covers all time since the previous tick."""

    ts_ms: int
    duration_ms: int
    lateness_ms: int
    started_ms: int
    continued: bool


def spans(*, end_ms: int, ticks: int, interval_ms: int, absences: Sequence[Absence], rng: Random) -> Iterator[TickSpan]:
    """Yield the spans of ``ticks`` grid points, oldest first, the last one just before ``end_ms`` [Unix ms].

    Each tick is a few ms late, as on a real host. Grid points inside an absence yield nothing.
    """
    jitter_ms = min(40, interval_ms // 20)  # invented: scheduling delay on a busy host
    last_grid_ms = end_ms - rng.randint(jitter_ms, _LARGEST_PHASE_MS)
    first_grid_ms = last_grid_ms - (ticks - 1) * interval_ms
    started_ms = first_grid_ms - round(interval_ms * rng.uniform(0.2, 0.9))
    mark_ms: int | None = None
    for grid_ms in range(first_grid_ms, last_grid_ms + 1, interval_ms):
        lateness_ms = rng.randint(1, jitter_ms)
        ts_ms = grid_ms + lateness_ms
        absent = False
        for absence in absences:
            begun_ms = absence.stretch.begun_ms(ts_ms)
            if begun_ms is not None:
                absent = True
                if absence.restarts:
                    started_ms = begun_ms + absence.stretch.length_ms
        if absent:
            continue
        since_ms = None if mark_ms is None else ts_ms - mark_ms
        continued = since_ms is not None and since_ms <= _BREAK_INTERVALS * interval_ms
        terms_ms = [since_ms] if continued else [interval_ms, ts_ms - started_ms, since_ms]
        yield TickSpan(
            ts_ms=ts_ms,
            duration_ms=max(_SHORTEST_MS, min(term for term in terms_ms if term is not None)),
            lateness_ms=lateness_ms,
            started_ms=started_ms,
            continued=continued,
        )
        mark_ms = ts_ms
