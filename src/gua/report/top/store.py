"""What ``gua top`` shows of a store: the newest tick of every card and its holders, as the shipped views tell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gua.core.ports import ViewReader
from gua.core.view import Moment, View
from gua.core.words import Use
from gua.report.allocation_sources import newest_sources
from gua.report.questions import ask
from gua.report.rows import EXTENT
from gua.report.status.allocation import WORST_FIRST
from gua.report.top.model import Snapshot, TopAllocation, TopCard, TopHolder
from gua.report.uses import UseName
from gua.report.window import choose_extents


class CurrentAllocationRow(NamedTuple):
    """An allocation that a card has at its newest tick, which ends at ``last_ms`` (Unix ms)."""

    host: str
    gpu: str
    source: str
    allocation_id: str
    owner: str | None
    job_name: str | None
    last_ms: Moment
    use: UseName
    use_since_ms: Moment
    use_since_is_lower_bound: bool
    until_ms: Moment | None


CURRENT_ALLOCATIONS: Final = View("current_allocations", CurrentAllocationRow, ("hosts",))
TOP_CARDS: Final = View("top_cards", TopCard, ("hosts",))
TOP_HOLDERS: Final = View("top_holders", TopHolder, ("hosts",))


def snapshot_of_store(reader: ViewReader, *, where: str, hosts: Sequence[str] = ()) -> Snapshot:
    """Ask a store for its cards and holders now, of these hosts or of all.

    Raises UsageError for a host that it does not know, UnavailableError where it holds nothing yet.
    """
    asked = {"hosts": list(hosts)}
    cards, holders = ask(reader, TOP_CARDS, asked), ask(reader, TOP_HOLDERS, asked)
    found = cards()
    now_ms = found[0].now_ms if found else 0
    looked_at = any(row.allocation is not None for row in found)
    promises: dict[tuple[str, str], list[CurrentAllocationRow]] = {}
    for promise in ask(reader, CURRENT_ALLOCATIONS, asked)() if looked_at else ():
        promises.setdefault((promise.host, promise.gpu), []).append(promise)
    known = {row.host for row in found}
    if not found or set(hosts) - known:
        choose_extents(EXTENT.rows(reader, {"hosts": []}), hosts)
    return Snapshot(
        source="store",
        where=where,
        taken_ms=now_ms,
        cards=tuple(
            replace(card, allocations=tuple(_allocations(promises.get((card.host, card.gpu), ())))) for card in found
        ),
        holders=tuple(holders()),
        conditions=tuple(_unread(reader, now_ms, hosts)) if looked_at else (),
    )


def _unread(reader: ViewReader, now_ms: int, hosts: Sequence[str]) -> Iterator[str]:
    """Yield which sources of allocations could not be read at their newest tick of the last minutes."""
    for one in newest_sources(reader, now_ms, hosts):
        if not one.ok:
            yield f"allocations by {one.source} on {one.host} cannot be read: {one.reason or '?'}"


def _allocations(rows: Iterable[CurrentAllocationRow]) -> Iterator[TopAllocation]:
    """Yield the allocations of a card, the worst use first."""
    for row in sorted(rows, key=lambda row: WORST_FIRST.index(Use(row.use))):
        yield TopAllocation(
            source=row.source,
            id=row.allocation_id,
            owner=row.owner,
            job_name=row.job_name,
            use=row.use,
            use_ms=row.last_ms - row.use_since_ms,
            use_is_lower_bound=row.use_since_is_lower_bound,
            until_ms=row.until_ms,
        )
