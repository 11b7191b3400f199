"""Allocations of cards and their use: relations to processes, the parts of a tick, and the seven uses.

The agent applies :class:`AllocationMatcher` when it makes a tick. Reports decide the uses by :func:`use`.
``clickhouse/20_rules/06_allocation_states.sql`` has the same rules in SQL; the cases in ``tests/cases/allocation``
test both.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from gua.core.rules import State
from gua.core.tick import AllocationReading, CardReading, ProcessReading
from gua.core.words import AllocationStatus, ProcessList, ProcessType, Relation, Use
from gua.core.workloads import NO_WORK, Work, together, workload_kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """An allocation of cards to an owner for a period, from one source.

    ``cards`` are UUIDs; the UUID of a partitioned GPU includes its instances. An allocation with a ``container_id``
    matches processes by that alone, one with a pod by ``pod_uid``, else by namespace and name. Others match by
    ``slurm_job_id``, ``uid`` or ``owner``, the first that both sides know. Times are Unix ms.
    ``workload_kind`` and ``workload_model`` are the purpose that its owner declared.
    """

    source: str
    id: str
    cards: frozenset[str]
    since_ms: int
    until_ms: int | None = None
    owner: str | None = None
    uid: int | None = None
    kind: str | None = None
    job_name: str | None = None
    slurm_job_id: str | None = None
    pod_uid: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None
    container_id: str | None = None
    workload_kind: str | None = None
    workload_model: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the allocation: source and id."""
        return self.source, self.id


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueWaits:
    """Waiting requests since the last look: ``waiting`` now, ``wait_ms`` their summed waiting time [ms].

    ``waited_ms`` is the time with at least one waiting request [ms].
    """

    waiting: int
    wait_ms: int
    waited_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceHealth:
    """Health of a source after a look. ``reason`` is why it is unreadable, in a few words; ``None`` if it was read.

    ``unknown_cards`` are UUIDs of cards whose allocation a readable source does not know. ``waits`` is ``None`` for a
    source without a queue.
    """

    source: str
    reason: str | None = None
    unknown_cards: frozenset[str] = frozenset()
    waits: QueueWaits | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationLook:
    """All sources at one moment: allocations that cover any time since the last look, and the sources' health."""

    allocations: tuple[Allocation, ...] = ()
    sources: tuple[SourceHealth, ...] = ()

    def is_known(self, uuid: str) -> bool:
        """Return whether a card's time without an allocation is known to be unallocated."""
        return all(source.reason is None and uuid not in source.unknown_cards for source in self.sources)


class CardKey(NamedTuple):
    """Names by which sources may identify a card. ``pci`` is lower case: domain:bus:device.function.

    ``pods`` are the uids of pods with processes on the card now, from which a source may infer its allocation.
    """

    uuid: str
    gpu_index: int | None = None
    minor: int | None = None
    pci: str | None = None
    parent: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    pods: frozenset[str] = frozenset()


def use(state: State, relation: Relation | None) -> Use:
    """Return the use of a part of a tick by the card's state and the allocation's relation (``None``: unallocated).

    Do not call it for time whose allocation is unknown: that is ``Use.UNKNOWN`` in every state.
    """
    if state is State.UNKNOWN:
        return Use.UNKNOWN
    if relation is None:
        return Use.FREE if state is State.TRULY_IDLE else Use.UNALLOCATED_USE
    if relation is Relation.OTHERS:
        return Use.USED_BY_OTHERS
    is_idle = state is State.TRULY_IDLE
    if relation is Relation.CO_OWNERS or (is_idle and relation in {Relation.NOBODY, Relation.SOLE}):
        return Use.EMPTY
    if relation in {Relation.OWNER, Relation.BOTH, Relation.SOLE}:
        return Use.USED if state is State.ACTIVE else Use.HELD
    return Use.UNKNOWN


class Part(NamedTuple):
    """A part of a card tick's GPU time [ms] and its use; ``allocation`` is ``None`` if unallocated or unknown."""

    allocation: AllocationReading | None
    use: Use
    gpu_time_ms: int


def parts(card: CardReading, state: State) -> tuple[Part, ...]:
    """Return the parts of a card tick by use; they sum to its GPU time. Empty without a configured source.

    If allocations exceed the GPU time, the excess is cut off in the order of source and id.
    """
    if card.allocation is None:
        return ()
    made: list[Part] = []
    left = card.gpu_time_ms
    for each in sorted(card.allocations, key=lambda allocation: (allocation.source, allocation.id)):
        made.append(Part(each, use(state, each.relation), min(each.gpu_time_ms, left)))
        left -= made[-1].gpu_time_ms
    unallocated_ms = min(card.unallocated_gpu_time_ms or 0, left)
    made += [Part(None, use(state, None), unallocated_ms)] if unallocated_ms else []
    made += [Part(None, Use.UNKNOWN, left - unallocated_ms)] if left > unallocated_ms else []
    return tuple(made)


