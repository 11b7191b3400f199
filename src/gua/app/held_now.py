"""Holders that are idle or empty at a moment, for notices: the section ``now`` of a report, grouped by job and pod."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gua.core.moments import to_rfc3339
from gua.core.ports import ViewReader
from gua.core.rules import State
from gua.core.words import Use
from gua.core.workloads import workload_kind
from gua.notices.held import Held, HeldCard, HeldState, HolderKind
from gua.report import fleet
from gua.report.filters import Labels
from gua.report.kit.figures import plural
from gua.report.now_alone import collect_now
from gua.report.sections.now_rows import SILENT, AllocatedCard, Holder, Now, OtherHolder
from gua.report.window import ReportRequest

KUBERNETES: Final = "kubernetes"
SLURM: Final = "slurm"
_CLUSTER: Final = "cluster"
_MAY_BE_USED: Final = (State.ACTIVE, State.UNKNOWN)

ON_SEVERAL_HOSTS: Final = frozenset((HolderKind.JOB, HolderKind.POD))
Identity = tuple[HolderKind, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldNow:
    """Holders that are idle or empty as of ``at_ms`` (Unix ms); ``unknown`` has in words what no notice may rest on.

    ``used`` are kinds and keys of holders that use a card, or may use one. ``active_percent`` is the utilization from
    which a card is active, ``interval_seconds`` how often it is read, ``None`` if that differs between the hosts.
    """

    at_ms: int
    held: tuple[Held, ...]
    unknown: tuple[str, ...]
    used: frozenset[Identity] = frozenset()
    active_percent: float = 10
    interval_seconds: float | None = None


def held_now(reader: ViewReader, *, at_ms: int, lookback_ms: int, hosts: tuple[str, ...] = ()) -> HeldNow:
    """Return the holders as of ``at_ms``; idle times are searched back for ``lookback_ms``.

    A job or pod on some ``hosts`` is looked at on all of its hosts. Raises UsageError for an unknown host,
    UnavailableError without ticks in that time.
    """
    found = _held_on(reader, hosts, at_ms=at_ms, lookback_ms=lookback_ms)
    if not hosts or all(one.kind not in ON_SEVERAL_HOSTS for one in found.held):
        return found
    everywhere = _held_on(reader, (), at_ms=at_ms, lookback_ms=lookback_ms)
    here = {(one.kind, one.key) for one in found.held}
    held = tuple(one for one in everywhere.held if (one.kind, one.key) in here)
    return replace(found, held=held, used=everywhere.used)


def _held_on(reader: ViewReader, hosts: tuple[str, ...], *, at_ms: int, lookback_ms: int) -> HeldNow:
    request = ReportRequest(
        since=to_rfc3339(at_ms - lookback_ms),
        until=to_rfc3339(at_ms),
        hosts=hosts,
        now_ms=at_ms,
    )
    found = collect_now(reader, request)
    threshold = next(rule.value for rule in found.rules if rule.key == "active_utilization")
    intervals_ms = {extent.interval_ms for extent in found.extents}
    interval_ms = intervals_ms.pop() if len(intervals_ms) == 1 else None
    return replace(
        grouped_holders(found.now, fleet.labels(reader), at_ms=at_ms),
        active_percent=100 * threshold,
        interval_seconds=None if interval_ms is None else interval_ms / 1000,
    )


def grouped_holders(now: Now, labels: Labels, *, at_ms: int) -> HeldNow:
    """Return the holders of a section ``now``: processes by job and pod, empty allocations, and unlisted memory."""
    parts: dict[tuple[HeldState, HolderKind, str], list[Held]] = {}
    allocations = [(one, _of_allocation(one, labels)) for one in now.allocations]
    empty = [held for one, held in allocations if one.use == Use.EMPTY]
    allocated = {(held.kind, held.key): held for _, held in allocations}
    unknown = [*_unknown_cards(now)]
    used = {key for other in now.others if (key := _identity(other, labels)) is not None}
    used |= {(held.kind, held.key) for one, held in allocations if one.use == Use.USED}
    unobserved = {key for other in now.unobserved if (key := _identity(other, labels)) is not None}
    may_be_used = [held for one, held in allocations if one.use == Use.UNKNOWN and one.card_state in _MAY_BE_USED]
    unobserved |= {(held.kind, held.key) for held in may_be_used}
    blind = [one for one in now.holders if one.card_state == State.UNKNOWN]
    unobserved |= {key for one in blind if (key := _identity(one, labels)) is not None}
    unobserved -= used
    for holder in now.holders:
        identity = _identity(holder, labels)
        if identity is None:
            unknown.append(f"{_place(holder)}: pid {holder.pid} has no known start, so it cannot be identified")
        elif identity in unobserved:
            unknown.append(f"{_place(holder)}: pid {holder.pid}: what it, its job or its pod does elsewhere is unknown")
        elif identity not in used:
            held = _of_holder(holder, identity, allocated.get(identity), labels)
            parts.setdefault((held.state, *identity), []).append(held)
    for held in empty:
        parts.setdefault((held.state, held.kind, held.key), []).append(held)
    return HeldNow(
        at_ms=at_ms,
        held=tuple(_together(each) for each in parts.values()),
        unknown=tuple(unknown),
        used=frozenset(used | unobserved),
    )


def _identity(holder: Holder | OtherHolder, labels: Labels) -> Identity | None:
    """Return the kind and key of a process's holder; ``None`` where its start is unknown."""
    if holder.pid is None:
        return HolderKind.CARD, f"{holder.host} {holder.gpu}"
    if holder.slurm_job_id:
        return HolderKind.JOB, _in_cluster(holder.slurm_job_id, labels.get(holder.host, {}))
    if holder.pod_uid:
        return HolderKind.POD, holder.pod_uid
    if holder.created_ms is None:
        return None
    return HolderKind.PROCESS, f"{holder.host} {holder.pid} {holder.created_ms}"


