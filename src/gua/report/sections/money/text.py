"""What the GPU time cost by state, by the prices that somebody entered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.kit.amounts import CENTS
from gua.report.kit.basis import at
from gua.report.kit.figures import NONE, HourFormat, amount, amounts
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, known
from gua.report.model import Report
from gua.report.sections.money.command import price_command
from gua.report.sections.money.model import ModelCost, Money
from gua.report.states import IDLE_HELD, STATES

_COSTS: Final = (
    TableColumn(title="model", left=True, shortest=10),
    TableColumn(title="currency", left=True),
    *(TableColumn(title=state) for state in STATES),
    TableColumn(title="unpriced GPU-h", leaves=1),
)
_PRICES: Final = (
    TableColumn(title="model", left=True, shortest=10),
    TableColumn(title="per GPU-hour"),
    TableColumn(title="currency", left=True),
    TableColumn(title="valid from", left=True),
    TableColumn(title="source", left=True, shortest=10, leaves=1),
)


def money(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the cost of idle-held time in each currency, of each model by state, and the prices used."""
    found = report[Money]
    currencies = sorted({cost.currency for cost in found.costs if cost.currency is not None})
    for currency in currencies:
        held = sum(cost.cost.get(IDLE_HELD, 0) for cost in found.costs if cost.currency == currency)
        yield f"idle-held: {amount(held, CENTS)} {style.name(currency, NAME_WIDTH)} (estimated)"
    if (command := price_command(report.cards)) is not None:
        yield f"{'Some cards' if currencies else 'These cards'} have no price. Set one: {command}"
    yield Table(columns=_COSTS, rows=_rows(found.costs, style, hours), heads=2)
    if not found.prices:
        return
    yield Heading("Prices: estimated from what somebody entered, valid from a moment on")
    yield Table(
        columns=_PRICES,
        rows=[
            [
                style.name(price.model, NAME_WIDTH),
                amount(price.per_gpu_hour, 4),
                style.name(price.currency, NAME_WIDTH),
                at(price.valid_from_ms, report.window),
                NONE if price.source is None else style.name(price.source, NAME_WIDTH),
            ]
            for price in found.prices
        ],
    )


def _rows(costs: Sequence[ModelCost], style: Style, hours: HourFormat) -> list[list[str]]:
    """Return a row for each model and currency; what a currency's rows cost adds up as its sum is written."""
    written: dict[tuple[int, str], str] = {}
    for currency in {cost.currency for cost in costs if cost.currency is not None}:
        places = [place for place, cost in enumerate(costs) if cost.currency == currency]
        for state in STATES:
            told = amounts([costs[place].cost.get(state, 0) for place in places], CENTS)
            written.update(((place, state), one) for place, one in zip(places, told, strict=True))
    return [
        [
            known(cost.model, style),
            NONE if cost.currency is None else style.name(cost.currency, NAME_WIDTH),
            *(written.get((place, state), NONE) for state in STATES),
            hours.of(sum(cost.unpriced_gpu_ms.values())),
        ]
        for place, cost in enumerate(costs)
    ]
