"""Section energy: energy by state, and the power that holding a card adds over its truly-idle power."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple

from gua.core.parameters import READ
from gua.core.view import Count, Named, StateName, View
from gua.report.context import model_of
from gua.report.kit.fields import RATIO, Number, Seconds, columns, filled
from gua.report.kit.figures import NONE, HourFormat, amount, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table, card_rows, more
from gua.report.model import OfCard, Report
from gua.report.section import Csv, Section, cells_by_state
from gua.report.states import STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class StateEnergy:
    """One state's energy of a card.

    ``measured``: from the card's energy counter. ``estimated``: power at the tick times its length, for ticks without a
    counter value (no counter, or a reset). ``unknown_ms``: observed time with neither.
    """

    measured_joules: Annotated[Number[float], Named("measured_mj")]
    measured_ms: Seconds[int]
    estimated_joules: Annotated[Number[float], Named("estimated_mj")]
    estimated_ms: Seconds[int]
    unknown_ms: Seconds[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardEnergy(OfCard):
    """One card's energy by state.

    ``bare_watts`` and ``held_watts`` are the mean power while truly-idle and idle-held, from measured energy; ``None``
    where not measured. ``added_joules`` is (held - bare) times the measured idle-held time, ``None`` without both: the
    energy cost of holding the card, negative if it used less.
    """

    states: Mapping[str, StateEnergy]
    bare_watts: Annotated[float | None, replace(RATIO, column="card_bare_watts")]
    held_watts: Annotated[float | None, replace(RATIO, column="card_held_watts")]
    added_joules: Annotated[float | None, replace(RATIO, column="card_added_joules")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """The energy of all cards. MIG instances have none; it is counted for the GPU."""

    cards: tuple[CardEnergy, ...]


class StateAmounts(NamedTuple):
    """A state's energy of a card [mJ], measured and estimated, and the time of each [ms]."""

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


ENERGY: Final = View("energy", EnergyRow, READ)
_NONE: Final = StateEnergy(measured_joules=0, measured_ms=0, estimated_joules=0, estimated_ms=0, unknown_ms=0)


def energy_of(rows: Iterable[EnergyRow]) -> Energy:
    """Return the rows of ``gua_report.energy`` as cards ordered by host and index, with all four states each."""
    cards = []
    for row in rows:
        states = {one.state: filled(StateEnergy, one) for one in row.states}
        cards.append(filled(CardEnergy, row, states={**dict.fromkeys(STATES, _NONE), **states}))
    return Energy(cards=tuple(sorted(cards, key=CardEnergy.place)))


JOULES_PER_KWH: Final = 3_600_000


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the energy of each state over all cards, and each card's power while truly-idle and idle-held."""
    found = report[Energy]
    if not found.cards:
        yield "No card reported its energy or power."
        return
    yield (
        "measured: from the cards' energy counters. estimated: power at the tick x its length, where the counter has "
        "no value."
    )
    yield _by_state(found.cards, hours)
    added = [card.added_joules for card in found.cards if card.added_joules is not None]
    yield Heading("What holding added to the bare idle draw of the same card (measured)")
    if not added:
        yield "Not known: no card was seen both truly-idle and idle-held with an energy counter."
        return
    yield f"{amount(sum(added) / JOULES_PER_KWH, 2)} kWh on {plural(len(added), 'card')} that were seen in both states."
    rows = card_rows(report, style, sorted(found.cards, key=lambda card: -(card.added_joules or 0)))
    rows.add("truly-idle W", lambda card: amount(card.bare_watts))
    rows.add("idle-held W", lambda card: amount(card.held_watts))
    rows.add("added kWh", lambda card: NONE if card.added_joules is None else _kwh(card.added_joules))
    yield rows.table()
    yield from more(rows.rest, "card", "--csv energy has every one")


def _by_state(cards: Sequence[CardEnergy], hours: HourFormat) -> Table:
    """Return the energy of each state over all cards; ``-`` where no time was measured or estimated."""
    rows = Rows([(state, [card.states[state] for card in cards if state in card.states]) for state in STATES])

    def add(title: str, joules: Callable[[StateEnergy], float], ms: Callable[[StateEnergy], int]) -> None:
        rows.add(title, lambda one: _kwh(sum(map(joules, one[1]))) if sum(map(ms, one[1])) else NONE)
        rows.add("of hours", lambda one: hours.of(sum(map(ms, one[1]))), leaves=2)

    rows.add("", lambda one: one[0], left=True)
    add("measured kWh", lambda part: part.measured_joules, lambda part: part.measured_ms)
    add("estimated kWh", lambda part: part.estimated_joules, lambda part: part.estimated_ms)
    rows.add("not known, hours", lambda one: hours.of(sum(part.unknown_ms for part in one[1])), leaves=1)
    return rows.table()


def _kwh(joules: float) -> str:
    return amount(joules / JOULES_PER_KWH, 2)


_CARD = columns(CardEnergy)
ENERGY_SECTION = Section(
    name="energy",
    title="Energy",
    model=Energy,
    collect=model_of(ENERGY, lambda rows, _window: energy_of(rows)),
    text=_text,
    csv=Csv(
        (*_CARD[:4], "state", *columns(StateEnergy), *_CARD[4:]), lambda found, _report: cells_by_state(found.cards)
    ),
)
