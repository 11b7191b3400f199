"""What ``gua top`` shows of a store: the newest tick of every card and its holders, as the shipped views tell them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.core.facts import RATIO_SCALE
from gua.core.ports import ViewReader
from gua.core.rules import State
from gua.core.stored import ProcessValues
from gua.core.view import Count, Moment, ProcessStateName, View
from gua.core.words import AllocationStatus, Use
from gua.report.allocation_sources import newest_sources
from gua.report.questions import ask
from gua.report.rows import EXTENT
from gua.report.status.allocation import WORST_FIRST
from gua.report.top.model import UNOBSERVED, Snapshot, TopAllocation, TopCard, TopHolder
from gua.report.uses import UseName
from gua.report.window import choose_extents


class TopCardRow(NamedTuple):
    """A card's newest tick; ``age_ms`` is how long ago it was. An allocation had it until ``promised_until_ms``."""

    host: str
    gpu: str
    gpu_index: Count | None
    name: str | None
    mig: str | None
    state: str
    last_state: str
    reason: str | None
    age_ms: int
    in_state_ms: int
    busiest_utilization: Count | None
    held_lower_bytes: Count
    memory_used_bytes: Count | None
    memory_limit_bytes: Count | None
    power_mw: Count | None
    temperature_celsius: int | None
    interval_ms: Count | None
    ts_ms: Moment
    now_ms: Moment
    allocation: str | None
    promised_until_ms: Moment | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopHolderRow(ProcessValues):
    """A process of a card's newest tick."""

    host: str
    gpu: str
    gpu_index: Count | None
    name: str | None
    created_ms: Moment | None
    state: ProcessStateName
    idle_ms: Count | None


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
TOP_CARDS: Final = View("top_cards", TopCardRow, ("hosts",))
TOP_HOLDERS: Final = View("top_holders", TopHolderRow, ("hosts",))


def snapshot_of_store(reader: ViewReader, *, where: str, hosts: Sequence[str] = ()) -> Snapshot:
    """Ask a store for its cards and holders now, of these hosts or of all.

    Raises UsageError for a host that it does not know, UnavailableError where it holds nothing yet.
    """
    asked = {"hosts": list(hosts)}
    cards, holders = ask(reader, TOP_CARDS, asked), ask(reader, TOP_HOLDERS, asked)
    found = cards()
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
        taken_ms=found[0].now_ms if found else 0,
        cards=tuple(_card(row, promises.get((row.host, row.gpu), ())) for row in found),
        holders=tuple(map(_holder, holders())),
        conditions=tuple(_unread(reader, found[0].now_ms, hosts)) if looked_at else (),
    )


def _unread(reader: ViewReader, now_ms: int, hosts: Sequence[str]) -> Iterator[str]:
    """Yield which sources of allocations could not be read at their newest tick of the last minutes."""
    for one in newest_sources(reader, now_ms, hosts):
        if not one.ok:
            yield f"allocations by {one.source} on {one.host} cannot be read: {one.reason or '?'}"


def _card(row: TopCardRow, promises: Sequence[CurrentAllocationRow]) -> TopCard:
    stale = row.state == UNOBSERVED
    is_free = not promises and row.state == State.TRULY_IDLE and row.allocation != AllocationStatus.UNKNOWN
    since_given_back_ms = row.ts_ms - (row.promised_until_ms or 0)
    return TopCard(
        host=row.host,
        gpu=row.gpu,
        index=row.gpu_index,
        name=row.name,
        mig=row.mig,
        state=row.state,
        last_state=row.last_state,
        reason=row.reason,
        state_ms=max(row.age_ms if stale else row.in_state_ms, 0),
        at_least=False,
        utilization=_ratio(row.busiest_utilization),
        held_bytes=row.held_lower_bytes,
        used_bytes=row.memory_used_bytes,
        limit_bytes=row.memory_limit_bytes,
        power_watts=None if row.power_mw is None else row.power_mw / 1000,
        temperature_celsius=row.temperature_celsius,
        interval_ms=row.interval_ms,
        age_ms=row.age_ms,
        allocation=row.allocation,
        allocations=tuple(
            TopAllocation(
                source=one.source,
                id=one.allocation_id,
                owner=one.owner,
                job_name=one.job_name,
                use=one.use,
                use_ms=one.last_ms - one.use_since_ms,
                at_least=one.use_since_is_lower_bound,
                until_ms=one.until_ms,
            )
            for one in sorted(promises, key=lambda one: WORST_FIRST.index(Use(one.use)))
        ),
        free_ms=max(min(row.in_state_ms, since_given_back_ms), 0) if is_free else None,
    )


def _holder(row: TopHolderRow) -> TopHolder:
    return TopHolder(
        host=row.host,
        gpu=row.gpu,
        index=row.gpu_index,
        card_name=row.name,
        pid=row.pid,
        created_ms=row.created_ms,
        owner=row.owner,
        program=row.program,
        type=row.type,
        state=row.state,
        idle_ms=row.idle_ms,
        at_least=False,
        memory_bytes=row.memory_bytes,
        utilization=_ratio(row.utilization),
        container_id=row.container_id,
        pod_uid=row.pod_uid,
        slurm_job_id=row.slurm_job_id,
        systemd_unit=row.systemd_unit,
    )


def _ratio(stored: int | None) -> float | None:
    return None if stored is None else stored / RATIO_SCALE
