"""Usefulness: idle seconds of active and idle-held cards, and what they drew."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import answer_of
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.usefulness import text
from gua.report.sections.usefulness.model import CardIdleTime, IdleTime, Usefulness
from gua.report.sections.usefulness.query import usefulness


def _rows(found: Usefulness, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        for state, part in card.states.items():
            yield {**cells(card), "state": state, **cells(part)}


USEFULNESS = Section(
    name="usefulness",
    title="What the active hours were worth",
    model=Usefulness,
    collect=answer_of(usefulness),
    text=text.usefulness,
    csv=Csv((*columns(CardIdleTime), "state", *columns(IdleTime)), _rows),
)
