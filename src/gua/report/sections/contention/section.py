"""Contention: how long nobody could get a card while cards were held that did nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.allocation_sources import ask_sources
from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.contention import text
from gua.report.sections.contention.model import Contention, Contentions
from gua.report.sections.contention.query import ask_contention, contention
from gua.report.size_limit import MOST_CARD_HOURS_AT_ONCE
from gua.report.waits import ask_waits


def _collect(asking: Asking) -> Finish:
    sources = asking.once(ask_sources)
    answer = asking.once(ask_contention, asking.prices)
    waits = asking.once(ask_waits, sources)
    return lambda _headline, _cards: Contentions(contention(answer(), asking.prices, waits(), sources()))


def _rows(found: Contentions, _report: Report) -> Iterator[Cells]:
    for row in found:
        told = {"of": "all cards" if row.host is None else "host", **cells(row)}
        yield from with_currencies(told, row.cost, ("of", "host"))


CONTENTION = Section(
    name="contention",
    title="Contention",
    model=Contentions,
    collect=_collect,
    text=text.contention,
    csv=Csv(("of", *columns(Contention)), _rows),
    most_card_hours=MOST_CARD_HOURS_AT_ONCE,
)
