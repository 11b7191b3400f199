"""Rows of section timeline: each card's states in time cells of equal length, and its processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from gua.core.parameters import READ
from gua.core.view import Count, Moment, View
from gua.report.kit.fields import AS_IS, Seconds, Timestamp, Unit, filled, grouped, of_card
from gua.report.model import Card, Placed, Window
from gua.report.states import STATES

_CELLS = Unit(json=lambda cells: [[part / 1000 for part in cell] for cell in cells], cell=AS_IS.cell)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """One process on a card, clipped to the window (Unix ms).

    ``observed_ms`` is its time covered by ticks; ``idle_ms`` and ``unknown_ms`` are the idle and unknown parts.
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
class CardTimeline(Placed):
    """One card's states over time.

    ``cells`` has the milliseconds in each state per cell of the window, oldest first, in the order of ``STATES``; the
    rest of a cell is unobserved. ``holders``: the processes with the longest time on it, longest first.
    """

    card_name: str | None
    cells: Annotated[tuple[tuple[int, int, int, int], ...], _CELLS]
    holders: tuple[Presence, ...]
    more_holders: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The window (since, until] divided into cells of ``cell_ms``; the last may extend beyond it."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    cell_ms: Seconds[int]
    states: tuple[str, ...] = STATES
    cards: tuple[CardTimeline, ...]


MOST_CELLS: Final = 400
MOST_PRESENCES: Final = 6
_CELLS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10_080, 43_200)
)


class TimelineCell(NamedTuple):
    """One cell of a card's timeline by its number, with the milliseconds in each state."""

    number: Count
    active_ms: Count
    idle_held_ms: Count
    truly_idle_ms: Count
    unknown_ms: Count


class TimelineRow(NamedTuple):
    """The cells of a card that have ticks."""

    host: str
    gpu: str
    cells: tuple[TimelineCell, ...]


class PresenceRow(NamedTuple):
    """One of the processes with the longest time on a card: its rank ``place``, of ``processes`` in total."""

    host: str
    gpu: str
    pid: Count
    owner: str | None
    program: str | None
    first_ms: Moment
    last_ms: Moment
    observed_ms: Count
    idle_ms: Count
    unknown_ms: Count
    processes: Count
    place: Count


TIMELINE: Final = View("timeline", TimelineRow, (*READ, "cell_ms"))
PRESENCES: Final = View("timeline_processes", PresenceRow, (*READ, "limit"))


def cell_ms(window: Window) -> int:
    """Return the cell length [ms]: a round duration that gives at most :data:`MOST_CELLS` cells."""
    length = window.until_ms - window.since_ms
    return next((one for one in _CELLS_MS if length <= one * MOST_CELLS), -(-length // MOST_CELLS))


def timeline(
    rows: Iterable[TimelineRow], presences: Iterable[PresenceRow], window: Window, cards: Sequence[Card]
) -> Timeline:
    """Return the timeline of every card, in the order of ``cards``."""
    length = cell_ms(window)
    count = -(-(window.until_ms - window.since_ms) // length)
    cells = {(row.host, row.gpu): row.cells for row in rows}
    present = grouped(presences, of_card)
    return filled(
        Timeline,
        window,
        cell_ms=length,
        cards=tuple(
            _card_timeline(card, cells.get((card.host, card.gpu), ()), present.get((card.host, card.gpu), []), count)
            for card in cards
        ),
    )


def _card_timeline(
    card: Card, cells: Iterable[TimelineCell], present: Sequence[PresenceRow], count: int
) -> CardTimeline:
    known = {number: (active, held, free, unknown) for number, active, held, free, unknown in cells}
    ordered = sorted(present, key=lambda row: row.place)
    return filled(
        CardTimeline,
        card,
        card_name=card.name,
        cells=tuple(known.get(number, (0, 0, 0, 0)) for number in range(count)),
        holders=tuple(filled(Presence, row, since_ms=row.first_ms, until_ms=row.last_ms) for row in ordered),
        more_holders=ordered[0].processes - len(ordered) if ordered else 0,
    )
