"""Where gua gives cards out: who waited, what became of cards meanwhile, and how often who reserved any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.allocation_sources import SourceRow
from gua.report.questions import Answer, ask_if

COUNTED: Final = frozenset(("gua", "canhazgpu"))
"""Sources whose allocations are reservations of people, by kind."""
UNTOLD: Final = ""


class WaitsRow(NamedTuple):
    """A host that tells who waits: the most ``waiting`` at once, how long all did and any did, and GPU time [us].

    ``untold_ms``: how long cards were given out while nothing that is kept tells who waited.
    """

    host: str
    waiting: Count
    wait_ms: Count
    waited_ms: Count
    untold_ms: Count
    held_us: Count
    used_by_others_us: Count
    empty_us: Count
    free_us: Count
    unknown_us: Count


class ReservationsRow(NamedTuple):
    """How many reservations of one kind an owner had that were there at a tick of the window.

    Of kind :data:`UNTOLD` are those whose ticks are gone.
    """

    source: str
    owner: str | None
    kind: str
    reservations: Count


WAITS: Final = View("waits", WaitsRow, READ)
RESERVATIONS: Final = View("reservations", ReservationsRow, READ)
_Sources = Callable[[], Sequence[SourceRow]]


def ask_waits(reader: ViewReader, read: Mapping[str, object], sources: _Sources) -> Answer[WaitsRow]:
    """Ask who waited for cards, where any of the ``sources`` is gua's own."""
    return ask_if(reader, _any_of(sources, {"gua"}), WAITS, read)


def ask_reservations(reader: ViewReader, read: Mapping[str, object], sources: _Sources) -> Answer[ReservationsRow]:
    """Ask who reserved cards how often, where any of the ``sources`` is gua's own."""
    return ask_if(reader, _any_of(sources, COUNTED), RESERVATIONS, read)


def _any_of(sources: _Sources, wanted: Collection[str]) -> Callable[[], bool]:
    return lambda: any(row.source in wanted for row in sources())
