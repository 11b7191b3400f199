"""The prices that a report counts by: asked for once, given to the views, which tell GPU time by them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, Moment, View
from gua.report.costs import Cost, Costs
from gua.report.states import MS_PER_HOUR, STATES

PricedUs = Mapping[tuple[int, str], int]
"""GPU time [us] by the number of its price and the card's state."""


class PriceSpan(NamedTuple):
    """What an hour of a whole GPU of a model costs from a moment on, until the model's next price (Unix ms)."""

    model: str
    currency: str
    per_gpu_hour: float
    valid_from_ms: Moment
    until_ms: Moment | None
    source: str | None


class CostsRow(NamedTuple):
    """GPU time [us] of a card by state, that the price of this number counted for; 0 is none."""

    host: str
    gpu: str
    price: Count
    active_us: Count
    idle_held_us: Count
    truly_idle_us: Count
    unknown_us: Count

    @property
    def by_state(self) -> Mapping[str, int]:
        """Return it by state."""
        return dict(zip(STATES, self[3:], strict=True))


class PricedTime(NamedTuple):
    """GPU time [us] that the price of this number counted for."""

    price: Count
    gpu_us: Count


class PricedState(NamedTuple):
    """GPU time [us] on cards of a state (its place, from 1) that the price of this number counted for."""

    price: Count
    state: Count
    gpu_us: Count


PRICES: Final = View("prices", PriceSpan)
COSTS: Final = View("costs", CostsRow, (*READ, *PRICED))


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices that count in a window, by when they begin. The number of one is its place here, from 1."""

    rows: tuple[PriceSpan, ...] = ()

    @classmethod
    def within(cls, rows: Iterable[PriceSpan], *, since_ms: int, until_ms: int) -> Prices:
        """Return those that count at some time of the window (Unix ms)."""
        counting = (
            row for row in rows if row.valid_from_ms < until_ms and (row.until_ms is None or row.until_ms > since_ms)
        )
        return cls(tuple(sorted(counting, key=lambda row: (row.valid_from_ms, row.model))))

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def parameters(self) -> dict[str, object]:
        """Return them as parameters of views."""
        return {
            "price_models": [row.model for row in self.rows],
            "price_starts": [row.valid_from_ms for row in self.rows],
        }

    def cost(self, gpu_us: float, priced: Iterable[tuple[int, int]]) -> Cost | None:
        """Return what GPU time [us] cost, of which ``priced`` are the parts by price; ``None`` without any price."""
        if not self.rows:
            return None
        amounts: dict[str, list[float]] = defaultdict(list)
        unpriced_us = gpu_us
        for number, us in priced:
            if not us:
                continue
            row = self.rows[number - 1]
            amounts[row.currency].append(us / 1000 / MS_PER_HOUR * row.per_gpu_hour)
            unpriced_us -= us
        return Cost(
            amounts={currency: math.fsum(amounts[currency]) for currency in sorted(amounts)},
            unpriced_gpu_ms=max(unpriced_us, 0) / 1000,
        )

    def cost_throughout(self, gpu_us: float, model: str | None, since_ms: int, until_ms: int) -> Cost | None:
        """Return what GPU time [us] of a model in a time cost (Unix ms); ``None`` if its price changed meanwhile."""
        of_model = [(row.valid_from_ms, number) for number, row in enumerate(self.rows, 1) if row.model == model]
        if any(since_ms < start_ms < until_ms for start_ms, _ in of_model):
            return None
        counted = [number for start_ms, number in of_model if start_ms <= since_ms]
        return self.cost(gpu_us, [(counted[-1], round(gpu_us))] if counted else [])

    def costs(self, gpu_us: Mapping[str, float], priced: PricedUs) -> Costs | None:
        """Return the same of each state's GPU time."""
        by_state = {
            state: self.cost(gpu_us.get(state, 0), [(price, us) for (price, of), us in priced.items() if of == state])
            for state in STATES
        }
        return {state: cost for state, cost in by_state.items() if cost is not None} or None


def by_price_and_state(rows: Iterable[CostsRow]) -> PricedUs:
    """Return the priced GPU time of cards together."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for row in rows:
        if row.price:
            for state, us in row.by_state.items():
                sums[row.price, state] += us
    return sums


def of_states(priced: Iterable[PricedState]) -> PricedUs:
    """Return GPU time by price and state."""
    return {(one.price, STATES[one.state - 1]): one.gpu_us for one in priced}
