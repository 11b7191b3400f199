"""To whom cards are promised, what became of them, what promises are called; where gua gives cards out, who waited."""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.view import Count, Moment, View
from gua.report.uses import UseName

COUNTED: Final = frozenset(("gua", "canhazgpu"))
"""Sources whose allocations are reservations of people, by kind."""
UNTOLD: Final = ""


class PromiseRow(NamedTuple):
    """GPU time [us] of a use, promised to an owner by a source (``""``: to nobody, or not known), at a price.

    Or (not ``is_total``) a part of a card's newest tick: whose it is, what became of it, and since when (Unix ms).
    ``is_shared``: processes of others were there besides the owner's. Of a part that nobody was promised:
    ``promised_until_ms`` is when the card's last allocation in the window ended (0: none), ``promised_to`` its owner.
    """

    is_total: bool
    host: str
    gpu: str
    source: str
    allocation_id: str
    owner: str | None
    use: UseName
    is_shared: bool
    price: Count
    gpu_us: Count
    last_ms: Moment
    use_since_ms: Moment
    in_use_ms: Count
    use_since_is_lower_bound: bool
    promised_until_ms: Moment
    promised_to: str | None


class AllocationNameRow(NamedTuple):
    """What an allocation of a card is called, and from when until when it was promised (Unix ms)."""

    host: str
    gpu: str
    source: str
    allocation_id: str
    kind: str | None
    job_name: str | None
    since_ms: Moment | None
    until_ms: Moment | None


class PromisedWorkRow(NamedTuple):
    """Promised GPU time [us] of a kind of work or a served model, of one use; no name where nothing tells it."""

    name: str | None
    use: UseName
    gpu_us: Count


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


ALLOCATION_NAMES: Final = View("allocation_names", AllocationNameRow, BOUNDS)
PROMISED_WORK: Final = View("promised_work", PromisedWorkRow, (*READ, "by"))
PROMISES: Final = View("promises", PromiseRow, (*READ, *PRICED))
WAITS: Final = View("waits", WaitsRow, READ)
RESERVATIONS: Final = View("reservations", ReservationsRow, READ)
