"""The processes on a card: three lists of the driver made one, with memory and utilization."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.ports import RawProcess
from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Driver, Handle, ProcessInfo
from gua.nvml.quirks import MOST_GPU_INSTANCE, Distrust

_ALL_ONES_32: Final = 2**32 - 1
_ALL_ONES_64: Final = 2**64 - 1
_LARGEST_PID: Final = 2**22  # PID_MAX_LIMIT: https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html

List = Callable[[Handle], Sequence[ProcessInfo]]

_ABSENT: Final[Sequence[ProcessInfo]] = []
_ON_ONE_LIST: Final = {name: frozenset({name}) for name in ("compute", "graphics", "mps")}
# Without MPS there is no such list: nobody is on it.
_WITHOUT_MPS: Final[Mapping[int, Sequence[ProcessInfo]]] = {Code.NOT_SUPPORTED: (), Code.FUNCTION_NOT_FOUND: ()}


@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class Listed:
    """A process as the lists tell it; ``instance`` is its MIG GPU instance."""

    pid: int
    lists: frozenset[str]
    memory_bytes: int | None
    instance: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """All lists of one card; ``known`` only if every one could be read and made sense."""

    processes: tuple[Listed, ...]
    known: bool


def list_processes(
    driver: Driver,
    calls: Calls,
    handle: Handle,
    *,
    limit_bytes: int | None,
    distrust: Container[Distrust] = frozenset(),
) -> Listing:
    """Return who is on the card; a process on two lists is one process.

    ``limit_bytes`` is the card's memory: a process that seems to hold more has unknown memory, as the
    driver's structs differ in layout between versions. A pid or a GPU instance that cannot be one makes
    the list unknown.
    """
    lists = [
        ("compute", driver.nvmlDeviceGetComputeRunningProcesses_v2, driver.nvmlDeviceGetComputeRunningProcesses_v3),
        ("graphics", driver.nvmlDeviceGetGraphicsRunningProcesses_v2, driver.nvmlDeviceGetGraphicsRunningProcesses_v3),
        ("mps", driver.nvmlDeviceGetMPSComputeRunningProcesses_v2, driver.nvmlDeviceGetMPSComputeRunningProcesses_v3),
    ]
    answers: dict[str, Iterable[ProcessInfo] | None] = {}
    for name, second, third in lists:
        versions = (second,) if Distrust.PROCESS_LIST_V3 in distrust else (third, second)
        answers[name] = _ask(calls, handle, versions, _WITHOUT_MPS if name == "mps" else {})
    known = all(answer is not None for answer in answers.values())
    by_pid: dict[int, Listed] = {}
    for name, answer in answers.items():
        for info in answer or ():
            if not 0 < info.pid <= _LARGEST_PID:
                calls.note(f"{name} process list", "no pid")
                known = False
                continue
            if MOST_GPU_INSTANCE < info.gpuInstanceId < _ALL_ONES_32:
                calls.note(f"{name} process list", "unknown layout")
                known = False
                continue
            by_pid[info.pid] = _merged(by_pid.get(info.pid), name, info, limit_bytes)
    return Listing(processes=tuple(by_pid.values()), known=known)


def _merged(before: Listed | None, name: str, info: ProcessInfo, limit_bytes: int | None) -> Listed:
    memory = info.usedGpuMemory
    if memory == _ALL_ONES_64 or (memory is not None and limit_bytes is not None and memory > limit_bytes):
        memory = None
    instance = None if info.gpuInstanceId == _ALL_ONES_32 else info.gpuInstanceId
    if before is None:
        return Listed(pid=info.pid, lists=_ON_ONE_LIST[name], memory_bytes=memory, instance=instance)
    # Each list tells the whole process's memory on this card, so two lists are not added up.
    known = [value for value in (before.memory_bytes, memory) if value is not None]
    return Listed(
        pid=info.pid,
        lists=before.lists | {name},
        memory_bytes=max(known, default=None),
        instance=before.instance if instance is None else instance,
    )


def _ask(
    calls: Calls, handle: Handle, versions: Sequence[List], meanings: Mapping[int, Sequence[ProcessInfo]]
) -> Sequence[ProcessInfo] | None:
    """Return the answer of the newest version that the driver has (510 brought the third)."""
    for version in versions[:-1]:
        answer = calls.ask_with({**meanings, Code.FUNCTION_NOT_FOUND: _ABSENT}, version, handle)
        if answer is not _ABSENT:
            return answer
    return calls.ask_with(meanings, versions[-1], handle)


def raw_processes(listing: Listing, use: Mapping[int, float | None]) -> tuple[RawProcess, ...]:
    """Return the listed processes with their utilization; ``use`` lacks those of which it is not known."""
    return tuple(
        RawProcess(
            pid=process.pid,
            lists=process.lists,
            memory_bytes=process.memory_bytes,
            utilization=use.get(process.pid),
        )
        for process in listing.processes
    )
