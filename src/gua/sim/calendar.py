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
