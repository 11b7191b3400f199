"""The processes of the last ticks: asked about in full once, then only whether they are still the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gua.identity.container import container_id
from gua.identity.facts import Facts, Life, ProcessTable
from gua.identity.pod import pod_uid
from gua.identity.slurm import slurm_job_id
from gua.identity.systemd import systemd_unit

# Two ticks are at least a second apart (the shortest interval); the questions of one tick come within milliseconds.
_ONE_TICK_SECONDS: Final = 0.5
# A process may change its user (setuid) or be moved to another cgroup.
_REFRESH_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a process runs, from its cgroup."""

    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None


@dataclass(kw_only=True, slots=True)
class Known:
    """What is known of one process; ``refresh_at`` is when more than its name is read again."""

    comm: str
    start_ticks: int
    uid: int | None
    place: Place
    refresh_at: float
    gone: bool = False


@lru_cache(maxsize=256)
def place_of(cgroup: str) -> Place:
    """Return where a process with this cgroup text runs. Remembered: a process is asked again and seldom moves."""
    return Place(
        container_id=container_id(cgroup),
        pod_uid=pod_uid(cgroup),
        slurm_job_id=slurm_job_id(cgroup),
        systemd_unit=systemd_unit(cgroup),
    )


class KnownProcesses:
    """Looks processes up by pid, and remembers those of this tick and the one before, nobody else.

    Each tick reads one file of a known process, which tells a reused pid and a new name. The rest is read at
    first sight, after an ``exec`` (a new name), and every five minutes, not of all processes in one tick.
    """

    def __init__(self, table: ProcessTable, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._monotonic = monotonic
        self._tick_began = -_ONE_TICK_SECONDS
        self._now: dict[int, Known] = {}
        self._before: dict[int, Known] = {}

    def __len__(self) -> int:
        """Return how many processes are remembered."""
        return len(self._now.keys() | self._before.keys())

    def look(self, pid: int) -> Known | None:
        """Return the process, ``None`` if nothing can be told of it.

        One that has ended since the driver listed it is still who it was a tick ago; a tick later it is nobody.
        """
        now = self._monotonic()
        if now - self._tick_began >= _ONE_TICK_SECONDS:
            self._tick_began, self._before, self._now = now, self._now, {}
        known = self._now.get(pid)
        if known is None:
            known = self._look_again(pid, now)
            if known is not None:
                self._now[pid] = known
        return known

    def _look_again(self, pid: int, now: float) -> Known | None:
        before = self._before.get(pid)
        life = self._table.stat(pid)
        if life is None:
            if before is None or before.gone:
                return None
            before.gone = True
            return before
        if before is None or before.start_ticks != life.start_ticks:
            before = None
        else:
            before.gone = False
        if before is not None and (life.is_dead or (life.comm == before.comm and now < before.refresh_at)):
            return before
        return self._ask(pid, life, before, now)

    def _ask(self, pid: int, life: Life, before: Known | None, now: float) -> Known:
        facts = self._table.process(pid)
        if facts is not None and facts.start_ticks != life.start_ticks:
            facts = None  # the pid passed to another: the driver listed this one
        complete = facts is not None and facts.uid is not None and facts.cgroup is not None
        return Known(
            comm=life.comm if facts is None else facts.comm,
            start_ticks=life.start_ticks,
            uid=_uid(facts, before),
            place=_place(facts, before),
            refresh_at=now + (_until_refresh(pid, first=before is None) if complete else _RETRY_SECONDS),
        )


def _until_refresh(pid: int, *, first: bool) -> float:
    """Return the seconds to the next full look; the first is spread by pid over the second half of the time."""
    return _REFRESH_SECONDS * (0.5 + pid * 7 % 64 / 128) if first else _REFRESH_SECONDS


def _uid(facts: Facts | None, before: Known | None) -> int | None:
    if facts is not None and facts.uid is not None:
        return facts.uid
    return None if before is None else before.uid


def _place(facts: Facts | None, before: Known | None) -> Place:
    if facts is None or facts.cgroup is None:
        return Place() if before is None else before.place
    return place_of(facts.cgroup)
