"""Marks on an axis of time: whole hours or local midnights, so few that their words fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from gua.core.zones import zone

_MOST: Final = 9
_HOUR_STEPS: Final = (1, 2, 3, 6, 12)
_DAY_STEPS: Final = (1, 2, 7, 14, 28, 91, 182, 364, 1820)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER_MS: Final = 900_000
_MS: Final = timedelta(milliseconds=1)


def marks(since_ms: int, until_ms: int, timezone: str) -> list[tuple[float, str]]:
    """Return (place, words) of at most nine marks within a window, places from 0 to 1; midnights tell their date."""
    if until_ms <= since_ms:
        return []
    length_hours = (until_ms - since_ms) / 3_600_000
    for step in _HOUR_STEPS:
        if length_hours / step <= _MOST:
            return list(_hours(since_ms, until_ms, timezone, step))
    step = next((step for step in _DAY_STEPS if length_hours / 24 / step <= _MOST), _DAY_STEPS[-1])
    return list(_days(since_ms, until_ms, timezone, step))


def _hours(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    local_zone = zone(timezone)
    for at_ms in range(-(-since_ms // _QUARTER_MS) * _QUARTER_MS, until_ms, _QUARTER_MS):  # as zones are off by those
        local = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(local_zone)
        place = (at_ms - since_ms) / (until_ms - since_ms)
        if local.minute == 0 and local.hour % step == 0:
            yield place, f"{local:%a %d %b}" if local.hour == 0 else f"{local:%H:%M}"


def _days(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    """Yield every ``step``-th local midnight; weeks begin on Mondays."""
    local_zone = zone(timezone)
    day = (_EPOCH + timedelta(milliseconds=since_ms)).astimezone(local_zone).date()
    while True:
        midnight = (datetime(day.year, day.month, day.day, tzinfo=local_zone) - _EPOCH) // _MS
        place = (midnight - since_ms) / (until_ms - since_ms)
        if place >= 1:
            return
        # Days are counted from a Monday, so that every seventh is one.
        if place >= 0 and (day.toordinal() - 1) % step == 0:
            yield place, f"{day:%a %d %b}"
        day += timedelta(days=1)
