"""Attribution of a card's GPU time: equal parts for its holders, then equal parts for each holder's processes.

Computed once, when a tick is built. Stores and reports sum these parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gua.core.tick import ProcessReading
from gua.core.words import ProcessType

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
