"""Contention, from the rows of a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, View
from gua.report.prices import PricedTime, Prices
from gua.report.sections.contention.model import Contention


class ContentionRow(NamedTuple):
    """What somebody in want of a card found on a host, or on all of them (``is_total``)."""

    is_total: bool
    host: str
    cards: Count
    free_ms: Count
    contended_ms: Count
    busy_ms: Count
    unknown_ms: Count
    contended_us: Count
    contended_promised_us: Count
    contended_priced: tuple[PricedTime, ...]


CONTENTION: Final = View("contention", ContentionRow, (*READ, *PRICED))


def contention(rows: Iterable[ContentionRow], prices: Prices) -> tuple[Contention, ...]:
    """Return all cards together first, then each host where there are several."""
    found = [
        Contention(
            host=None if row.is_total else row.host,
            cards=row.cards,
            free_ms=row.free_ms,
            contended_ms=row.contended_ms,
            busy_ms=row.busy_ms,
            unknown_ms=row.unknown_ms,
            contended_gpu_ms=row.contended_us / 1000,
            contended_promised_gpu_ms=row.contended_promised_us / 1000,
            cost=prices.cost(row.contended_us, row.contended_priced),
        )
        for row in rows
    ]
    hosts = sorted((one for one in found if one.host is not None), key=lambda one: one.host or "")
    return tuple(hosts) if len(hosts) == 1 else (*(one for one in found if one.host is None), *hosts)
