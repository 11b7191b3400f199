"""Usefulness: idle seconds of active and idle-held cards, and what they drew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.fields import Cell, Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.usefulness import text
from gua.report.sections.usefulness.model import METRICS, CardIdleTime, IdleTime, MeanActivity, Usefulness
from gua.report.sections.usefulness.query import usefulness
from gua.report.states import ACTIVE

_OF_METRIC: Final = tuple(column for column in columns(MeanActivity) if column != "metric")
_ACTIVITY: Final = tuple(f"{metric}_{column}" for metric in METRICS for column in _OF_METRIC)


def _rows(found: Usefulness, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        for state, part in card.states.items():
            activity = _activity(card) if state == ACTIVE else dict.fromkeys(_ACTIVITY)
            yield {**cells(card), "state": state, **cells(part), **activity}


def _activity(card: CardIdleTime) -> dict[str, Cell]:
    """Return what counters tell of a card's active time, by column; ``None`` where they do not."""
    told = {one.metric: one for one in card.activity}
    return {
        f"{metric}_{column}": cells(told[metric])[column] if metric in told else None
        for metric in METRICS
        for column in _OF_METRIC
    }


USEFULNESS = Section(
    name="usefulness",
    title="What the active hours were worth",
    model=Usefulness,
    collect=usefulness,
    text=text.usefulness,
    csv=Csv((*columns(CardIdleTime), "state", *columns(IdleTime), *_ACTIVITY), _rows),
)
