"""Money and energy: what each state cost, every figure marked as measured or estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gua.report.kit.bars import CLASSES, stacked
from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, amount, percent, plural
from gua.report.kit.html_tables import BAR, NUMBER, Column, state_columns, table, two_lines
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.model import Report
from gua.report.sections.cards.html import card_label, most
from gua.report.sections.energy.model import CardEnergy, StateEnergy
from gua.report.sections.energy.text import JOULES_PER_KWH
from gua.report.sections.money.model import Cost, Money
from gua.report.sections.money.text import CENTS
from gua.report.states import STATES

MOST_CARDS: Final = 100


def money(report: Report, hours: HourFormat) -> Markup | None:
    """Return costs by model and currency, with their sums, and the prices they were made with."""
    if report.money is None:
        return None
    if not report.money.costs:
        return tag("p", "There is no GPU time to price.")
    return join([_costs(report.money, hours), _prices(report.money, report)])


def _costs(money: Money, hours: HourFormat) -> Markup:
    columns = [
        Column("model"),
        Column("currency"),
        Column("", BAR),
        *state_columns(),
        Column("all", NUMBER),
        Column("GPU-hours without a price", NUMBER),
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
        Column("price of"),
        Column("per GPU-hour", NUMBER),
        Column("currency"),
        Column("valid from"),
        Column("source"),
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


def energy(report: Report, _hours: HourFormat) -> Markup | None:
    """Return each card's energy by state, and what holding it added over its own bare idle draw."""
    if report.energy is None:
        return None
    every = report.energy.cards
    if not every:
        return tag("p", "No card told its energy or power.")
    shown = most(every, MOST_CARDS, lambda card: _all(card).measured_joules + _all(card).estimated_joules)
    columns = [
        Column("card"),
        Column("host"),
        Column("", BAR),
        *state_columns(),
        Column("measured %", NUMBER, title="the part that comes from the card's energy counter"),
        Column("bare idle W", NUMBER, "t"),
        Column("held idle W", NUMBER, "h"),
        Column("holding added kWh", NUMBER),
    ]
    rows = [_card(card, max(_joules(_all(each)) for each in shown)) for card in shown]
    rest = len(every) - len(shown)
    return join(
        [
            table(
                "Energy in kWh: measured by the card's counter, the rest estimated from its power at each tick",
                columns,
                rows,
                foot=[_totals(every)],
                note=f"And {plural(rest, 'more card')} with less; the sums have all, --json too." if rest else None,
            ),
            tag(
                "p",
                "Holding added: (held idle W - bare idle W) x the measured idle-held time, where both were seen on the "
                "same card.",
                class_="note",
            ),
        ]
    )


def _card(card: CardEnergy, largest: float) -> list[str]:
    label = ", ".join(f"{state} {_kwh(_joules(card.states[state]))} kWh" for state in STATES)
    return [
        card_label(card.index, card.model, card.gpu),
        name(card.host, 28),
        stacked([(CLASSES[state], "", _joules(card.states[state])) for state in STATES], label, of=largest),
        *(_told(card.states[state]) for state in STATES),
        _measured(_all(card)),
        _watts(card.bare_watts),
        _watts(card.held_watts),
        NONE if card.added_joules is None else _kwh(card.added_joules),
    ]


def _totals(every: Iterable[CardEnergy]) -> list[str]:
    cards = list(every)
    states = [_add(card.states[state] for card in cards) for state in STATES]
    added = [card.added_joules for card in cards if card.added_joules is not None]
    return [
        "all cards",
        "",
        "",
        *map(_told, states),
        _measured(_add(states)),
        "",
        "",
        two_lines(_kwh(sum(added)), f"of {plural(len(added), 'card')}") if added else NONE,
    ]


def _add(parts: Iterable[StateEnergy]) -> StateEnergy:
    every = list(parts)
    return StateEnergy(
        measured_joules=sum(part.measured_joules for part in every),
        measured_ms=sum(part.measured_ms for part in every),
        estimated_joules=sum(part.estimated_joules for part in every),
        estimated_ms=sum(part.estimated_ms for part in every),
        unknown_ms=sum(part.unknown_ms for part in every),
    )


def _all(card: CardEnergy) -> StateEnergy:
    return _add(card.states[state] for state in STATES)


def _joules(energy: StateEnergy) -> float:
    return energy.measured_joules + energy.estimated_joules


def _told(energy: StateEnergy) -> str:
    if not energy.measured_ms and not energy.estimated_ms:
        return NONE
    return _kwh(_joules(energy))


def _measured(energy: StateEnergy) -> str:
    total = _joules(energy)
    return percent(energy.measured_joules / total) if total > 0 else NONE


def _kwh(joules: float) -> str:
    return amount(joules / JOULES_PER_KWH, 2)


def _watts(watts: float | None) -> str:
    return amount(watts)
