"""Costs of GPU time by the prices valid at that time; estimates, because prices are entered by hand."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from gua.report.kit.fields import Cell, Cells, Json, Unit, hours, number, state_columns
from gua.report.states import IDLE_HELD, MS_PER_HOUR, STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The cost of some GPU time: an amount per currency, and the GPU time without a price [ms]."""

    amounts: Mapping[str, float]
    unpriced_gpu_ms: float


Costs = Mapping[str, Cost]
"""The cost of the GPU time of each state."""


def added(every: Iterable[Cost | None]) -> Cost | None:
    """Return the sum of several costs, ``None`` if all are unknown."""
    known = [cost for cost in every if cost is not None]
    if not known:
        return None
    currencies = sorted({currency for cost in known for currency in cost.amounts})
    return Cost(
        amounts={currency: math.fsum(cost.amounts.get(currency, 0) for cost in known) for currency in currencies},
        unpriced_gpu_ms=math.fsum(cost.unpriced_gpu_ms for cost in known),
    )


def added_by_state(every: Iterable[Costs | None]) -> Costs | None:
    """Return the sum of several costs by state, ``None`` if all are unknown."""
    known = [costs for costs in every if costs is not None]
    sums = {state: added(costs[state] for costs in known) for state in STATES}
    return {state: cost for state, cost in sums.items() if cost is not None} or None


def wasted(costs: Costs | None) -> Cost | None:
    """Return the cost of idle-held time, ``None`` where no price is known."""
    return None if costs is None else costs[IDLE_HELD]


def cost_json(cost: Cost) -> Json:
    """Return a cost as a JSON object: amounts by currency, and the GPU-hours without a price."""
    amounts = {currency: number(amount) for currency, amount in cost.amounts.items()}
    return {"amounts": amounts, "unpriced_gpu_hours": hours(cost.unpriced_gpu_ms)}


def costs_json(costs: Costs) -> Json:
    """Return the costs of each state as a JSON object."""
    return {state: cost_json(cost) for state, cost in costs.items()}


def _rows(cost: Cost | Costs) -> list[dict[str, Cell]]:
    """Return one row of columns per currency; the unpriced GPU-hours are in the first."""
    by_state = [] if isinstance(cost, Cost) else [cost[state] for state in STATES]
    costs = {"cost": cost} if isinstance(cost, Cost) else dict(zip(_BY_STATE, by_state, strict=True))
    total = added(costs.values())
    unpriced = None if total is None else total.unpriced_gpu_ms / MS_PER_HOUR
    return [
        {
            "currency": currency,
            **{column: None if currency is None else one.amounts.get(currency, 0) for column, one in costs.items()},
            "unpriced_gpu_hours": None if place else unpriced,
        }
        for place, currency in enumerate((total and total.amounts) or [None])
    ]


def with_currencies(row: Cells, cost: Cost | Costs | None, whose: Iterable[str]) -> Iterator[Cells]:
    """Yield a row with its cost, then one row per further currency with only the ``whose`` columns and the amounts."""
    first, *others = [{}] if cost is None else _rows(cost)
    yield {**row, **first}
    for further in others:
        yield {**{column: row[column] for column in whose}, **further}


_BY_STATE: Final = state_columns("cost")
COST_COLUMNS: Final = ("currency", "cost", "unpriced_gpu_hours")
CostByState = Annotated[
    Costs | None,
    Unit(
        json=costs_json,
        columns=("currency", *_BY_STATE, "unpriced_gpu_hours"),
        cells=lambda costs: _rows(costs)[0],
    ),
]
"""Cost by state: in CSV a currency, and a column of amounts for each state."""
OneCost = Annotated[
    Cost | None,
    Unit(json=cost_json, columns=COST_COLUMNS, cells=lambda cost: _rows(cost)[0]),
]
"""Cost of some time: in CSV a currency and an amount."""
