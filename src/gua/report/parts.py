"""Size limits, and batches of hosts for queries of a large fleet, so that each fits into a query's memory limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.ports import Row, ViewReader
from gua.report.hours import PART_CARD_TICKS, Hour
from gua.report.model import Extent

Parts = tuple[tuple[str, ...], ...]
"""The hosts of each batch; empty for a fleet that is queried at once."""
MOST_UNROLLED_TICKS: Final = 250_000
"""Card ticks without an hourly rollup: above this many an embedded store rolls them up before it reports."""
MOST_CARD_HOURS_OF_A_PART: Final = 100_000
"""Card-hours of process intervals that one query reads: takes 220 MB of the embedded engine's 300."""
MOST_CARD_HOURS_IN_PARTS: Final = 2_000_000
"""Maximum card-hours of default sections that read intervals in batches of hosts: 930 cards over 90 days."""
MOST_CARD_HOURS_AT_ONCE: Final = 500_000
"""Maximum card-hours of default sections that read all hosts in one query: 690 cards over 30 days."""
MOST_CARD_HOURS_OF_TICKS: Final = 2_000_000
"""Maximum card-hours of default sections that read every tick of a process, host by host."""


def card_hours(hours: Sequence[Hour], extents: Iterable[Extent]) -> int:
    """Return the card-hours of a window: its hours with ticks times all cards."""
    return len(hours) * sum(extent.cards for extent in extents)


def parts_of(extents: Sequence[Extent], hours: int, most: int) -> Parts:
    """Return the hosts in batches of at most ``most`` card-hours over ``hours`` hours; a host is never divided."""
    cards: dict[str, int] = {}
    for extent in extents:
        cards[extent.host] = cards.get(extent.host, 0) + extent.cards
    parts: list[list[str]] = [[]]
    filled = 0
    for host in sorted(cards):
        if parts[-1] and (filled + cards[host]) * hours > most:
            parts.append([])
            filled = 0
        parts[-1].append(host)
        filled += cards[host]
    return tuple(map(tuple, parts)) if len(parts) > 1 else ()


def parts_of_ticks(extents: Sequence[Extent], hours: Iterable[Hour]) -> Parts:
    """Return the hosts in equal batches, for queries that read the ticks of ``hours``; empty if one query suffices."""
    hosts = sorted({extent.host for extent in extents})
    card_ticks = sum(hour.card_ticks for hour in hours)
    most = max(1, PART_CARD_TICKS * len(hosts) // max(card_ticks, 1))
    return (
        tuple(tuple(hosts[first : first + most]) for first in range(0, len(hosts), most)) if most < len(hosts) else ()
    )


@dataclass(frozen=True)
class PartReader:
    """A reader that runs each query once per batch of hosts, in sequence, and yields the rows of all."""

    reader: ViewReader
    parts: Parts

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may query at the same time."""
        return self.reader.is_concurrent

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Yield the rows of a view batch by batch; the next batch is queried once the rows before are read."""
        for hosts in self.parts:
            yield from self.reader.rows(view, {**parameters, "hosts": list(hosts)})
