"""Money: what the GPU time of each model cost, by the prices that were valid then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gua.report.model import Card
from gua.report.prices import CostsRow, Prices, of_cards
from gua.report.sections.money.model import ModelCost, Money, Price
from gua.report.states import MS_PER_HOUR, STATES


def money(rows: Sequence[CostsRow], cards: Iterable[Card], prices: Prices) -> Money:
    """Return the costs of each model by currency, from its cards' GPU time by price, and the prices that counted.

    Priced and unpriced GPU time of all costs together is the headline's. What no price counted for is a cost of its
    own, without a currency.
    """
    by_card = of_cards(rows)
    models: dict[str | None, Counter[tuple[int, str]]] = defaultdict(Counter)
    for card in cards:
        for row in by_card.get((card.host, card.gpu)) or [_unpriced(card)]:
            models[card.model or card.name].update({(row.price, state): us for state, us in row.by_state.items() if us})
    costs = [
        cost
        for model in sorted(models, key=lambda name: (name is None, name or ""))
        for cost in _costs(model, models[model], prices)
    ]
    used = sorted({price for of_model in models.values() for price, _ in of_model if price})
    return Money(costs=tuple(costs), prices=tuple(_price(prices, number) for number in used))


def _costs(model: str | None, gpu_us: Mapping[tuple[int, str], int], prices: Prices) -> Iterable[ModelCost]:
    """Yield a cost for each currency, in the order in which they came into force, and one without for the rest."""
    numbers = sorted({number for number, _ in gpu_us}, key=lambda number: (not number, number))
    every = {number: prices.rows[number - 1].currency if number else None for number in numbers}
    for currency in dict.fromkeys(every.values()):
        of_currency = [number for number in numbers if every[number] == currency]
        gpu_ms = {state: sum(gpu_us.get((number, state), 0) for number in of_currency) / 1000 for state in STATES}
        nothing = dict.fromkeys(STATES, 0.0)
        if currency is None:
            yield ModelCost(model=model, currency=None, gpu_ms=nothing, cost=nothing, unpriced_gpu_ms=gpu_ms)
            continue
        cost = {
            state: sum(
                gpu_us.get((number, state), 0) / 1000 / MS_PER_HOUR * prices.rows[number - 1].per_gpu_hour
                for number in of_currency
            )
            for state in STATES
        }
        yield ModelCost(model=model, currency=currency, gpu_ms=gpu_ms, cost=cost, unpriced_gpu_ms=nothing)


def _unpriced(card: Card) -> CostsRow:
    return CostsRow(card.host, card.gpu, 0, *(round(card.states[state].gpu_ms * 1000) for state in STATES))


def _price(prices: Prices, number: int) -> Price:
    row = prices.rows[number - 1]
    return Price(
        model=row.model,
        currency=row.currency,
        per_gpu_hour=row.per_gpu_hour,
        valid_from_ms=row.valid_from_ms,
        source=row.source,
    )
