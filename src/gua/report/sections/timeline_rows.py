"""Each card's states over time, in cells of equal length, and who was on it."""

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
class CardTimeline(Placed):
    """One card.

    ``cells`` has for each cell of the window, oldest first, the milliseconds observed in each state, in the order of
    ``STATES``; what is missing of the cell is unobserved. ``holders``: the processes longest on it, longest first.
    """

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


MOST_CELLS: Final = 400
MOST_PRESENCES: Final = 6
_CELLS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10_080, 43_200)
)


class TimelineCell(NamedTuple):
    """A cell of a card's timeline by its number, ms in each state."""

    number: Count
    active_ms: Count
    idle_held_ms: Count
    truly_idle_ms: Count
    unknown_ms: Count


class TimelineRow(NamedTuple):
    """A card's cells that have ticks."""

    host: str
    gpu: str
    cells: tuple[TimelineCell, ...]


class PresenceRow(NamedTuple):
    """One of the processes that were longest on a card: its ``place`` among so many ``processes``."""

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
    """Return the length of a timeline's cells: a round one, of which the window has :data:`MOST_CELLS` at most."""
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
