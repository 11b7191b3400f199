"""Energy: what each card drew by state, measured and estimated apart, and what holding it added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, StateName, View
from gua.report.questions import ask
from gua.report.sections.energy.model import CardEnergy, Energy, StateEnergy
from gua.report.states import STATES


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


ENERGY: Final = View("energy", EnergyRow, READ)
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
            states=dict.fromkeys(STATES, _NONE) | {amounts.state: _state(amounts) for amounts in row.states},
            bare_watts=row.bare_watts,
            held_watts=row.held_watts,
            added_joules=row.added_joules,
        )
        for row in rows
    ]
    return Energy(
        cards=tuple(sorted(cards, key=lambda card: (card.host, card.index is None, card.index or 0, card.gpu)))
    )


def _state(amounts: StateAmounts) -> StateEnergy:
    return StateEnergy(
        measured_joules=amounts.measured_mj / 1000,
        measured_ms=amounts.measured_ms,
        estimated_joules=amounts.estimated_mj / 1000,
        estimated_ms=amounts.estimated_ms,
        unknown_ms=amounts.unknown_ms,
    )
