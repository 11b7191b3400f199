"""Energy: what each card drew by state, measured and estimated apart, and what holding it added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gua.core.ports import Row, ViewReader
from gua.report.questions import ask
from gua.report.sections.energy.model import CardEnergy, Energy, StateEnergy
from gua.report.states import STATES

_NONE: Final = StateEnergy(measured_joules=0, measured_ms=0, estimated_joules=0, estimated_ms=0, unknown_ms=0)


def energy(reader: ViewReader, read: Mapping[str, object]) -> Callable[[], Energy]:
    """Ask for the energy of each card; call what is returned for it.

    ``read`` is {since_ms, until_ms, hosts, ticked, stored}.
    """
    answer = ask(reader, "energy", read)
    return lambda: energy_of(answer())


def energy_of(rows: Iterable[Row]) -> Energy:
    """Return the rows of ``gua_report.energy`` as cards, in the order of their indexes; all four states of each."""
    cards = [
        CardEnergy(
            host=row["host"],
            gpu=row["gpu"],
            index=row["gpu_index"],
            model=row["model"],
            states=dict.fromkeys(STATES, _NONE) | {one[0]: _state(one[1:]) for one in row["states"]},
            bare_watts=row["bare_watts"],
            held_watts=row["held_watts"],
            added_joules=row["added_joules"],
        )
        for row in rows
    ]
    return Energy(
        cards=tuple(sorted(cards, key=lambda card: (card.host, card.index is None, card.index or 0, card.gpu)))
    )


def _state(amounts: Sequence[int]) -> StateEnergy:
    measured_mj, measured_ms, estimated_mj, estimated_ms, unknown_ms = amounts
    return StateEnergy(
        measured_joules=measured_mj / 1000,
        measured_ms=measured_ms,
        estimated_joules=estimated_mj / 1000,
        estimated_ms=estimated_ms,
        unknown_ms=unknown_ms,
    )
