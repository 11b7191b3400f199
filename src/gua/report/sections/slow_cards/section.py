"""Slow cards: clocks that heat, hardware or the power cap held down; XID events, ECC errors, rows."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.slow_cards import text
from gua.report.sections.slow_cards.model import SlowCard, SlowCards
from gua.report.sections.slow_cards.query import slow_cards


def _rows(found: SlowCards, _report: Report) -> Iterator[Cells]:
    return map(cells, found.cards)


SLOW_CARDS = Section(
    name="slow-cards",
    title="What slowed cards down",
    model=SlowCards,
    collect=slow_cards,
    text=text.slow_cards,
    csv=Csv(columns(SlowCard), _rows),
)
