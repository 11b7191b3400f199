"""Section money: the cost of GPU time by the prices valid at that time."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.report.context import Finish, ReportContext
from gua.report.kit.amounts import CENTS
from gua.report.kit.basis import at
from gua.report.kit.fields import Hours, Number, columns, grouped, of_card
from gua.report.kit.figures import NONE, HourFormat, amount, amounts
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table
from gua.report.kit.words import NAME_WIDTH, known, named
from gua.report.model import Card, Report
from gua.report.prices import CostsRow, Price, Prices
from gua.report.section import Csv, Section, cells_by_state
from gua.report.states import IDLE_HELD, MS_PER_HOUR, STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class StateCost:
    """Priced GPU time [ms] and its cost; ``unpriced_gpu_ms`` is GPU time without a price."""

    gpu_ms: Hours[float] = 0.0
    cost: Number[float | None] = None
    unpriced_gpu_ms: Hours[float] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCost:
    """One model's GPU time in the window by state, and its cost in one currency.

    GPU time without a price is a separate entry without a ``currency``.
    """

    model: str | None
    currency: str | None
    states: Mapping[str, StateCost]


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """Costs by model and currency, and the prices they were computed with.

    They are estimates, because prices are entered by hand.
    """

    costs: tuple[ModelCost, ...]
    prices: tuple[Price, ...]


_EXAMPLE: Final = "2.50 --currency EUR"
# Names come from drivers and recordings: only those that are safe to type in a shell are shown.
_TYPEABLE: Final = re.compile(r"[A-Za-z0-9][ -~]{0,79}")


def price_command(cards: Iterable[Card]) -> str | None:
    """Return a command that prices the model with the most unpriced idle-held time; ``None`` if all have prices."""
    wasted_ms: Counter[str] = Counter()
    for card in cards:
        if card.costs is None or not any(cost.amounts for cost in card.costs.values()):
            wasted_ms[card.model or card.name or ""] += round(card.states[IDLE_HELD].gpu_ms)
    if not wasted_ms:
        return None
    for model, _ in sorted(wasted_ms.items(), key=lambda one: (-one[1], one[0])):
        if _TYPEABLE.fullmatch(model):
            return f"gua prices set {shlex.quote(model)} {_EXAMPLE}"
    return f"gua prices set MODEL {_EXAMPLE}"


def money(rows: Sequence[CostsRow], cards: Iterable[Card], prices: Prices) -> Money:
    """Return the costs of each model by currency, and the prices that were used.

    Priced and unpriced GPU time adds up to the headline's. GPU time without a price is a separate entry without a
    currency.
    """
    by_card = grouped(rows, of_card)
    models: dict[str | None, Counter[tuple[int, str]]] = defaultdict(Counter)
    for card in cards:
        us = (round(card.states[state].gpu_ms * 1000) for state in STATES)
        for row in by_card.get(of_card(card)) or [CostsRow(card.host, card.gpu, 0, *us)]:
            models[card.model or card.name].update({(row.price, state): us for state, us in row.by_state.items() if us})
    costs = [
        cost
        for model in sorted(models, key=lambda name: (name is None, name or ""))
        for cost in _costs_of(model, models[model], prices)
    ]
    used = sorted({price for of_model in models.values() for price, _ in of_model if price})
    return Money(costs=tuple(costs), prices=tuple(prices.rows[number - 1] for number in used))


def _costs_of(model: str | None, gpu_us: Mapping[tuple[int, str], int], prices: Prices) -> Iterable[ModelCost]:
    """Yield a cost per currency, ordered by start of validity, and one without a currency for unpriced time."""
    numbers = sorted({number for number, _ in gpu_us}, key=lambda number: (not number, number))
    every = {number: prices.rows[number - 1].currency if number else None for number in numbers}
    for currency in dict.fromkeys(every.values()):
        of_currency = [number for number in numbers if every[number] == currency]
        yield ModelCost(
            model=model,
            currency=currency,
            states={
                state: _state_cost({number: gpu_us.get((number, state), 0) for number in of_currency}, prices)
                for state in STATES
            },
        )


def _state_cost(gpu_us: Mapping[int, int], prices: Prices) -> StateCost:
    """Return the cost of GPU time [us] by price number, all in one currency; number 0 means no price."""
    gpu_ms = sum(gpu_us.values()) / 1000
    if 0 in gpu_us:
        return StateCost(unpriced_gpu_ms=gpu_ms)
    amounts = (us / 1000 / MS_PER_HOUR * prices.rows[number - 1].per_gpu_hour for number, us in gpu_us.items())
    return StateCost(gpu_ms=gpu_ms, cost=sum(amounts))


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the cost of idle-held time per currency, the costs by model and state, and the prices used."""
    found = report[Money]
    currencies = sorted({cost.currency for cost in found.costs if cost.currency is not None})
    for currency in currencies:
        held = sum(cost.states[IDLE_HELD].cost or 0 for cost in found.costs if cost.currency == currency)
        yield f"idle-held: {amount(held, CENTS)} {style.name(currency, NAME_WIDTH)} (estimated)"
    if (command := price_command(report.cards)) is not None:
        yield f"{'Some cards' if currencies else 'These cards'} have no price. Set one: {command}"
    yield _costs_table(found.costs, style, hours)
    if not found.prices:
        return
    yield Heading("Prices: entered by an administrator, valid from a moment on")
    rows = Rows(found.prices)
    rows.add("model", lambda price: style.name(price.model, NAME_WIDTH), left=True, shortest=10)
    rows.add("per GPU-hour", lambda price: amount(price.per_gpu_hour, 4))
    rows.add("currency", lambda price: style.name(price.currency, NAME_WIDTH), left=True)
    rows.add("valid from", lambda price: at(price.valid_from_ms, report.window), left=True)
    rows.add("source", lambda price: named(price.source, style), left=True, shortest=10, leaves=1)
    yield rows.table()


def _costs_table(costs: Sequence[ModelCost], style: Style, hours: HourFormat) -> Table:
    """Return a row per model and currency; the rows of a currency add up to its rounded total."""
    written: dict[tuple[int, str], str] = {}
    for currency in {cost.currency for cost in costs if cost.currency is not None}:
        places = [place for place, cost in enumerate(costs) if cost.currency == currency]
        for state in STATES:
            rounded = amounts([costs[place].states[state].cost or 0 for place in places], CENTS)
            written.update(((place, state), one) for place, one in zip(places, rounded, strict=True))
    rows = Rows([*enumerate(costs)])
    rows.add("model", lambda one: known(one[1].model, style), left=True, shortest=10, is_head=True)
    rows.add("currency", lambda one: named(one[1].currency, style), left=True, is_head=True)
    rows.add(STATES, lambda one: [written.get((one[0], state), NONE) for state in STATES])
    rows.add(
        "unpriced GPU-h", lambda one: hours.of(sum(part.unpriced_gpu_ms for part in one[1].states.values())), leaves=1
    )
    return rows.table()


def _collect(context: ReportContext) -> Finish:
    costs = context.costs()
    return lambda _headline, cards: money(costs(), cards, context.prices)


MONEY_SECTION = Section(
    name="money",
    title="Money",
    model=Money,
    collect=_collect,
    text=_text,
    csv=Csv((*columns(ModelCost), "state", *columns(StateCost)), lambda found, _report: cells_by_state(found.costs)),
)
