"""Split queries of a large fleet into batches of hosts, so that each fits into a query's memory limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gua.core.ports import Row, ViewReader
from gua.report.hours import PART_CARD_TICKS, Hour
from gua.report.model import Extent

Parts = tuple[tuple[str, ...], ...]
"""The hosts of each batch; empty for a fleet that is queried at once."""


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


def in_parts(reader: ViewReader, parts: Parts) -> ViewReader:
    """Return a reader that runs each query once per batch, in sequence, and yields the rows of all."""
    return _PartReader(reader, parts) if parts else reader


@dataclass(frozen=True)
class _PartReader:
    """A reader that queries a fleet in batches of hosts."""

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