def belongs(process: ProcessReading, allocation: Allocation) -> bool | None:
    """Return whether a process belongs to an allocation; ``None`` if both sides have no identity in common."""
    if allocation.container_id is not None:
        # A container's root differs from the host's. A process whose identity is unreadable may be in the container.
        return process.container_id == allocation.container_id if process.uid is not None else None
    if allocation.pod_name is not None or allocation.pod_uid is not None:
        return _is_in_pod(process, allocation)
    for allocated, own in ((allocation.slurm_job_id, process.slurm_job_id), (allocation.uid, process.uid)):
        if allocated is not None and own is not None:
            return allocated == own
    if allocation.owner is None or process.owner is None:
        return None
    # A user without a name is represented by the uid on either side.
    if allocation.owner in {process.owner, str(process.uid)}:
        return True
    return None if process.owner.isdecimal() or allocation.owner.isdecimal() else False


def _is_in_pod(process: ProcessReading, allocation: Allocation) -> bool | None:
    if allocation.pod_uid is not None and process.pod_uid is not None:
        return process.pod_uid == allocation.pod_uid
    if allocation.pod_name is not None and process.pod_name is not None:
        return (process.pod_namespace, process.pod_name) == (allocation.pod_namespace, allocation.pod_name)
    # A process outside pods is not in this one. One in a pod that is known by its other identity may be, and so may
    # one whose identity is unreadable.
    return False if process.uid is not None and process.pod_uid is None and process.pod_name is None else None


_Key = tuple[str, str]


class _Standing(NamedTuple):
    """Relation of an allocation to the processes on a card, and the work of its owner's processes."""

    relation: Relation
    workload: Work = NO_WORK


_UNKNOWN: Final = _Standing(Relation.UNKNOWN)
_OF_POD: Final = ("pod_uid", "pod_name", "pod_namespace")
# What decides the allocation to which a process belongs, and what its work is.
_identity: Final = attrgetter(
    "slurm_job_id", "uid", "owner", *_OF_POD, "container_id", "comm", "workload_kind", "workload_model"
)


def _standings(card: CardReading, allocations: Sequence[Allocation]) -> dict[_Key, _Standing]:
    """Return the standing of each of a card's simultaneous allocations."""
    if card.process_list is not ProcessList.KNOWN:
        return {each.key: _UNKNOWN for each in allocations}
    # A hundred processes of one job have one identity, and so the same relations.
    alike = {_identity(process): process for process in card.processes if process.type is not ProcessType.IGNORED}
    counted = [*alike.values()]
    belonging = [[belongs(process, each) for each in allocations] for process in counted]
    return {
        each.key: _Standing(
            _relation(belonging, place),
            together(
                Work(process.workload_kind or workload_kind(process.comm), process.workload_model)
                for process, of_process in zip(counted, belonging, strict=True)
                if of_process[place]
            ),
        )
        for place, each in enumerate(allocations)
    }


def _relation(belonging: Iterable[Sequence[bool | None]], place: int) -> Relation:
    """Return the relation of one allocation; ``belonging`` is, per process, whether it belongs to each allocation."""
    is_owner = is_other = is_co_owner = is_unknown = False
    for of_process in belonging:
        if of_process[place]:
            is_owner = True
        elif True in of_process:
            is_co_owner = True
        elif None in of_process:
            is_unknown = True
        else:
            is_other = True
    if is_owner:
        return Relation.BOTH if is_other else Relation.OWNER
    if is_unknown:
        return Relation.UNKNOWN
    if is_other:
        return Relation.OTHERS
    return Relation.CO_OWNERS if is_co_owner else Relation.NOBODY


_MOST_CARDS: Final = 4096


