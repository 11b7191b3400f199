"""Each card's states over time, in cells of equal length, and who was on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """One process on a card, clipped to the window (Unix ms): ``idle_ms`` of it idle, ``unknown_ms`` not known."""

    owner: str | None
    program: str | None
    pid: int
    since_ms: int
    until_ms: int
    idle_ms: int
    unknown_ms: int = 0


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
    cells: tuple[tuple[int, int, int, int], ...]
    holders: tuple[Presence, ...]
    more_holders: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The window (since, until] cut into cells of ``cell_ms``; the last may reach beyond it."""

    since_ms: int
    until_ms: int
    cell_ms: int
    cards: tuple[CardTimeline, ...]
