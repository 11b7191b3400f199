"""Every card with its split."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.costs import with_currencies
from gua.report.kit.fields import Cells, cells, columns, to_json
from gua.report.model import Card, Report
from gua.report.section import Csv, Section
from gua.report.sections.cards import text


def _rows(report: Report, _report: Report) -> Iterator[Cells]:
    for card in report.cards:
        yield from with_currencies(cells(card), card.costs, ("host", "gpu", "index", "name"))


CARDS = Section(
    name="cards",
    title="Per card",
    model=Report,
    text=text.cards,
    drawn=text.drawn,
    json=lambda report: map(to_json, report.cards),  # of 10,000 cards all rows at once take 40 MB
    csv=Csv(columns(Card), _rows),
)
