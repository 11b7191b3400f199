"""Energy: each card's draw by state, every figure marked as measured or estimated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gua.report.kit.bars import CLASSES, stacked
from gua.report.kit.figures import NONE, HourFormat, amount, percent, plural
from gua.report.kit.html_cards import card_label, most
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table, two_lines
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.model import Report
from gua.report.sections.energy.model import CardEnergy, Energy, StateEnergy
from gua.report.sections.energy.text import JOULES_PER_KWH
from gua.report.states import STATES

MOST_CARDS: Final = 100


def energy(report: Report, _hours: HourFormat) -> Markup | None:
    """Return each card's energy by state, and what holding it added over its own bare idle draw."""
    every = report[Energy].cards
    if not every:
        return tag("p", "No card told its energy or power.")
    shown = most(every, MOST_CARDS, lambda card: _all(card).measured_joules + _all(card).estimated_joules)
    columns = [
        HtmlColumn("card"),
        HtmlColumn("host"),
        HtmlColumn("", BAR),
        *state_columns(),
        HtmlColumn("measured %", NUMBER, title="the part that comes from the card's energy counter"),
        HtmlColumn("bare idle W", NUMBER, "t"),
        HtmlColumn("held idle W", NUMBER, "h"),
        HtmlColumn("holding added kWh", NUMBER),
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
