"""Money: what GPU time cost, by the prices that were valid then."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Cells, Json, hours, number, to_json
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.money import text
from gua.report.sections.money.model import ModelCost, Money
from gua.report.sections.money.query import money
from gua.report.states import MS_PER_HOUR, STATES


def _collect(asking: Asking) -> Finish:
    costs = asking.costs()
    return lambda _headline, cards: money(costs(), cards, asking.prices)


def _json(found: Money) -> Json:
    return {"costs": [_cost(cost) for cost in found.costs], "prices": to_json(found.prices)}


def _cost(cost: ModelCost) -> Json:
    states = {
        state: {
            "gpu_hours": hours(cost.gpu_ms.get(state, 0)),
            "cost": None if cost.currency is None else number(cost.cost.get(state, 0)),
            "unpriced_gpu_hours": hours(cost.unpriced_gpu_ms.get(state, 0)),
        }
        for state in STATES
    }
    return {"model": cost.model, "currency": cost.currency, "states": states}


def _rows(found: Money, _report: Report) -> Iterator[Cells]:
    for cost in found.costs:
        for state in STATES:
            yield {
                "model": cost.model,
                "currency": cost.currency,
                "state": state,
                "gpu_hours": cost.gpu_ms.get(state, 0) / MS_PER_HOUR,
                "cost": None if cost.currency is None else cost.cost.get(state, 0),
                "unpriced_gpu_hours": cost.unpriced_gpu_ms.get(state, 0) / MS_PER_HOUR,
            }


MONEY = Section(
    name="money",
    title="Money",
    model=Money,
    collect=_collect,
    text=text.money,
    json=_json,
    csv=Csv(("model", "currency", "state", "gpu_hours", "cost", "unpriced_gpu_hours"), _rows),
)
