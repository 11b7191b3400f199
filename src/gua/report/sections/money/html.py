"""Money: what each state cost, every figure marked as estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gua.report.kit.bars import CLASSES, stacked
from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, amount
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.model import Report
from gua.report.sections.money.model import Cost, Money
from gua.report.sections.money.text import CENTS
from gua.report.states import STATES


def money(report: Report, hours: HourFormat) -> Markup:
    """Return costs by model and currency, with their sums, and the prices they were made with."""
    found = report[Money]
    if not found.costs:
        return tag("p", "There is no GPU time to price.")
    return join([_costs(found, hours), _prices(found, report)])


def _costs(money: Money, hours: HourFormat) -> Markup:
    columns = [
        HtmlColumn("model"),
        HtmlColumn("currency"),
        HtmlColumn("", BAR),
        *state_columns(),
        HtmlColumn("all", NUMBER),
        HtmlColumn("GPU-hours without a price", NUMBER),
    ]
    sums = [(currency, _sum(money.costs, currency)) for currency in _currencies(money.costs)]
    largest = {
        currency: max(_amounts(cost.cost) for cost in money.costs if cost.currency == currency) for currency, _ in sums
    }
    rows = [_cost(cost, hours, largest.get(cost.currency or "", 0)) for cost in money.costs]
    foot = [
        ("all", name(currency), "", *(_cents(total[state]) for state in STATES), _cents(_amounts(total)), "")
        for currency, total in sums
    ]
    return table(
        "Cost of each state's GPU-hours; estimated from the prices below. Currencies are never added up",
        columns,
        rows,
        foot=foot,
    )


def _cost(cost: Cost, hours: HourFormat, largest: float) -> list[str]:
    model = NONE if cost.model is None else name(cost.model)
    unpriced = hours.of(sum(cost.unpriced_gpu_ms.values()))
    if cost.currency is None:
        return [model, "no price", "", *([NONE] * len(STATES)), NONE, unpriced]
    label = ", ".join(f"{state} {_cents(cost.cost.get(state, 0))}" for state in STATES)
    return [
        model,
        name(cost.currency, 12),
        stacked([(CLASSES[state], "", cost.cost.get(state, 0)) for state in STATES], label, of=largest),
        *(_cents(cost.cost.get(state, 0)) for state in STATES),
        _cents(_amounts(cost.cost)),
        unpriced,
    ]


def _prices(money: Money, report: Report) -> Markup | None:
    if not money.prices:
        return tag("p", "No prices are set: gua prices sets them.", class_="note")
    columns = [
        HtmlColumn("price of"),
        HtmlColumn("per GPU-hour", NUMBER),
        HtmlColumn("currency"),
        HtmlColumn("valid from"),
        HtmlColumn("source"),
    ]
    rows = [
        (
            name(price.model),
            amount(price.per_gpu_hour, 4),
            name(price.currency, 12),
            moment(price.valid_from_ms, report.window.timezone),
            NONE if price.source is None else name(price.source, 80),
        )
        for price in money.prices
    ]
    return table("The prices, as somebody entered them", columns, rows)


def _currencies(costs: Iterable[Cost]) -> list[str]:
    return sorted({cost.currency for cost in costs if cost.currency is not None})


def _sum(costs: Iterable[Cost], currency: str) -> dict[str, float]:
    those = [cost.cost for cost in costs if cost.currency == currency]
    return {state: sum(cost.get(state, 0) for cost in those) for state in STATES}


def _amounts(cost: Mapping[str, float]) -> float:
    return sum(cost.values())


def _cents(value: float) -> str:
    return amount(value, CENTS)
