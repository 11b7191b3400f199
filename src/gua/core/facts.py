"""Input of the state rules (one card in one tick, in stored units), and the split of GPU time among processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gua.core.words import ProcessList, ProcessType

Holder = tuple[str, str | int | None]


def holder(process: ProcessReading) -> Holder:
    """Return the holder that a process belongs to, as (kind, identity).

    The kind is the first that is known of Slurm job, pod, container, user id and user name. User id 0 is root, a
    known user. All processes of unknown user share the holder ``("user", None)``, because they cannot be
    distinguished. As separate holders they would take GPU time from the known ones.
    """
    if process.slurm_job_id is not None:
        return "slurm_job", process.slurm_job_id
    if process.pod_uid is not None:
        return "pod", process.pod_uid
    if process.container_id is not None:
        return "container", process.container_id
    if process.uid is not None:
        return "uid", process.uid
    return ("user", None) if process.owner is None else ("owner", process.owner)


def split_gpu_time(
    gpu_time_ms: int, processes: Sequence[ProcessReading], idle_ms: Sequence[int | None] | None = None
) -> tuple[ProcessReading, ...]:
    """Return the processes in their order with ``gpu_time_ms`` set on each, and ``idle_ms`` if it is passed.

    The parts of counted processes sum to the card's GPU time [ms] exactly. Ignored processes get ``None``.
    Holders differ by at most 1 ms, as do the processes of one holder. A division's remainder goes, 1 ms each, to
    those with the smallest (pid, start), so the result does not depend on the driver's order.
    Without a counted process no time is attributed. Never raises.
    """
    idle = [process.idle_ms for process in processes] if idle_ms is None else idle_ms
    by_holder: defaultdict[Holder, list[int]] = defaultdict(list)
    order = sorted((one.pid, -1 if one.created_ms is None else one.created_ms, at) for at, one in enumerate(processes))
    for _, _, position in order:
        process = processes[position]
        if process.type is not ProcessType.IGNORED:
            by_holder[holder(process)].append(position)

    parts: dict[int, int] = {}
    for held_ms, positions in zip(_split(gpu_time_ms, len(by_holder)), by_holder.values(), strict=True):
        parts.update(zip(positions, _split(held_ms, len(positions)), strict=True))
    return tuple(replace(process, gpu_time_ms=parts.get(at), idle_ms=idle[at]) for at, process in enumerate(processes))


def _split(total: int, shares: int) -> list[int]:
    """Return ``shares`` integers that sum to ``total`` and differ by at most 1, larger ones first."""
    if shares == 0:
        return []
    whole, left = divmod(total, shares)
    return [whole + (share < left) for share in range(shares)]


if TYPE_CHECKING:
    from gua.core.tick import CardReading, ProcessReading

RATIO_SCALE = 10_000


@dataclass(frozen=True, slots=True)
class TypeTotals:
    """Totals of the processes of one type on one card: count, known memory, and count of unknown memory."""

    count: int = 0
    memory_bytes: int = 0
    unknown: int = 0


_PLACES = {kind: 3 * number for number, kind in enumerate(ProcessType)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """The stored columns of a card tick that decide its state.

    Utilizations are in 1/10,000 (``utilization=1000`` is 10 %). ``processes`` is ``None`` if the list is unknown,
    because its metrics are absent then. A type that is missing from it has no process.
    """

    utilization: int | None = None
    utilization_encoder: int | None = None
    utilization_decoder: int | None = None
    process_utilization_max: int | None = None
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_shared: bool | None = None
    process_list: ProcessList = ProcessList.ABSENT
    processes: dict[ProcessType, TypeTotals] | None = None
    failed: bool | None = None
    processes_seen: int | None = None


def ratio(value: float | None) -> int | None:
    """Return a ratio in 1/10,000, rounded half to even as ClickHouse's ``round`` does."""
    return None if value is None else round(value * RATIO_SCALE)


def type_totals(processes: tuple[ProcessReading, ...]) -> list[int]:
    """Return count, known memory [bytes] and count of unknown memory for each process type in order, as one list."""
    totals = [0] * (3 * len(_PLACES))
    for process in processes:
        place = _PLACES[process.type]
        totals[place] += 1
        if process.memory_bytes is None:
            totals[place + 2] += 1
        else:
            totals[place + 1] += process.memory_bytes
    return totals


def totals_by_type(processes: tuple[ProcessReading, ...]) -> dict[ProcessType, TypeTotals]:
    """Return the totals of every process type, including types without a process."""
    totals = type_totals(processes)
    return {kind: TypeTotals(*totals[place : place + 3]) for kind, place in _PLACES.items()}


def busiest(processes: tuple[ProcessReading, ...]) -> float | None:
    """Return the largest known utilization of any process, ``None`` if none is known."""
    return max([process.utilization for process in processes if process.utilization is not None], default=None)


def card_facts(card: CardReading) -> CardFacts:
    """Return the rules' input for a reading: exactly the values that the store has."""
    return CardFacts(
        utilization=ratio(card.utilization),
        utilization_encoder=ratio(card.utilization_encoder),
        utilization_decoder=ratio(card.utilization_decoder),
        process_utilization_max=ratio(busiest(card.processes)),
        processes=totals_by_type(card.processes) if card.process_list is ProcessList.KNOWN else None,
        memory_used_bytes=card.memory_used_bytes,
        memory_limit_bytes=card.memory_limit_bytes,
        memory_reserved_bytes=card.memory_reserved_bytes,
        memory_shared=card.memory_shared,
        process_list=card.process_list,
        failed=card.failed,
        processes_seen=card.processes_seen,
    )
