"""Money: what the GPU time of each model cost, by the prices that were valid then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Moment, View
from gua.report.questions import ask
from gua.report.sections.money.model import Cost, Money, Price
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN


class CostRow(NamedTuple):
    """GPU time of a model, in ms by state, and what it cost by one price; ``None`` where there is no price."""

    model: str | None
    currency: str | None
    per_gpu_hour: float | None
    valid_from_ms: Moment | None
    source: str | None
    active_gpu_ms: float
    idle_held_gpu_ms: float
    truly_idle_gpu_ms: float
    unknown_gpu_ms: float
    active_cost: float | None
    idle_held_cost: float | None
    truly_idle_cost: float | None
    unknown_cost: float | None

    @property
    def gpu_ms(self) -> Mapping[str, float]:
        """Return the GPU time by state."""
        return {
            ACTIVE: self.active_gpu_ms,
            IDLE_HELD: self.idle_held_gpu_ms,
            TRULY_IDLE: self.truly_idle_gpu_ms,
            UNKNOWN: self.unknown_gpu_ms,
        }

    @property
    def cost(self) -> Mapping[str, float]:
        """Return the cost by state."""
        costs = (self.active_cost, self.idle_held_cost, self.truly_idle_cost, self.unknown_cost)
        return {state: cost or 0.0 for state, cost in zip(STATES, costs, strict=True)}


COSTS: Final = View("costs", CostRow, READ)


def money(reader: ViewReader, read: Mapping[str, object]) -> Callable[[], Money]:
    """Ask what the window cost; call what is returned for it.

    ``read`` is {since_ms, until_ms, hosts, tick_hours, use_hourly}.
    """
    answer = ask(reader, COSTS, read)
    return lambda: money_of(answer())


def money_of(rows: Iterable[CostRow]) -> Money:
    """Return the rows of ``gua_report.costs`` by model and currency, and the prices that are in them.

    Priced and unpriced GPU time of all costs together is the headline's. Of a model whose prices changed to another
    currency there are two costs; what no price counted for stands with the first.
    """
    ordered = sorted(rows, key=lambda row: (row.model is None, row.model or "", row.valid_from_ms or 0))
    costs: list[Cost] = []
    for model, group in groupby(ordered, key=lambda row: row.model):
        of_model = list(group)
        unpriced = [row for row in of_model if row.currency is None]
        priced = [row for row in of_model if row.currency is not None]
        # In the order in which they came into force.
        currencies: list[str | None] = [*dict.fromkeys(row.currency for row in priced)] or [None]
        for place, currency in enumerate(currencies):
            of_currency = [row for row in priced if row.currency == currency]
            costs.append(
                Cost(
                    model=model,
                    currency=currency,
                    gpu_ms=_sums(row.gpu_ms for row in of_currency),
                    cost=_sums(row.cost for row in of_currency),
                    unpriced_gpu_ms=_sums(row.gpu_ms for row in ([] if place else unpriced)),
                )
            )
    return Money(costs=tuple(costs), prices=tuple(_prices(ordered)))


def _sums(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    every = list(amounts)
    return {state: sum(amount[state] for amount in every) for state in STATES}


def _prices(rows: Iterable[CostRow]) -> Iterator[Price]:
    for row in rows:
        if row.model is None or row.currency is None or row.per_gpu_hour is None or row.valid_from_ms is None:
            continue
        yield Price(
            model=row.model,
            currency=row.currency,
            per_gpu_hour=row.per_gpu_hour,
            valid_from_ms=row.valid_from_ms,
            source=row.source,
        )
