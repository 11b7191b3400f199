"""Contention: how long nobody could get a card while cards were held that did nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.questions import ask
from gua.report.section import Csv, Section
from gua.report.sections.contention import html, text
from gua.report.sections.contention.model import Contention, Contentions
from gua.report.sections.contention.query import CONTENTION as ROWS
from gua.report.sections.contention.query import contention


def _collect(asking: Asking) -> Finish:
    answer = ask(asking.reader, ROWS, asking.read)
    return lambda _headline, _cards: Contentions(contention(answer()))


def _rows(found: Contentions, _report: Report) -> Iterator[Cells]:
    for row in found:
        yield {"of": "all cards" if row.host is None else "host", **cells(row)}


CONTENTION = Section(
    name="contention",
    title="Contention",
    model=Contentions,
    collect=_collect,
    text=text.contention,
    html=html.contention,
    csv=Csv(("of", *columns(Contention)), _rows),
    streaks="needed",
)
