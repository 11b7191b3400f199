"""Which hours of a window are read as they were counted, and which from their ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, BY_DAY
from gua.core.ports import ViewReader
from gua.core.view import Count, View

PART_CARD_TICKS: Final = 450_000
_NO_HOUR: Final = -1  # an empty list of numbers has no type in SQL


class Hour(NamedTuple):
    """A UTC hour with ticks, as a number since 1970: whether its counted rows hold, and its card ticks, about."""

    hour: int
    is_counted: bool
    card_ticks: Count


HOURS: Final = View("hours", Hour, BOUNDS, optional=BY_DAY)


def choose_hours(reader: ViewReader, bounds: Mapping[str, object], *, from_ticks: bool = False) -> list[Hour]:
    """Return the hours of the window {since_ms, until_ms, hosts}, with ``from_ticks`` none of them as counted."""
    return hours_of(HOURS.rows(reader, bounds), from_ticks=from_ticks)


def hours_of(rows: Iterable[Hour], *, from_ticks: bool = False) -> list[Hour]:
    """Return the rows of ``gua_report.hours`` in their order, with ``from_ticks`` none of them as counted."""
    return [row._replace(is_counted=row.is_counted and not from_ticks) for row in sorted(rows)]


def tick_hours(hours: Sequence[Hour]) -> list[int]:
    """Return the numbers of the hours that are read from their ticks, as the parameter ``tick_hours`` of the views."""
    return [hour.hour for hour in hours if not hour.is_counted] or [_NO_HOUR]


def read_of(bounds: Mapping[str, object], hours: Sequence[Hour]) -> dict[str, object]:
    """Return the parameters by which views of the window read these hours, as counted or from their ticks.

    Where none is read as it was counted, nothing that reads counted hours is planned.
    """
    use_hourly = int(any(hour.is_counted for hour in hours))
    return {**bounds, "tick_hours": tick_hours(hours), "use_hourly": use_hourly}


def parts(hours: Sequence[Hour]) -> Iterator[list[int]]:
    """Yield the hours that are read from their ticks in parts of a bounded number of card ticks, one part at least."""
    part: list[int] = []
    card_ticks = 0
    for hour in hours:
        if hour.is_counted:
            continue
        if card_ticks >= PART_CARD_TICKS:
            yield part
            part, card_ticks = [], 0
        part.append(hour.hour)
        card_ticks += hour.card_ticks
    yield part or [_NO_HOUR]
