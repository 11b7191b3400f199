"""Whose a card's GPU time is: equal parts for its holders, within a holder equal parts for its processes.

Applied once, when a tick is built; what stores and reports show are sums of these parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessType

Holder = tuple[str, str | int | None]


def holder(process: ProcessReading) -> Holder:
    """Return who holds the card through this process: (kind, identity).

    The first that is known of Slurm job, pod, container, user id and user name. User id 0 is
    root, a known user. Every process of unknown user belongs to the one holder ``("user", None)``:
    nothing tells them apart, and counting each as its own would let one unknown user outweigh the rest.
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


def attribute(card: CardReading) -> CardReading:
    """Return the card with ``gpu_time_ms`` set on each of its processes: see :func:`split_gpu_time`. Never raises."""
    return replace(card, processes=split_gpu_time(card.gpu_time_ms, card.processes))


def split_gpu_time(
    gpu_time_ms: int, processes: Sequence[ProcessReading], idle_ms: Sequence[int | None] | None = None
) -> tuple[ProcessReading, ...]:
    """Return a card's processes, in their order, with ``gpu_time_ms`` set on each, and ``idle_ms`` where that is given.

    The counted processes' parts sum to the card's GPU time exactly; ignored processes get ``None``.
    Holders differ by at most 1 ms, as do the processes of one holder: a division's remainder goes, 1 ms
    each, to those with the smallest (pid, start), so that the same reading always gives the same parts
    whatever the order of the driver's list. Without a counted process nobody gets anything. Never raises.
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
    """Return ``shares`` whole numbers that sum to ``total``, the larger ones first."""
    if shares == 0:
        return []
    whole, left = divmod(total, shares)
    return [whole + (share < left) for share in range(shares)]
