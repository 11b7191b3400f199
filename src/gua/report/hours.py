"""Which hours of a window are read as they were counted, and which from their ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.ports import Row, ViewReader

PART_CARD_TICKS: Final = 450_000
_NO_HOUR: Final = -1  # an empty list of numbers has no type in SQL


@dataclass(frozen=True, kw_only=True, slots=True)
class Hour:
    """A UTC hour with ticks, as a number since 1970: whether its counted rows hold, and its card ticks, about."""

    hour: int
    is_counted: bool
    card_ticks: int


def choose_hours(reader: ViewReader, bounds: Mapping[str, object], *, from_ticks: bool = False) -> list[Hour]:
    """Return the hours of the window {since_ms, until_ms, hosts}, with ``from_ticks`` none of them as counted."""
    return hours_of(reader.rows("hours", bounds), from_ticks=from_ticks)


def hours_of(rows: Iterable[Row], *, from_ticks: bool = False) -> list[Hour]:
    """Return the rows of ``gua_report.hours`` in their order, with ``from_ticks`` none of them as counted."""
    return [
        Hour(hour=row["hour"], is_counted=bool(row["is_counted"]) and not from_ticks, card_ticks=row["card_ticks"])
        for row in sorted(rows, key=lambda row: int(row["hour"]))
    ]


def tick_hours(hours: Sequence[Hour]) -> list[int]:
    """Return the numbers of the hours that are read from their ticks, as the parameter ``ticked`` of the views."""
    return [hour.hour for hour in hours if not hour.is_counted] or [_NO_HOUR]


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