def _in_cluster(job: str, labels: Mapping[str, str]) -> str:
    """Return a job id that is unique among clusters, which number their jobs from 1 each."""
    cluster = labels.get(_CLUSTER)
    return f"{cluster}/{job}" if cluster else job


def _of_holder(holder: Holder, identity: Identity, allocated: Held | None, labels: Labels) -> Held:
    """Return the holder of a process; a job or pod also has the names of its allocation.

    The owner of a pod is that of its allocation, as the user inside a container says little.
    """
    kind, key = identity
    return Held(
        state=HeldState.NO_PROCESS if holder.pid is None else HeldState.IDLE_HELD,
        kind=kind,
        key=key,
        cards=(_card(holder, holder.memory_bytes),),
        owner=allocated.owner if allocated and kind is HolderKind.POD and allocated.owner else holder.owner,
        program=holder.program,
        workload=workload_kind(holder.program),
        pid=holder.pid,
        job=holder.slurm_job_id,
        job_name=allocated.job_name if allocated else None,
        pod=(allocated and allocated.pod) or holder.pod_uid,
        namespace=allocated.namespace if allocated else None,
        container_id=holder.container_id,
        since_ms=holder.idle_since_ms,
        idle_ms=holder.idle_ms,
        last_ms=holder.as_of_ms,
        host_labels=labels.get(holder.host, {}),
    )


def _of_allocation(one: AllocatedCard, labels: Labels) -> Held:
    of_host = labels.get(one.host, {})
    kind, key = HolderKind.ALLOCATION, f"{one.source} {one.host} {one.allocation_id}"
    pod = f"{one.owner}/{one.job_name}" if one.source == KUBERNETES and one.owner and one.job_name else None
    if one.source == KUBERNETES:
        kind, key = HolderKind.POD, one.allocation_id
    elif one.source == SLURM:
        kind, key = HolderKind.JOB, _in_cluster(one.allocation_id, of_host)
    return Held(
        state=HeldState.EMPTY,
        kind=kind,
        key=key,
        cards=(_card(one, None),),
        owner=one.owner,
        job=one.allocation_id if one.source == SLURM else None,
        job_name=one.job_name,
        pod=pod or (one.allocation_id if one.source == KUBERNETES else None),
        namespace=one.owner if one.source == KUBERNETES else None,
        since_ms=one.use_since_ms,
        idle_ms=one.in_use_ms,
        last_ms=one.as_of_ms,
        host_labels=of_host,
    )


def _card(one: Holder | AllocatedCard, memory_bytes: int | None) -> HeldCard:
    return HeldCard(host=one.host, gpu=one.gpu, index=one.index, name=one.card_name, memory_bytes=memory_bytes)


def _together(parts: list[Held]) -> Held:
    """Return one holder for its parts on several cards: idle as long as the part that is idle for the shortest time."""
    shortest = min(parts, key=lambda held: held.idle_ms)
    if len(parts) == 1:
        return shortest
    cards: dict[tuple[str, str], HeldCard] = {}
    for card in sorted((card for held in parts for card in held.cards), key=lambda card: (card.host, card.index or 0)):
        before = cards.get((card.host, card.gpu))
        sizes = [one.memory_bytes for one in (before, card) if one is not None]
        memory_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        cards[card.host, card.gpu] = replace(card, memory_bytes=memory_bytes)
    return replace(
        shortest,
        cards=tuple(cards.values()),
        since_ms=max(held.since_ms for held in parts),
        last_ms=min(held.last_ms for held in parts),
    )


def _unknown_cards(now: Now) -> Iterator[str]:
    """Yield in words which cards say nothing: silent ones, and those of unknown state."""
    for state, why in (
        (SILENT, "no tick for three intervals"),
        (State.UNKNOWN, "their state is unknown at the newest tick"),
    ):
        hosts = Counter(card.host for card in now.by_card if card.state == state)
        yield from (f"{host}: {plural(count, 'GPU')} without a notice: {why}" for host, count in sorted(hosts.items()))


def _place(holder: Holder) -> str:
    return f"{holder.host} GPU {holder.gpu if holder.index is None else holder.index}"
