"""Selection of the hours of a window that are read from hourly rollups or from their ticks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.batches import in_batches
from gua.core.parameters import BOUNDS
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.model import Extent
from gua.report.states import MS_PER_DAY, MS_PER_HOUR

PART_CARD_TICKS: Final = 450_000
FEW_CARD_TICKS: Final = 25_000
"""Card ticks below which hours need no exact number: a tenth of the smallest limit that uses it."""
NO_HOUR: Final = -1  # an empty array literal has no type in SQL
_HOURS_OF_A_DAY: Final = 24


class HourRow(NamedTuple):
    """A UTC hour with ticks, in hours since 1970; whether its rollup is valid, and then its approximate card ticks.

    ``is_merged``: process intervals of its UTC day may be read from ``gua.process_days``.
    """

    hour: int
    is_counted: bool
    is_merged: bool
    card_ticks: Count | None


class Hour(NamedTuple):
    """A UTC hour and its approximate card ticks; 0 for hours read from ticks that are too few to be counted."""

    hour: int
    is_counted: bool
    card_ticks: Count
    is_merged: bool = False


class HourTicks(NamedTuple):
    """A UTC hour in hours since 1970, and its card ticks."""

    hour: int
    card_ticks: Count


HOURS: Final = View("hours", HourRow, BOUNDS)
HOUR_TICKS: Final = View("hour_ticks", HourTicks, ("hosts", "hours"))


def choose_hours(reader: ViewReader, bounds: Mapping[str, object], *, from_ticks: bool = False) -> list[Hour]:
    """Return the hours of the window {since_ms, until_ms, hosts}; with ``from_ticks`` none uses its hourly rollup."""
    return hours_of(reader, bounds, HOURS.rows(reader, bounds), from_ticks=from_ticks)


def hours_of(
    reader: ViewReader,
    bounds: Mapping[str, object],
    rows: Iterable[HourRow],
    *,
    from_ticks: bool = False,
    most_an_hour: int | None = None,
) -> list[Hour]:
    """Return the hours of rows of ``gua_report.hours`` in order; with ``from_ticks`` none uses its hourly rollup.

    Ticks of hours without a rollup are queried, unless at ``most_an_hour`` each they number ``FEW_CARD_TICKS`` or less.
    """
    found = sorted(rows, key=lambda row: row.hour)
    waiting = [row.hour for row in found if row.card_ticks is None]
    ticks: dict[int, int] = {}
    if waiting and (most_an_hour is None or len(waiting) * most_an_hour > FEW_CARD_TICKS):
        ticks = {
            row.hour: row.card_ticks for row in HOUR_TICKS.rows(reader, {"hosts": bounds["hosts"], "hours": waiting})
        }
    return [
        Hour(
            row.hour,
            is_counted=row.is_counted and not from_ticks,
            card_ticks=ticks.get(row.hour, 0) if row.card_ticks is None else row.card_ticks,
            is_merged=row.is_merged and not from_ticks,
        )
        for row in found
    ]


def ticks_an_hour(extents: Iterable[Extent]) -> int | None:
    """Return the maximum number of card ticks per hour; ``None`` where an interval is unknown."""
    rates = [extent.cards * MS_PER_HOUR / extent.interval_ms if extent.interval_ms else None for extent in extents]
    return None if None in rates else round(sum(rate for rate in rates if rate is not None))


def tick_hours(hours: Sequence[Hour]) -> list[int]:
    """Return the hours that are read from their ticks, as the parameter ``tick_hours`` of the views."""
    return [hour.hour for hour in hours if not hour.is_counted] or [NO_HOUR]


def read_of(
    bounds: Mapping[str, object], hours: Sequence[Hour], *, price_starts_ms: Iterable[int] = ()
) -> dict[str, object]:
    """Return the parameters by which views of the window read these hours, from rollups, merged days or ticks.

    ``use_hourly`` is 0 where no hour uses its rollup: the query plan then leaves out the rollup tables. A day in which
    a price starts (``price_starts_ms``, Unix ms) is read by the hour.
    """
    use_hourly = int(any(hour.is_counted for hour in hours))
    days = {hour.hour // _HOURS_OF_A_DAY for hour in hours if hour.is_merged}
    days -= {start_ms // MS_PER_DAY for start_ms in price_starts_ms if start_ms % MS_PER_DAY}
    unmerged = [hour.hour for hour in hours if hour.is_counted and hour.hour // _HOURS_OF_A_DAY not in days]
    return {
        **bounds,
        "tick_hours": tick_hours(hours),
        "use_hourly": use_hourly,
        "days": sorted(days) or [NO_HOUR],
        "unmerged_since_ms": min(unmerged) * MS_PER_HOUR if unmerged else bounds["until_ms"],
    }


Parts = tuple[tuple[str, ...], ...]
"""The hosts of each batch; empty for a fleet that is queried at once."""
MOST_UNROLLED_TICKS: Final = 250_000
"""Card ticks without an hourly rollup: above this many an embedded store rolls them up before it reports."""
MOST_CARD_HOURS_OF_A_PART: Final = 100_000
"""Card-hours of intervals that one query of an embedded store reads: takes 220 MB of its 300."""
MOST_CARD_HOURS_OF_A_SERVERS_PART: Final = 500_000
"""The same for a server, whose readers may use 2 GB a query, in up to a minute."""
MOST_CARD_HOURS_IN_PARTS: Final = 2_000_000
"""Maximum card-hours of default sections that read intervals in batches of hosts: 930 cards over 90 days."""
MOST_CARD_HOURS_AT_ONCE: Final = 500_000
"""Maximum card-hours of default sections that read all hosts in one query: 690 cards over 30 days."""
MOST_CARD_HOURS_OF_TICKS: Final = 2_000_000
"""Maximum card-hours of default sections that read every tick of a process, host by host."""


def card_hours(hours: Sequence[Hour], extents: Iterable[Extent]) -> int:
    """Return the card-hours of a window: its hours with ticks times all cards."""
    return len(hours) * sum(extent.cards for extent in extents)


def most_of_a_part(reader: ViewReader) -> int:
    """Return the card-hours of intervals that one query of this store reads."""
    return MOST_CARD_HOURS_OF_A_PART if reader.is_embedded else MOST_CARD_HOURS_OF_A_SERVERS_PART


def parts_of(extents: Sequence[Extent], hours: int, most: int) -> Parts:
    """Return the hosts in batches of at most ``most`` card-hours over ``hours`` hours; a host is never divided."""
    cards: Counter[str] = Counter()
    for extent in extents:
        cards[extent.host] += extent.cards
    parts = tuple(map(tuple, in_batches(sorted(cards), most, lambda host: cards[host] * hours)))
    return parts if len(parts) > 1 else ()


def parts_of_ticks(extents: Sequence[Extent], hours: Iterable[Hour]) -> Parts:
    """Return the hosts in equal batches, for queries that read the ticks of ``hours``; empty if one query suffices."""
    hosts = sorted({extent.host for extent in extents})
    card_ticks = sum(hour.card_ticks for hour in hours)
    most = max(1, PART_CARD_TICKS * len(hosts) // max(card_ticks, 1))
    return (
        tuple(tuple(hosts[first : first + most]) for first in range(0, len(hosts), most)) if most < len(hosts) else ()
    )
