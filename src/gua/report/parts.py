"""Queries of a large fleet in several parts, each of some hosts, so that each fits into the memory of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gua.core.ports import Row, ViewReader
from gua.report.hours import PART_CARD_TICKS, Hour
from gua.report.model import Extent

Parts = tuple[tuple[str, ...], ...]
"""The hosts of each part; of a fleet that is asked for at once there is none."""


def parts_of(extents: Sequence[Extent], hours: int, most: int) -> Parts:
    """Return the hosts in parts of at most ``most`` card-hours of so many ``hours``; one host is never divided."""
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
    """Return the hosts in parts of equally many, for questions that read the ticks of ``hours``."""
    hosts = sorted({extent.host for extent in extents})
    card_ticks = sum(hour.card_ticks for hour in hours)
    most = max(1, PART_CARD_TICKS * len(hosts) // max(card_ticks, 1))
    return (
        tuple(tuple(hosts[first : first + most]) for first in range(0, len(hosts), most)) if most < len(hosts) else ()
    )


def in_parts(reader: ViewReader, parts: Parts) -> ViewReader:
    """Return a reader that asks each question once for each part, one after the other, and gives the rows of all."""
    return _PartReader(reader, parts) if parts else reader


@dataclass(frozen=True)
class _PartReader:
    """A reader of several parts of a fleet."""

    reader: ViewReader
    parts: Parts

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may ask at the same time."""
        return self.reader.is_concurrent

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Ask for the rows of a view, of the first part first, of the next once those are read."""
        for hosts in self.parts:
            yield from self.reader.rows(view, {**parameters, "hosts": list(hosts)})
