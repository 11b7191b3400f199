"""The prices of a report: queried once and passed to the views, which return GPU time by price."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, Moment, View
from gua.report.costs import Cost, Costs
from gua.report.kit.fields import NO_OUTPUT, Number, Timestamp
from gua.report.states import MS_PER_HOUR, STATES

PricedUs = Mapping[tuple[int, str], int]
"""GPU time [us] by price number and card state."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one hour of a whole GPU of a model, and its source.

    It is valid from a moment until the model's next price (Unix ms).
    """

    model: str
    currency: str
    per_gpu_hour: Number[float]
    valid_from_ms: Timestamp[Moment]
    source: str | None
    until_ms: Moment | None = field(metadata=NO_OUTPUT)


class CostsRow(NamedTuple):
    """GPU time [us] of a card by state at the price of this number; 0 means no price."""

    host: str
    gpu: str
    price: Count
    active_us: Count
    idle_held_us: Count
    truly_idle_us: Count
    unknown_us: Count

    @property
    def by_state(self) -> Mapping[str, int]:
        """Return the GPU time [us] by state."""
        return dict(zip(STATES, self[3:], strict=True))


class PricedTime(NamedTuple):
    """GPU time [us] at the price of this number."""

    price: Count
    gpu_us: Count


class PricedState(NamedTuple):
    """GPU time [us] on cards in a state (its number in ``STATES``, from 1) at the price of this number."""

    price: Count
    state: Count
    gpu_us: Count


PRICES: Final = View("prices", Price)
COSTS: Final = View("costs", CostsRow, (*READ, *PRICED))


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices valid in a window, by start of validity. A price's number is its position here, from 1."""

    rows: tuple[Price, ...] = ()

    @classmethod
    def within(cls, rows: Iterable[Price], *, since_ms: int, until_ms: int) -> Self:
        """Return the prices that are valid at some time of the window (Unix ms)."""
        counting = (
            row for row in rows if row.valid_from_ms < until_ms and (row.until_ms is None or row.until_ms > since_ms)
        )
        return cls(tuple(sorted(counting, key=lambda row: (row.valid_from_ms, row.model))))

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def parameters(self) -> dict[str, object]:
        """Return the prices as parameters of views."""
        return {
            "price_models": [row.model for row in self.rows],
            "price_starts": [row.valid_from_ms for row in self.rows],
        }

    def cost(self, gpu_us: float, priced: Iterable[tuple[int, int]]) -> Cost | None:
        """Return the cost of GPU time [us], where ``priced`` has its parts by price number; ``None`` without prices."""
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
        """Return the cost of a model's GPU time [us] in an interval (Unix ms); ``None`` if its price changed in it."""
        of_model = [(row.valid_from_ms, number) for number, row in enumerate(self.rows, 1) if row.model == model]
        if any(since_ms < start_ms < until_ms for start_ms, _ in of_model):
            return None
        counted = [number for start_ms, number in of_model if start_ms <= since_ms]
        return self.cost(gpu_us, [(counted[-1], round(gpu_us))] if counted else [])

    def costs(self, gpu_us: Mapping[str, float], priced: PricedUs) -> Costs | None:
        """Return the cost of each state's GPU time [us]; ``None`` without prices."""
        by_state = {
            state: self.cost(gpu_us.get(state, 0), [(price, us) for (price, of), us in priced.items() if of == state])
            for state in STATES
        }
        return {state: cost for state, cost in by_state.items() if cost is not None} or None


def by_price_and_state(rows: Iterable[CostsRow]) -> PricedUs:
    """Return the priced GPU time [us] of several cards by price number and state."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for row in rows:
        if row.price:
            for state, us in row.by_state.items():
                sums[row.price, state] += us
    return sums


def of_states(priced: Iterable[PricedState]) -> PricedUs:
    """Return GPU time [us] by price number and state."""
    return {(one.price, STATES[one.state - 1]): one.gpu_us for one in priced}
