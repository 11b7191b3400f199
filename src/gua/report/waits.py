"""Where gua gives cards out: who waited, what became of cards meanwhile, and how often who reserved any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.allocation_sources import SourceRow
from gua.report.questions import Answer, ask_if

COUNTED: Final = frozenset(("gua", "canhazgpu"))
"""Sources whose allocations are reservations of people, by kind."""


class WaitsRow(NamedTuple):
    """A host that tells who waits: the most ``waiting`` at once, how long all did and any did, and GPU time [us]."""

    host: str
    waiting: Count
    wait_ms: Count
    waited_ms: Count
    used_us: Count
    held_us: Count
    used_by_others_us: Count
    empty_us: Count
    unallocated_use_us: Count
    free_us: Count
    unknown_us: Count


class ReservationsRow(NamedTuple):
    """How many reservations of one kind an owner had that were there at a tick of the window."""

    source: str
    owner: str | None
    kind: str
    reservations: Count


WAITS: Final = View("waits", WaitsRow, BOUNDS)
RESERVATIONS: Final = View("reservations", ReservationsRow, BOUNDS)
_Sources = Callable[[], Sequence[SourceRow]]


def ask_waits(reader: ViewReader, read: Mapping[str, object], sources: _Sources) -> Answer[WaitsRow]:
    """Ask who waited for cards, where any of the ``sources`` is gua's own."""
    return ask_if(reader, _any_of(sources, {"gua"}), WAITS, _bounds(read))


def ask_reservations(reader: ViewReader, read: Mapping[str, object], sources: _Sources) -> Answer[ReservationsRow]:
    """Ask who reserved cards how often, where any of the ``sources`` is gua's own."""
    return ask_if(reader, _any_of(sources, COUNTED), RESERVATIONS, _bounds(read))


def _any_of(sources: _Sources, wanted: Collection[str]) -> Callable[[], bool]:
    return lambda: any(row.source in wanted for row in sources())


def _bounds(read: Mapping[str, object]) -> dict[str, object]:
    return {name: read[name] for name in BOUNDS}
