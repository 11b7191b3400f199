"""Who a process is: :class:`gua.core.ports.ProcessFacts`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gua.core.ports import RawProcess
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.core.workloads import NO_WORK, Work
from gua.identity.owner import Owners
from gua.identity.process_cache import ProcessCache, ProcessTable

if TYPE_CHECKING:
    from gua.identity.served_models import ServedModels

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """What a pod and a container of it are called, and what the pod is declared to be for; ``None`` is unknown."""

    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    workload: Work = NO_WORK


NO_NAMES: Final = Names()


class Pods(Protocol):
    """Where names of pods are looked up."""

    def names(self, pod_uid: str | None, container_id: str | None) -> Names:
        """Return what is known at once; never waits, never raises."""
        ...


class ProcessIdentity:
    """Identifies processes through a process table, a name service and the boot's moment.

    ``boot_time_ms`` (Unix time) must be the same for the whole boot: a process's start is counted from it, so
    that one process keeps one start however the clock moves. ``None``: starts stay unknown.
    ``ignored`` are process names whose processes do not count as users of a card. ``pods`` must not block. ``models``
    tells by arguments which model a counted process serves: only where the host's admin turned that on.
    """

    def __init__(  # noqa: PLR0913 - by keyword, one for each thing that names come from
        self,
        table: ProcessTable,
        owners: Owners,
        *,
        boot_time_ms: int | None,
        ignored: Iterable[str] = DEFAULT_IGNORED,
        monotonic: Callable[[], float] = time.monotonic,
        pods: Pods | None = None,
        models: ServedModels | None = None,
    ) -> None:
        self._cache = ProcessCache(table, monotonic=monotonic)
        self._ticks_per_second = table.ticks_per_second
        self._owners = owners
        self._pods = pods
        self._models = models
        self._boot_time_ms = boot_time_ms
        self._ignored = frozenset(_comm(name) for name in ignored)

    def identify(self, process: RawProcess) -> ProcessReading:
        """Return the process with what is known of it; a process that died or is hidden still has a row."""
        kind = process_type(process.lists)
        cached = self._cache.look(process.pid)
        if cached is None:
            return ProcessReading(
                pid=process.pid, type=kind, memory_bytes=process.memory_bytes, utilization=process.utilization
            )
        workload = cached.workload
        names = NO_NAMES if self._pods is None else self._pods.names(workload.pod_uid, workload.container_id)
        is_ignored = cached.comm in self._ignored
        work = names.workload
        if self._models is not None and not is_ignored:
            found = self._models.work(process.pid, cached.start_ticks, cached.comm, cached.uid)
            work = Work(work.kind or found.kind, work.model or found.model)
        return ProcessReading(
            pid=process.pid,
            type=ProcessType.IGNORED if is_ignored else kind,
            created_ms=self._created_ms(cached.start_ticks),
            owner=self._owners.name(cached.uid),
            uid=cached.uid,
            comm=cached.comm,
            memory_bytes=process.memory_bytes,
            utilization=process.utilization,
            container_id=workload.container_id,
            pod_uid=workload.pod_uid,
            slurm_job_id=workload.slurm_job_id,
            systemd_unit=workload.systemd_unit,
            pod_name=names.pod,
            pod_namespace=names.namespace,
            container_name=names.container,
            workload_kind=work.kind,
            workload_model=work.model,
        )

    def __len__(self) -> int:
        """Return how many processes are remembered."""
        return len(self._cache)

    def _created_ms(self, start_ticks: int) -> int | None:
        if self._boot_time_ms is None:
            return None
        return self._boot_time_ms + start_ticks * 1000 // self._ticks_per_second


def process_type(lists: frozenset[str]) -> ProcessType:
    """Return the one type of a process that may stand on several lists: MPS before compute before graphics."""
    if "mps" in lists:
        return ProcessType.MPS
    return ProcessType.GRAPHICS if "graphics" in lists and "compute" not in lists else ProcessType.COMPUTE


def _comm(name: str) -> str:
    """Return a program's name as the kernel keeps it."""
    return name.encode()[:_COMM_BYTES].decode(errors="replace")
