"""To whom cards are promised: GPU time by what became of it, the newest tick of each card, what promises are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, PRICED, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.report.allocation_sources import SourceRow
from gua.report.prices import Prices
from gua.report.questions import Answer, ask_if
from gua.report.uses import UseName


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


ALLOCATION_NAMES: Final = View("allocation_names", AllocationNameRow, BOUNDS)
PROMISED_WORK: Final = View("promised_work", PromisedWorkRow, (*READ, "by"))
PROMISES: Final = View("promises", PromiseRow, (*READ, *PRICED))


def ask_promises(
    reader: ViewReader, read: Mapping[str, object], prices: Prices, sources: Callable[[], Sequence[SourceRow]]
) -> Answer[PromiseRow]:
    """Ask to whom cards are promised, where any of the ``sources`` tells: of most stores none does."""
    return ask_if(reader, sources, PROMISES, {**read, **prices.parameters})


def ask_allocation_names(
    reader: ViewReader, read: Mapping[str, object], sources: Callable[[], Sequence[SourceRow]]
) -> Answer[AllocationNameRow]:
    """Ask what allocations are called, where any of the ``sources`` tells of them."""
    return ask_if(reader, sources, ALLOCATION_NAMES, {name: read[name] for name in BOUNDS})


def ask_promised_work(
    reader: ViewReader, read: Mapping[str, object], by: str, sources: Callable[[], Sequence[SourceRow]]
) -> Answer[PromisedWorkRow]:
    """Ask for what work cards were promised, where any of the ``sources`` tells to whom they were."""
    return ask_if(reader, sources, PROMISED_WORK, {**read, "by": by})
