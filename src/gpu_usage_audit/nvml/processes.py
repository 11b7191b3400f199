"""The processes on a card: three lists of the driver made one, with memory and utilization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_usage_audit.core.ports import RawProcess
from gpu_usage_audit.nvml.calls import Calls
from gpu_usage_audit.nvml.driver import FUNCTION_NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, Driver, Handle, ProcessInfo

_ALL_ONES_32: Final = 2**32 - 1
_ALL_ONES_64: Final = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessUse:
    """Utilization by pid, as a ratio: ``None`` if unknown, else whoever is missing used nothing."""

    by_pid: Mapping[int, float] | None
    newest_us: int


def list_processes(driver: Driver, calls: Calls, handle: Handle, *, limit_bytes: int | None) -> Listing:
    """Return who is on the card; a process on two lists is one process.

    ``limit_bytes`` is the card's memory: a process that seems to hold more has unknown memory, as the
    driver's structs differ in layout between versions. A pid of 0 makes the list unknown.
    """
    answers: dict[str, Iterable[ProcessInfo] | None] = {
        "compute": calls.ask(driver.nvmlDeviceGetComputeRunningProcesses_v3, handle),
        "graphics": calls.ask(driver.nvmlDeviceGetGraphicsRunningProcesses_v3, handle),
        # Without MPS there is no such list: nobody is on it.
        "mps": calls.ask_with(
            {NOT_SUPPORTED: (), FUNCTION_NOT_FOUND: ()}, driver.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle
        ),
    }
    known = all(answer is not None for answer in answers.values())
    found: dict[int, Listed] = {}
    for name, answer in answers.items():
        for info in answer or ():
            if info.pid <= 0:
                calls.note(f"{name} process list", f"pid {info.pid}")
                known = False
                continue
            found[info.pid] = _merged(found.get(info.pid), name, info, limit_bytes)
    return Listing(processes=tuple(found.values()), known=known)


def _merged(before: Listed | None, name: str, info: ProcessInfo, limit_bytes: int | None) -> Listed:
    memory = info.usedGpuMemory
    if memory == _ALL_ONES_64 or (memory is not None and limit_bytes is not None and memory > limit_bytes):
        memory = None
    instance = None if info.gpuInstanceId == _ALL_ONES_32 else info.gpuInstanceId
    if before is None:
        return Listed(pid=info.pid, lists=frozenset({name}), memory_bytes=memory, instance=instance)
    # Each list tells the whole process's memory on this card, so two lists are not added up.
    known = [value for value in (before.memory_bytes, memory) if value is not None]
    return Listed(
        pid=info.pid,
        lists=before.lists | {name},
        memory_bytes=max(known, default=None),
        instance=before.instance if instance is None else instance,
    )


def read_process_use(driver: Driver, calls: Calls, handle: Handle, since_us: int) -> ProcessUse:
    """Return who used the card after ``since_us`` (Unix microseconds) and how much.

    NVML lists only processes with some use, and answers NOT_FOUND where there is none: all are idle.
    """
    # nvidia-ml-py raises code 0, success, where the driver has room for no sample.
    samples = calls.ask_with({NOT_FOUND: (), 0: ()}, driver.nvmlDeviceGetProcessUtilization, handle, since_us)
    if samples is None:
        return ProcessUse(by_pid=None, newest_us=since_us)
    ratios: dict[int, list[float]] = {}
    for sample in samples:
        # The driver pads the answer with rows of zeros, and repeats rows that it told before.
        if sample.pid > 0 and sample.timeStamp > since_us:
            # Drivers answer more than 100 % at times; nothing runs more than always.
            ratios.setdefault(sample.pid, []).append(min(sample.smUtil, 100) / 100)
    return ProcessUse(
        by_pid={pid: sum(values) / len(values) for pid, values in ratios.items()},
        newest_us=max([since_us, *(sample.timeStamp for sample in samples)]),
    )


def raw_processes(listing: Listing, use: ProcessUse | None) -> tuple[RawProcess, ...]:
    """Return the listed processes with their utilization; ``use`` is ``None`` where it cannot be asked for."""
    by_pid = None if use is None else use.by_pid
    return tuple(
        RawProcess(
            pid=process.pid,
            lists=process.lists,
            memory_bytes=process.memory_bytes,
            utilization=None if by_pid is None else by_pid.get(process.pid, 0.0),
        )
        for process in listing.processes
    )
