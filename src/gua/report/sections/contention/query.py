"""Contention, from the rows of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.allocation_sources import SourceRow
from gua.report.prices import PricedTime, Prices
from gua.report.questions import Answer, ask
from gua.report.sections.contention.model import Contention
from gua.report.waits import WaitsRow


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


def ask_contention(reader: ViewReader, read: Mapping[str, object], prices: Prices) -> Answer[ContentionRow]:
    """Query what somebody in want of a card found."""
    return ask(reader, CONTENTION, {**read, **prices.parameters})


def contention(
    rows: Iterable[ContentionRow], prices: Prices, waits: Sequence[WaitsRow] = (), sources: Sequence[SourceRow] = ()
) -> tuple[Contention, ...]:
    """Return all cards together first, then each host where there are several."""
    told = {row.host for row in waits}
    untold = {row.host: row.ok_ms + row.failed_ms for row in sources if row.source == "gua" and row.host not in told}
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
            **_waited(
                [each for each in waits if row.is_total or each.host == row.host],
                sum(ms for host, ms in untold.items() if row.is_total or host == row.host),
            ),
        )
        for row in rows
    ]
    hosts = sorted((one for one in found if one.host is not None), key=lambda one: one.host or "")
    return tuple(hosts) if len(hosts) == 1 else (*(one for one in found if one.host is None), *hosts)


def _waited(of: Sequence[WaitsRow], untold_ms: int) -> dict[str, Any]:
    """Return the waits of some hosts as fields; at the same time there may have waited fewer than the sum.

    ``untold_ms``: how long cards were given out on those of which no tick tells.
    """
    if not of:
        return {"waits_unknown_ms": untold_ms} if untold_ms else {}
    return {
        "most_waiting": max(row.waiting for row in of),
        "wait_ms": sum(row.wait_ms for row in of),
        "waited_ms": sum(row.waited_ms for row in of),
        "waited_empty_gpu_ms": sum(row.empty_us for row in of) / 1000,
        "waited_held_gpu_ms": sum(row.held_us for row in of) / 1000,
        "waited_others_gpu_ms": sum(row.used_by_others_us for row in of) / 1000,
        "waited_free_gpu_ms": sum(row.free_us for row in of) / 1000,
        "waits_unknown_ms": sum(row.untold_ms for row in of) + untold_ms,
    }
