"""Energy by state, measured or estimated, and what holding a card added to its bare idle draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.kit.figures import NONE, HourFormat, amount, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn, card_table
from gua.report.model import Report
from gua.report.sections.energy.model import CardEnergy, Energy
from gua.report.states import STATES

JOULES_PER_KWH: Final = 3_600_000
_STATES: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="measured kWh"),
    TableColumn(title="of hours", leaves=2),
    TableColumn(title="estimated kWh"),
    TableColumn(title="of hours", leaves=2),
    TableColumn(title="not known, hours", leaves=1),
)
_CARDS: Final = (
    TableColumn(title="truly-idle W"),
    TableColumn(title="idle-held W"),
    TableColumn(title="added kWh"),
)


def energy(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the energy of each state over all cards, and each card's draw while bare and while held."""
    found = report[Energy]
    if not found.cards:
        yield "No card told its energy or its power."
        return
    yield (
        "measured: from the cards' energy counters. estimated: power at the tick x its length, where the counter tells "
        "nothing."
    )
    yield Table(columns=_STATES, rows=[_state(found.cards, state, hours) for state in STATES])
    added = [card.added_joules for card in found.cards if card.added_joules is not None]
    yield Heading("What holding added to the bare idle draw of the same card (measured)")
    if not added:
        yield "Not known: no card was seen both truly-idle and idle-held with an energy counter."
        return
    yield f"{amount(sum(added) / JOULES_PER_KWH, 2)} kWh on {plural(len(added), 'card')} that were seen in both states."
    shown = sorted(found.cards, key=lambda card: -(card.added_joules or 0))
    yield from card_table(report, style, "energy", _CARDS, [(card, _card(card)) for card in shown])


def _state(cards: Sequence[CardEnergy], state: str, hours: HourFormat) -> list[str]:
    parts = [card.states[state] for card in cards if state in card.states]
    return [
        state,
        *_told(sum(part.measured_joules for part in parts), sum(part.measured_ms for part in parts), hours),
        *_told(sum(part.estimated_joules for part in parts), sum(part.estimated_ms for part in parts), hours),
        hours.of(sum(part.unknown_ms for part in parts)),
    ]


def _told(joules: float, ms: int, hours: HourFormat) -> list[str]:
    """Return the energy of some hours: that of none at all is not 0."""
    return [amount(joules / JOULES_PER_KWH, 2) if ms else NONE, hours.of(ms)]


def _card(card: CardEnergy) -> list[str]:
    return [
        amount(card.bare_watts),
        amount(card.held_watts),
        NONE if card.added_joules is None else amount(card.added_joules / JOULES_PER_KWH, 2),
    ]
