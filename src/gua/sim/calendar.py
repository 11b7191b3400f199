"""The simulated lab's week: stretches of time that come back every seven days, in UTC.

Everything hangs on the moment alone, never on how long a run is or how often it samples, so that the
same seed shows the same week whatever the other options are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
WEEK_MS: Final = 7 * 24 * HOUR_MS

MON, TUE, WED, THU, FRI, SAT, SUN, NEXT_WEEK = (day * 24 * 60 for day in range(8))
"""Minutes from Monday 00:00 UTC."""

_A_MONDAY_MS: Final = 4 * 24 * HOUR_MS  # 1970-01-05


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``start`` to before ``end``, minutes from Monday 00:00 UTC, every week.

    It may run over the week's end (``end`` beyond :data:`NEXT_WEEK`) but is not longer than a week.
    """

    start: int
    end: int

    def begun_ms(self, ts_ms: int) -> int | None:
        """Return when the stretch around ``ts_ms`` began (Unix ms), ``None`` outside of one."""
        into_ms = (ts_ms - _A_MONDAY_MS - self.start * MINUTE_MS) % WEEK_MS
        return ts_ms - into_ms if into_ms < self.length_ms else None

    def ended_ms(self, ts_ms: int) -> int:
        """Return when the last stretch that is over at a moment (Unix ms) ended."""
        return ts_ms - (ts_ms - _A_MONDAY_MS - self.end * MINUTE_MS) % WEEK_MS

    def changes_ms(self, ts_ms: int) -> int:
        """Return the last moment (Unix ms) up to which it stays as it is at ``ts_ms``: inside of one, or outside."""
        begun_ms = self.begun_ms(ts_ms)
        return self.ended_ms(ts_ms) + self._pause_ms - 1 if begun_ms is None else begun_ms + self.length_ms - 1

    @property
    def _pause_ms(self) -> int:
        return WEEK_MS - self.length_ms

    @property
    def length_ms(self) -> int:
        """How long it is, in ms."""
        return (self.end - self.start) * MINUTE_MS

    def later(self, minutes: int) -> Stretch:
        """Return the stretch moved by some minutes."""
        return Stretch(self.start + minutes, self.end + minutes)


def clock(hours: int, minutes: int = 0) -> int:
    """Return a time of day as minutes from midnight."""
    return 60 * hours + minutes


def daily(days: tuple[int, ...], start: int, end: int) -> tuple[Stretch, ...]:
    """Return the same stretch on several days."""
    return tuple(Stretch(day + start, day + end) for day in days)


def inside(stretches: tuple[Stretch, ...], ts_ms: int) -> bool:
    """Return whether a moment (Unix ms) is in any of the stretches."""
    return any(stretch.begun_ms(ts_ms) is not None for stretch in stretches)
