"""Who a process is: :class:`gpu_usage_audit.core.ports.ProcessFacts`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpu_usage_audit.core.ports import RawProcess
from gpu_usage_audit.core.tick import ProcessReading, ProcessType
from gpu_usage_audit.identity.container import container_id
from gpu_usage_audit.identity.facts import Facts, ProcessTable
from gpu_usage_audit.identity.owner import Owners
from gpu_usage_audit.identity.pod import pod_uid
from gpu_usage_audit.identity.slurm import slurm_job_id
from gpu_usage_audit.identity.systemd import systemd_unit

DEFAULT_IGNORED: Final = (
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "kwin_x11",
    "kwin_wayland",
    "nvidia-cuda-mps-server",
    "nv-hostengine",
    "dcgm-exporter",
)
# TASK_COMM_LEN less the final zero: the kernel keeps no more of a name.
_COMM_BYTES: Final = 15
_TYPES: Final = (("mps", ProcessType.MPS), ("compute", ProcessType.COMPUTE), ("graphics", ProcessType.GRAPHICS))


class ProcessIdentity:
    """Identifies processes through a process table, a name service and the boot's moment.

    ``boot_time_ms`` (Unix time) must be the same for the whole boot: a process's start is counted from it, so
    that one process keeps one start however the clock moves. ``None``: starts stay unknown.
    ``ignored`` are process names whose processes do not count as users of a card.
    """

    def __init__(
        self,
        table: ProcessTable,
        owners: Owners,
        *,
        boot_time_ms: int | None,
        ignored: Iterable[str] = DEFAULT_IGNORED,
    ) -> None:
        self._table = table
        self._owners = owners
        self._boot_time_ms = boot_time_ms
        self._ignored = frozenset(_comm(name) for name in ignored)

    def identify(self, process: RawProcess) -> ProcessReading:
        """Return the process with what is known of it; a process that died or is hidden still has a row."""
        kind = process_type(process.lists)
        facts = self._table.process(process.pid)
        if facts is None:
            return ProcessReading(
                pid=process.pid, type=kind, memory_bytes=process.memory_bytes, utilization=process.utilization
            )
        cgroup = facts.cgroup or ""
        return ProcessReading(
            pid=process.pid,
            type=ProcessType.IGNORED if facts.comm in self._ignored else kind,
            created_ms=self._created_ms(facts),
            owner=self._owners.name(facts.uid),
            uid=facts.uid,
            comm=facts.comm,
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
            container_id=container_id(cgroup),
            pod_uid=pod_uid(cgroup),
            slurm_job_id=slurm_job_id(cgroup),
            systemd_unit=systemd_unit(cgroup),
        )

    def _created_ms(self, facts: Facts) -> int | None:
        if self._boot_time_ms is None:
            return None
        return self._boot_time_ms + facts.start_ticks * 1000 // self._table.ticks_per_second


def process_type(lists: frozenset[str]) -> ProcessType:
    """Return the one type of a process that may stand on several lists: MPS before compute before graphics."""
    return next((kind for name, kind in _TYPES if name in lists), ProcessType.COMPUTE)


def _comm(name: str) -> str:
    """Return a program's name as the kernel keeps it."""
    return name.encode()[:_COMM_BYTES].decode(errors="replace")
