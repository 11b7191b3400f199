"""Each card's states over time, in cells of equal length, and who was on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gua.report.kit.fields import AS_IS, Seconds, Timestamp, Unit
from gua.report.states import STATES

_CELLS = Unit(json=lambda cells: [[part / 1000 for part in cell] for cell in cells], cell=AS_IS.cell)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """One process on a card, clipped to the window (Unix ms).

    ``observed_ms`` is what ticks cover of its time there, ``idle_ms`` of that idle, ``unknown_ms`` not known.
    """

    owner: str | None
    program: str | None
    pid: int
    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    observed_ms: Seconds[int]
    idle_ms: Seconds[int]
    unknown_ms: Seconds[int] = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTimeline:
    """One card.

    ``cells`` has for each cell of the window, oldest first, the milliseconds observed in each state, in the order of
    ``STATES``; what is missing of the cell is unobserved. ``holders``: the processes longest on it, longest first.
    """

    host: str
    gpu: str
    index: int | None
    card_name: str | None
    cells: Annotated[tuple[tuple[int, int, int, int], ...], _CELLS]
    holders: tuple[Presence, ...]
    more_holders: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The window (since, until] cut into cells of ``cell_ms``; the last may reach beyond it."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    cell_ms: Seconds[int]
    states: tuple[str, ...] = STATES
    cards: tuple[CardTimeline, ...]