@dataclass(slots=True)
class AllocationMatcher:
    """Matcher of allocations to cards; it stores each card's last relations from tick to tick."""

    _allocations: tuple[Allocation, ...] = ()
    _by_card: dict[str, dict[_Key, Allocation]] = field(default_factory=dict)
    _at_end: dict[str, list[tuple[Allocation, _Standing]]] = field(default_factory=dict)

    def allocate(self, card: CardReading, look: AllocationLook, *, ts_ms: int) -> None:
        """Set the allocations of a new reading in the tick that ends at ``ts_ms`` [Unix ms].

        Its processes get the work that their allocations declare, unless they have a value of their own.
        An allocation whose start is after the tick (the clock was set back) covers all of it. One that ended within the
        tick retains the relation of the previous tick, because its processes were not read since.
        """
        if not look.sources:
            return
        start_ms = ts_ms - card.duration_ms
        is_known = look.is_known(card.uuid) and (card.parent is None or look.is_known(card.parent))
        covers = [
            (allocation, since_ms, until_ms)
            for allocation in self._card_allocations(card, look)
            for since_ms, until_ms in [_cover(allocation, start_ms, ts_ms)]
            if since_ms < until_ms
        ]
        if not covers:
            self._at_end.pop(card.uuid, None)
            card.allocation = AllocationStatus.UNALLOCATED if is_known else AllocationStatus.UNKNOWN
            card.unallocated_gpu_time_ms = card.gpu_time_ms if is_known else None
            return
        # Simultaneous allocations have equal parts of the GPU time, to the millisecond.
        times = [0] * len(covers)
        for since, until in pairwise(sorted({bound for _, *bounds in covers for bound in bounds})):
            inside = [place for place, cover in enumerate(covers) if cover[1] <= since and until <= cover[2]]
            whole = _until(card, until - start_ms) - _until(card, since - start_ms)
            for order, place in enumerate(inside):
                times[place] += whole // len(inside) + (order < whole % len(inside))
        at_end = [allocation for allocation, _, until_ms in covers if until_ms == ts_ms]
        standings = self._standings(card, at_end)
        card.allocation = AllocationStatus.ALLOCATED
        card.unallocated_gpu_time_ms = card.gpu_time_ms - sum(times) if is_known else None
        card.allocations = tuple(
            _reading(each, standings.get(each.key, _UNKNOWN), until_ms - since_ms, gpu_time_ms)
            for (each, since_ms, until_ms), gpu_time_ms in zip(covers, times, strict=True)
        )
        card.processes = _labelled(card.processes, at_end)

    def _card_allocations(self, card: CardReading, look: AllocationLook) -> list[Allocation]:
        """Return the allocations of a card and of its parent GPU, each once, sorted by source and id."""
        if look.allocations != self._allocations:
            by_card: defaultdict[str, dict[_Key, Allocation]] = defaultdict(dict)
            for allocation in look.allocations:
                for uuid in allocation.cards:
                    by_card[uuid][allocation.key] = allocation
            self._by_card, self._allocations = by_card, look.allocations
        by_key = {**self._by_card.get(card.parent or "", {}), **self._by_card.get(card.uuid, {})}
        return [by_key[key] for key in sorted(by_key)]

    def _standings(self, card: CardReading, at_end: list[Allocation]) -> Mapping[_Key, _Standing]:
        """Return the standing of every allocation that the card has or had since the previous tick."""
        before = {each.key: standing for each, standing in self._at_end.pop(card.uuid, ())}
        newest = _standings(card, at_end)
        self._at_end[card.uuid] = [(each, newest[each.key]) for each in at_end]
        if len(self._at_end) > _MOST_CARDS:  # MIG instances come and go, each with its own UUID
            del self._at_end[next(iter(self._at_end))]
        return before | newest


def _labelled(processes: tuple[ProcessReading, ...], allocations: list[Allocation]) -> tuple[ProcessReading, ...]:
    """Return the processes with the work that each one's allocation declares, as far as it has none itself."""
    declared = [each for each in allocations if each.workload_kind is not None or each.workload_model is not None]
    if not declared:
        return processes
    labelled = []
    for process in processes:
        own = next((each for each in declared if belongs(process, each)), None)
        if own is not None and process.type is not ProcessType.IGNORED:
            kind, model = process.workload_kind or own.workload_kind, process.workload_model or own.workload_model
            process = replace(process, workload_kind=kind, workload_model=model)  # noqa: PLW2901 - the same one
        labelled.append(process)
    return tuple(labelled)


_FUTURE_MS: Final = 1000
"""Tolerated lag of our clock behind a source's [ms]; Slurm's times are in whole seconds."""


def _cover(allocation: Allocation, start_ms: int, end_ms: int) -> tuple[int, int]:
    """Return the start and end [Unix ms] of an allocation within the tick, equal if it does not cover any of it."""
    since, until = allocation.since_ms, allocation.until_ms
    if until is None and since <= start_ms:
        return start_ms, end_ms
    since = since if since <= end_ms + _FUTURE_MS else start_ms
    until = end_ms if until is None else until
    return min(max(since, start_ms), end_ms), min(max(until, start_ms), end_ms)


def _until(card: CardReading, elapsed_ms: int) -> int:
    """Return the GPU time [ms] of the tick's first ``elapsed_ms``."""
    return card.gpu_time_ms * elapsed_ms // card.duration_ms


_COPIED: Final = ("since_ms", "until_ms", "owner", "uid", "kind", "job_name", "pod_uid", "pod_name", "pod_namespace")


def _reading(allocation: Allocation, of: _Standing, duration_ms: int, gpu_time_ms: int) -> AllocationReading:
    return AllocationReading(
        source=allocation.source,
        id=allocation.id,
        relation=of.relation,
        workload_kind=allocation.workload_kind or of.workload.kind,
        workload_model=allocation.workload_model or of.workload.model,
        duration_ms=duration_ms,
        gpu_time_ms=gpu_time_ms,
        **{name: getattr(allocation, name) for name in _COPIED},
    )
