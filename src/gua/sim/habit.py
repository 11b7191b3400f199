"""What a habit is given, what it does to its card in one tick, and the people and programs behind it. All invented."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from gua.core.ports import Activity
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.sim.calendar import FRI, HOUR_MS, MINUTE_MS, MON, THU, TUE, WED, Stretch

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


class Start(NamedTuple):
    """What the system gave to a program that was started."""

    pid: int
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None


@lru_cache(maxsize=4096)
def _start(program: Program, begun_ms: int, seed: int) -> Start:
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
            systemd_unit=program.unit,
            container_id=start.container_id,
            pod_uid=start.pod_uid,
            slurm_job_id=start.slurm_job_id,
        )


def person(number: int) -> tuple[str, int]:
    """Return the name and user id of the lab's ``number``-th person; after the last the first comes again."""
    return PEOPLE[number % len(PEOPLE)], _FIRST_UID + number % len(PEOPLE)


WEEKDAYS: Final = (MON, TUE, WED, THU, FRI)
MIB: Final = 2**20
GIB: Final = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class HabitSetting:
    """What a habit is told: its host, its random numbers, which round of the roles it is, and its card's name."""

    host: ProgramHost
    rng: Random
    name: str
    round: int

    @property
    def shift(self) -> int:
        """Minutes by which this round's week is late."""
        return 37 * self.round

    def person(self, number: int) -> tuple[str, int]:
        """Return the name and user id of who plays a part in this round."""
        return person(number + 5 * self.round)

    def late(self, *stretches: Stretch) -> tuple[Stretch, ...]:
        """Return stretches of the week as this round has them."""
        return tuple(stretch.later(self.shift) for stretch in stretches)

    def running(  # noqa: PLR0913 - one for each thing that a card shows
        self,
        program: Program,
        begun_ms: int,
        held_bytes: int,
        utilization: float,
        *,
        largest: float,
        activity: Activity | None = None,
    ) -> CardUsage:
        """Return the use of a card by one process of ``program``, begun at ``begun_ms``; ratios beyond 1 count as 1."""
        process = self.host.process(program, begun_ms, memory_bytes=held_bytes, utilization=percent(utilization))
        return CardUsage(
            utilization=utilization,
            largest=percent(min(1.0, largest)),
            held_bytes=held_bytes,
            context=True,
            processes=(process,),
            activity=activity,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CardUsage:
    """One card's use over one tick.

    ``held_bytes`` is all device memory beyond the bare card's, listed or not; ``context``: some process
    keeps a CUDA context, which costs power. Utilizations are ratios, 0 to 1. ``activity`` is what performance counters
    tell, ``None`` where this habit's card has none.
    """

    utilization: float = 0.0
    largest: float = 0.0
    decoder: float = 0.0
    held_bytes: int = 0
    context: bool = False
    lost: bool = False
    processes: tuple[ProcessReading, ...] = ()
    activity: Activity | None = None


FREE: Final = CardUsage()
LOST: Final = CardUsage(lost=True)


class Habit(Protocol):
    """How one card is used."""

    def at(self, ts_ms: int) -> CardUsage:
        """Return the use over the tick that ends at ``ts_ms`` (Unix ms); called once a tick, oldest first."""
        ...


class Empty:
    """Nobody, ever."""

    def at(self, ts_ms: int) -> CardUsage:  # noqa: ARG002 - the port's argument
        """Return no use."""
        return FREE


class Draw:
    """A random number, 0 to 1, that stays the same for some minutes: moods outlast ticks."""

    def __init__(self, name: str, *, minutes: int) -> None:
        self._name = name
        self._length_ms = minutes * MINUTE_MS
        self._block = -1
        self._value = 0.0

    def at(self, ts_ms: int) -> float:
        """Return the number that holds at ``ts_ms`` (Unix ms)."""
        block = ts_ms // self._length_ms
        if block != self._block:
            self._block = block
            self._value = Random(f"{self._name}:{block}").random()  # noqa: S311 - a simulation, no secret
        return self._value


def at_work(utilization: float, of_it: Activity) -> Activity:
    """Return what counters tell of a program that is at work for a part of the time; ``of_it`` while it is."""
    return Activity(*(None if part is None else round(part * utilization, 4) for part in of_it))


def percent(value: float) -> float:
    """Return a ratio in whole percent, as NVML tells it."""
    return round(value, 2)
