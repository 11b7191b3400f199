"""Energy by state, measured or estimated, and what holding a card added."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import answer_of
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.energy import text
from gua.report.sections.energy.model import CardEnergy, Energy, StateEnergy
from gua.report.sections.energy.query import energy


def _rows(found: Energy, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        for state, part in card.states.items():
            yield {**cells(card), "state": state, **cells(part)}


_CARD = columns(CardEnergy)
ENERGY = Section(
    name="energy",
    title="Energy",
    model=Energy,
    collect=answer_of(energy),
    text=text.energy,
    csv=Csv((*_CARD[:4], "state", *columns(StateEnergy), *_CARD[4:]), _rows),
)
