"""Money: what the GPU time of each model cost, by the prices that were valid then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Final

from gua.core.ports import Row, ViewReader
from gua.report.questions import ask
from gua.report.sections.money.model import Cost, Money, Price
from gua.report.states import STATES

_COLUMNS: Final = {state: state.replace("-", "_") for state in STATES}


def money(reader: ViewReader, read: Mapping[str, object]) -> Callable[[], Money]:
    """Ask what the window cost; call what is returned for it.

    ``read`` is {since_ms, until_ms, hosts, ticked, stored}.
    """
    answer = ask(reader, "costs", read)
    return lambda: money_of(answer())


def money_of(rows: Iterable[Row]) -> Money:
    """Return the rows of ``gua_report.costs`` by model and currency, and the prices that are in them.

    Priced and unpriced GPU time of all costs together is the headline's. Of a model whose prices changed to another
    currency there are two costs; what no price counted for stands with the first.
    """
    ordered = sorted(rows, key=lambda row: (row["model"] is None, row["model"] or "", row["valid_from_ms"] or 0))
    costs: list[Cost] = []
    for model, group in groupby(ordered, key=lambda row: row["model"]):
        of_model = list(group)
        unpriced = [row for row in of_model if row["currency"] is None]
        priced = [row for row in of_model if row["currency"] is not None]
        # In the order in which they came into force.
        currencies: list[str | None] = [*dict.fromkeys(row["currency"] for row in priced)] or [None]
        for place, currency in enumerate(currencies):
            of_currency = [row for row in priced if row["currency"] == currency]
            costs.append(
                Cost(
                    model=model,
                    currency=currency,
                    gpu_ms=_sums(of_currency, "gpu_ms"),
                    cost=_sums(of_currency, "cost"),
                    unpriced_gpu_ms=_sums([] if place else unpriced, "gpu_ms"),
                )
            )
    return Money(costs=tuple(costs), prices=tuple(_price(row) for row in ordered if row["currency"] is not None))


def _sums(rows: Iterable[Row], column: str) -> dict[str, float]:
    of = list(rows)
    return {state: sum(row[f"{_COLUMNS[state]}_{column}"] for row in of) for state in STATES}


def _price(row: Row) -> Price:
    return Price(
        model=row["model"],
        currency=row["currency"],
        per_gpu_hour=row["per_gpu_hour"],
        valid_from_ms=row["valid_from_ms"],
        source=row["source"],
    )
