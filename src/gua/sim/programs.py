"""The simulated lab's people and the programs they run. All of them are invented."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final
from uuid import UUID

from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.sim.calendar import HOUR_MS

PEOPLE: Final = (
    "ana",
    "bo",
    "chen",
    "dana",
    "erin",
    "fay",
    "gil",
    "hugo",
    "ines",
    "jun",
    "kofi",
    "lena",
    "mara",
    "noor",
    "otto",
    "priya",
)
_FIRST_UID = 1001
_PIDS: Final = (2_000, 4_194_304)  # to the largest pid of a 64-bit Linux: man 5 proc, kernel.pid_max


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program as somebody starts it; each start is a process of its own.

    ``place`` tells programs of one name apart (a card, a rank). ``slurm`` and ``container`` say through
    what it was started; a pod's process is in a container too.
    """

    comm: str
    owner: str
    uid: int
    place: str
    type: ProcessType = ProcessType.COMPUTE
    unit: str | None = None
    slurm: bool = False
    container: bool = False
    pod: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """What the system gave to a program that was started."""

    pid: int
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None


@lru_cache(maxsize=4096)
def _start(program: Program, begun_ms: int, seed: int) -> Start:
    """Return what the system gave to a program that was started at a moment: the same for the same seed."""
    rng = Random(f"{seed}:{program.place}:{program.comm}:{begun_ms}")  # noqa: S311 - a simulation, no secret
    pid = rng.randrange(*_PIDS)
    container_id = f"{rng.getrandbits(256):064x}" if program.container or program.pod else None
    pod_uid = str(UUID(int=rng.getrandbits(128), version=4)) if program.pod else None
    # Job numbers rise with time, and the ranks of one job on several cards began together.
    slurm_job_id = str(begun_ms // HOUR_MS) if program.slurm else None
    return Start(pid, container_id, pod_uid, slurm_job_id)


class ProgramHost:
    """Starts programs; ``seed`` decides about pids and container ids."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def start(self, program: Program, begun_ms: int) -> Start:
        """Return what ``program``, begun at ``begun_ms``, was given: the same for the same seed."""
        return _start(program, begun_ms, self._seed)

    def process(
        self, program: Program, begun_ms: int, *, memory_bytes: int | None, utilization: float | None
    ) -> ProcessReading:
        """Return the process that ``program`` has been since ``begun_ms``, not yet attributed."""
        start = self.start(program, begun_ms)
        return ProcessReading(
            pid=start.pid,
            type=program.type,
            created_ms=begun_ms,
            owner=program.owner,
            uid=program.uid,
            comm=program.comm,
            memory_bytes=memory_bytes,
            utilization=utilization,
            container_id=start.container_id,
            pod_uid=start.pod_uid,
            slurm_job_id=start.slurm_job_id,
            systemd_unit=program.unit,
        )


def person(number: int) -> tuple[str, int]:
    """Return the name and user id of the lab's ``number``-th person; after the last the first comes again."""
    return PEOPLE[number % len(PEOPLE)], _FIRST_UID + number % len(PEOPLE)
