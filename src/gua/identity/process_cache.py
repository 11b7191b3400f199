"""The processes of the last ticks: asked about in full once, then only whether they are still the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from gua.identity.cgroup import container_id, pod_uid, slurm_job_id, systemd_unit
from gua.procfs.parse import Stat
from gua.procfs.reader import ProcessRecord

# Two ticks are at least a second apart (the shortest interval); the questions of one tick come within milliseconds.
_ONE_TICK_SECONDS: Final = 0.5
# A process may change its user (setuid) or be moved to another cgroup.
_REFRESH_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 10.0


class ProcessTable(Protocol):
    """Where processes are looked up."""

    @property
    def ticks_per_second(self) -> int:
        """Return the kernel's clock ticks per second (USER_HZ)."""
        ...

    def stat(self, pid: int) -> Stat | None:
        """Return the cheap part, asked for in every tick; ``None`` if nothing can be told about the process."""
        ...

    def process(self, pid: int) -> ProcessRecord | None:
        """Return a process, ``None`` if nothing can be told about it."""
        ...


class NoProcesses:
    """Knows nobody: for a PID namespace in which the driver's pids mean other processes, or none."""

    ticks_per_second = 100

    def stat(self, pid: int) -> None:  # noqa: ARG002 - whoever is asked for is not known
        """Return ``None``."""
        return

    def process(self, pid: int) -> None:  # noqa: ARG002 - as above
        """Return ``None``."""
        return


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What a process is part of, from its cgroup."""

    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None


@dataclass(kw_only=True, slots=True)
class CachedProcess:
    """What is known of one process; ``refresh_at`` is when more than its name is read again."""

    comm: str
    start_ticks: int
    uid: int | None
    workload: Workload
    refresh_at: float
    gone: bool = False


@lru_cache(maxsize=256)
def workload_of(cgroup: str) -> Workload:
    """Return where a process with this cgroup text runs. Remembered: a process is asked again and seldom moves."""
    return Workload(
        container_id=container_id(cgroup),
        pod_uid=pod_uid(cgroup),
        slurm_job_id=slurm_job_id(cgroup),
        systemd_unit=systemd_unit(cgroup),
    )


class ProcessCache:
    """Looks processes up by pid, and remembers those of this tick and the one before, nobody else.

    Each tick reads one file of a known process, which tells a reused pid and a new name. The rest is read at
    first sight, after an ``exec`` (a new name), and every five minutes, not of all processes in one tick.
    """

    def __init__(self, table: ProcessTable, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._tick_began = -_ONE_TICK_SECONDS
        self._now: dict[int, CachedProcess] = {}
        self._before: dict[int, CachedProcess] = {}

    def __len__(self) -> int:
        """Return how many processes are remembered."""
        return len(self._now.keys() | self._before.keys())

    def look(self, pid: int) -> CachedProcess | None:
        """Return the process, ``None`` if nothing can be told of it.

        One that has ended since the driver listed it is still who it was a tick ago; a tick later it is nobody.
        """
        now = self._monotonic()
        if now - self._tick_began >= _ONE_TICK_SECONDS:
            self._tick_began, self._before, self._now = now, self._now, {}
        cached = self._now.get(pid)
        if cached is None:
            cached = self._look_again(pid, now)
            if cached is not None:
                self._now[pid] = cached
        return cached

    def _look_again(self, pid: int, now: float) -> CachedProcess | None:
        before = self._before.get(pid)
        stat = self._table.stat(pid)
        if stat is None:
            if before is None or before.gone:
                return None
            before.gone = True
            return before
        if before is None or before.start_ticks != stat.start_ticks:
            before = None
        else:
            before.gone = False
        if before is not None and (stat.is_dead or (stat.comm == before.comm and now < before.refresh_at)):
            return before
        return self._ask(pid, stat, before, now)

    def _ask(self, pid: int, stat: Stat, before: CachedProcess | None, now: float) -> CachedProcess:
        record = self._table.process(pid)
        if record is not None and record.start_ticks != stat.start_ticks:
            record = None  # the pid passed to another: the driver listed this one
        complete = record is not None and record.uid is not None and record.cgroup is not None
        return CachedProcess(
            comm=stat.comm if record is None else record.comm,
            start_ticks=stat.start_ticks,
            uid=_uid(record, before),
            workload=_workload(record, before),
            refresh_at=now + (_until_refresh(pid, first=before is None) if complete else _RETRY_SECONDS),
        )


def _until_refresh(pid: int, *, first: bool) -> float:
    """Return the seconds to the next full look; the first is spread by pid over the second half of the time."""
    return _REFRESH_SECONDS * (0.5 + pid * 7 % 64 / 128) if first else _REFRESH_SECONDS


def _uid(record: ProcessRecord | None, before: CachedProcess | None) -> int | None:
    if record is not None and record.uid is not None:
        return record.uid
    return None if before is None else before.uid


def _workload(record: ProcessRecord | None, before: CachedProcess | None) -> Workload:
    if record is None or record.cgroup is None:
        return Workload() if before is None else before.workload
    return workload_of(record.cgroup)
