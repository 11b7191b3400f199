"""Measured energy by state, and what holding a card added over the same card's bare idle draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple

from gua.core.parameters import BY_DAY, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, StateName, View
from gua.report.asking import answer_of
from gua.report.kit.fields import RATIO, Cells, Number, Seconds, cells, columns
from gua.report.kit.figures import NONE, HourFormat, amount, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn, card_table
from gua.report.model import Report
from gua.report.questions import ask
from gua.report.section import Csv, Section
from gua.report.states import STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class StateEnergy:
    """One state's energy of a card.

    ``measured``: from the card's energy counter; ``estimated``: power at the tick times its seconds, of ticks of
    which the counter tells nothing (a reset, no counter); ``unknown_ms``: observed time with neither.
    """

    measured_joules: Number[float]
    measured_ms: Seconds[int]
    estimated_joules: Number[float]
    estimated_ms: Seconds[int]
    unknown_ms: Seconds[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardEnergy:
    """One card's energy by state.

    ``bare_watts`` and ``held_watts``: mean draw while truly-idle and while idle-held, of measured energy, ``None``
    where that state was not seen with a counter. ``added_joules``: (held - bare) times the measured idle-held time,
    where both were seen: what holding it cost in electricity; below 0 if it drew less.
    """

    host: str
    gpu: str
    index: int | None
    model: str | None
    states: Mapping[str, StateEnergy]
    bare_watts: Annotated[float | None, replace(RATIO, column="card_bare_watts")]
    held_watts: Annotated[float | None, replace(RATIO, column="card_held_watts")]
    added_joules: Annotated[float | None, replace(RATIO, column="card_added_joules")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """All cards. MIG instances have no energy of their own: it is their parent's."""

    cards: tuple[CardEnergy, ...]


class StateAmounts(NamedTuple):
    """A state's energy of a card, in mJ, and the ms that it was measured and estimated for."""

    state: StateName
    measured_mj: Count
    measured_ms: Count
    estimated_mj: Count
    estimated_ms: Count
    unknown_ms: Count


class EnergyRow(NamedTuple):
    """A card's energy by state."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    states: tuple[StateAmounts, ...]
    bare_watts: float | None
    held_watts: float | None
    added_joules: float | None


ENERGY: Final = View("energy", EnergyRow, READ, optional=BY_DAY)
_NONE: Final = StateEnergy(measured_joules=0, measured_ms=0, estimated_joules=0, estimated_ms=0, unknown_ms=0)


def energy(reader: ViewReader, read: Mapping[str, object]) -> Callable[[], Energy]:
    """Ask for the energy of each card; call what is returned for it.

    ``read`` is {since_ms, until_ms, hosts, tick_hours, use_hourly}.
    """
    answer = ask(reader, ENERGY, read)
    return lambda: energy_of(answer())


def energy_of(rows: Iterable[EnergyRow]) -> Energy:
    """Return the rows of ``gua_report.energy`` as cards, in the order of their indexes; all four states of each."""
    cards = [
        CardEnergy(
            host=row.host,
            gpu=row.gpu,
            index=row.gpu_index,
            model=row.model,
            states=dict.fromkeys(STATES, _NONE) | {amounts.state: _state_energy(amounts) for amounts in row.states},
            bare_watts=row.bare_watts,
            held_watts=row.held_watts,
            added_joules=row.added_joules,
        )
        for row in rows
    ]
    return Energy(
        cards=tuple(sorted(cards, key=lambda card: (card.host, card.index is None, card.index or 0, card.gpu)))
    )


def _state_energy(amounts: StateAmounts) -> StateEnergy:
    return StateEnergy(
        measured_joules=amounts.measured_mj / 1000,
        measured_ms=amounts.measured_ms,
        estimated_joules=amounts.estimated_mj / 1000,
        estimated_ms=amounts.estimated_ms,
        unknown_ms=amounts.unknown_ms,
    )


JOULES_PER_KWH: Final = 3_600_000
_STATES: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="measured kWh"),
    TableColumn(title="of hours", leaves=2),
    TableColumn(title="estimated kWh"),
    TableColumn(title="of hours", leaves=2),
    TableColumn(title="not known, hours", leaves=1),
)
_CARD_COLUMNS: Final = (
    TableColumn(title="truly-idle W"),
    TableColumn(title="idle-held W"),
    TableColumn(title="added kWh"),
)


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
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
    yield from card_table(report, style, "energy", _CARD_COLUMNS, [(card, _card(card)) for card in shown])


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


def _rows(found: Energy, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        for state, part in card.states.items():
            yield {**cells(card), "state": state, **cells(part)}


_CARD = columns(CardEnergy)
ENERGY_SECTION = Section(
    name="energy",
    title="Energy",
    model=Energy,
    collect=answer_of(energy),
    text=_text,
    csv=Csv((*_CARD[:4], "state", *columns(StateEnergy), *_CARD[4:]), _rows),
)
