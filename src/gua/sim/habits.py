"""Habits of the simulated cards: people at work, jobs, memory left by a crash, a server, a desktop.

All figures, people and programs are invented unless a source is named. Times are UTC.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from gua.core.ports import Activity
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.sim.calendar import (
    FRI,
    HOUR_MS,
    MINUTE_MS,
    MON,
    NEXT_WEEK,
    SAT,
    SUN,
    THU,
    TUE,
    WED,
    Stretch,
    begun,
    clock,
    daily,
)

PEOPLE: Final = (
    *("ana", "bo", "chen", "dana", "erin", "fay", "gil", "hugo"),
    *("ines", "jun", "kofi", "lena", "mara", "noor", "otto", "priya"),
)
WEEKDAYS: Final = (MON, TUE, WED, THU, FRI)
MIB: Final = 2**20
GIB: Final = 2**30
_FIRST_UID: Final = 1001
_PIDS: Final = (2_000, 4_194_304)  # up to the largest pid of a 64-bit Linux: man 5 proc, kernel.pid_max


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program with its owner; each start is a new process.

    ``place`` distinguishes programs of one name (by card or rank). ``slurm``, ``container`` and ``pod`` name what
    started it; a pod's process is in a container too.
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
    """Identifiers that the system assigns to a started program."""

    pid: int
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None


@lru_cache(maxsize=4096)
def start(program: Program, begun_ms: int, seed: int) -> Start:
    """Return the identifiers of ``program`` started at ``begun_ms`` [Unix ms]; equal for equal seeds."""
    rng = Random(f"{seed}:{program.place}:{program.comm}:{begun_ms}")  # noqa: S311 - a simulation, not a secret
    pid = rng.randrange(*_PIDS)
    container_id = f"{rng.getrandbits(256):064x}" if program.container or program.pod else None
    pod_uid = str(UUID(int=rng.getrandbits(128), version=4)) if program.pod else None
    # Job numbers rise with time; ranks of one job on several cards started together.
    slurm_job_id = str(begun_ms // HOUR_MS) if program.slurm else None
    return Start(pid, container_id, pod_uid, slurm_job_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class CardUsage:
    """Use of one card during one tick.

    ``held_bytes`` is all device memory beyond an unused card's, listed or not. ``context``: a process has a CUDA
    context open, which costs power. Utilizations are ratios, 0 to 1. ``activity`` is the performance counters' values,
    ``None`` if this habit's card has none.
    """

    utilization: float = 0.0
    largest: float = 0.0
    decoder: float = 0.0
    held_bytes: int = 0
    context: bool = False
    lost: bool = False
    processes: tuple[ProcessReading, ...] = ()
    activity: Activity | None = None


Habit: TypeAlias = Callable[[int], CardUsage]
"""Function that returns a card's use for the tick ending at a time [Unix ms]; called once per tick, oldest first."""
FREE: Final = CardUsage()


@dataclass(frozen=True, kw_only=True, slots=True)
class HabitSetting:
    """Context of a habit: the host's seed, a random generator, its card's name, and the round of roles."""

    seed: int
    rng: Random
    name: str
    round: int

    def person(self, number: int) -> tuple[str, int]:
        """Return name and uid of the person in role ``number`` of this round."""
        place = (number + 5 * self.round) % len(PEOPLE)
        return PEOPLE[place], _FIRST_UID + place

    def program(self, number: int, comm: str, **how: Any) -> Program:  # noqa: ANN401 - fields of a program
        """Return a program of the person in role ``number`` of this round."""
        owner, uid = self.person(number)
        return Program(**{"comm": comm, "owner": owner, "uid": uid, "place": self.name, **how})

    def kernel(self, number: int) -> Program:
        """Return the Jupyter kernel of the person in role ``number`` of this round."""
        return self.program(number, "python", unit=f"jupyter-{self.person(number)[0]}.service")

    def late(self, *stretches: Stretch) -> tuple[Stretch, ...]:
        """Return periods of the week, shifted for this round."""
        return tuple(stretch.later(37 * self.round) for stretch in stretches)

    def mood(self, name: str, ts_ms: int, *, minutes: int) -> float:
        """Return a random number, 0 to 1, that is constant for ``minutes``, so that moods outlast ticks."""
        return _drawn(f"{self.name}:{name}:{ts_ms // (minutes * MINUTE_MS)}")

    def process(
        self, program: Program, begun_ms: int, memory_bytes: int | None, utilization: float | None
    ) -> ProcessReading:
        """Return the process of ``program`` since ``begun_ms`` [Unix ms], without its share of GPU time.

        Utilization is rounded to whole percent as NVML reports it.
        """
        return ProcessReading(
            **start(program, begun_ms, self.seed)._asdict(),
            type=program.type,
            created_ms=begun_ms,
            owner=program.owner,
            uid=program.uid,
            comm=program.comm,
            memory_bytes=memory_bytes,
            utilization=None if utilization is None else round(utilization, 2),
            systemd_unit=program.unit,
        )


def used(  # noqa: PLR0913 - one for each visible value
    utilization: float,
    *processes: ProcessReading,
    largest: float,
    held_bytes: int | None = None,
    decoder: float = 0.0,
    context: bool = True,
    activity: Activity | None = None,
) -> CardUsage:
    """Return a card's use by ``processes``, whose known memory is all that is held unless ``held_bytes`` differs.

    ``activity`` is the counters' values at full utilization; they scale with ``utilization``.
    """
    return CardUsage(
        utilization=utilization,
        largest=round(min(1.0, largest), 2),
        decoder=decoder,
        held_bytes=sum(one.memory_bytes or 0 for one in processes) if held_bytes is None else held_bytes,
        context=context,
        processes=processes,
        activity=None
        if activity is None
        else Activity(*(None if part is None else round(part * utilization, 4) for part in activity)),
    )


@lru_cache(maxsize=1024)
def _drawn(seed: str) -> float:
    return Random(seed).random()  # noqa: S311 - a simulation, not a secret


def empty(_ts_ms: int) -> CardUsage:
    """Return no use at any time."""
    return FREE


def notebook(setting: HabitSetting) -> Habit:
    """Return a Jupyter kernel that is started on Monday and left open; it computes at times in working hours.

    Its model is small and uses a tenth of the card's SMs.
    """
    program = setting.kernel(0)
    (kernel,) = setting.late(Stretch(MON + clock(9, 12), NEXT_WEEK + MON + clock(8, 55)))
    work = setting.late(*daily(WEEKDAYS, clock(9, 20), clock(12, 10)), *daily(WEEKDAYS, clock(13), clock(17, 40)))
    activity = Activity(0.1, 0.04, 0.02, 0.05)

    def at(ts_ms: int) -> CardUsage:
        begun_ms = kernel.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = 0.0
        if begun(work, ts_ms) is not None and setting.mood("busy", ts_ms, minutes=25) < 0.42:
            utilization = setting.rng.uniform(0.15, 0.85)
        running = setting.process(program, begun_ms, 8 * GIB, utilization)
        return used(utilization, running, largest=1.3 * utilization, activity=activity)

    return at


def shared(setting: HabitSetting) -> Habit:
    """Return two people's experiments, sometimes together; free on most nights, lost on Wednesday morning."""
    experiments = setting.late(
        *daily((MON, TUE, THU, FRI), clock(10, 5), clock(18, 10)),
        Stretch(WED + clock(10, 40), THU + clock(6, 30)),
    )
    debugging = setting.late(
        *daily((TUE, THU), clock(13, 30), clock(17)), Stretch(FRI + clock(14), FRI + clock(16, 30))
    )
    off_the_bus = setting.late(Stretch(WED + clock(9, 20), WED + clock(9, 40)))
    parts = (
        (setting.program(5, "python"), experiments, 23 * GIB, 0.7, (0.3, 0.9)),
        (
            setting.program(3, "python3", place=f"{setting.name}:second"),
            debugging,
            3 * GIB,
            0.5,
            (0.0, 0.05),
        ),
    )

    def at(ts_ms: int) -> CardUsage:
        if begun(off_the_bus, ts_ms) is not None:
            return CardUsage(lost=True)
        processes = []
        for program, stretches, memory_bytes, chance, (least, most) in parts:
            begun_ms = begun(stretches, ts_ms)
            if begun_ms is not None:
                is_running = setting.mood("running", ts_ms, minutes=30) < chance
                utilization = setting.rng.uniform(least, most) if is_running else 0.0
                processes.append(setting.process(program, begun_ms, memory_bytes, utilization))
        if not processes:
            return FREE
        utilization = min(1.0, sum(one.utilization or 0.0 for one in processes))
        return used(utilization, *processes, largest=1.2 * utilization)

    return at


def workstation(setting: HabitSetting) -> Habit:
    """Return a desktop: display server, a container of unknown memory, and a film on Saturday."""
    root: dict[str, Any] = {"owner": "root", "uid": 0}
    display = setting.program(6, "Xorg", type=ProcessType.IGNORED, unit="gdm.service", **root)
    service = setting.program(6, "uvicorn", container=True, **root)
    film = setting.program(6, "ffmpeg")
    (up,) = setting.late(Stretch(SUN + clock(5), NEXT_WEEK + SUN + clock(4, 58)))
    serving = setting.late(*daily(WEEKDAYS, clock(13), clock(22)))
    (watching,) = setting.late(Stretch(SAT + clock(10), SAT + clock(12)))

    def at(ts_ms: int) -> CardUsage:
        up_ms = up.begun_ms(ts_ms)
        if up_ms is None:
            return FREE
        processes = [setting.process(display, up_ms, 120 * MIB, 0.0)]
        held_bytes, utilization, decoder = 120 * MIB, 0.0, 0.0
        serving_ms, watching_ms = begun(serving, ts_ms), watching.begun_ms(ts_ms)
        if serving_ms is not None:
            utilization = setting.rng.uniform(0.0, 0.06)
            held_bytes += 14 * GIB
            processes.append(setting.process(service, serving_ms, None, utilization))
        if watching_ms is not None:
            utilization, decoder = 0.03, setting.rng.uniform(0.3, 0.5)
            held_bytes += 420 * MIB
            processes.append(setting.process(film, watching_ms, 420 * MIB, utilization))
        return used(
            utilization,
            *processes,
            largest=2 * utilization,
            held_bytes=held_bytes,
            decoder=decoder,
            context=len(processes) > 1,
        )

    return at


def instance_kernel(setting: HabitSetting) -> Habit:
    """Return a kernel on a MIG instance, Monday to Friday; its utilization is unreadable."""
    program = setting.kernel(7)
    (kernel,) = setting.late(Stretch(MON + clock(9, 40), FRI + clock(19)))

    def at(ts_ms: int) -> CardUsage:
        begun_ms = kernel.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        worked = (ts_ms - begun_ms) % (24 * HOUR_MS) < 9 * HOUR_MS
        return used(0.2 if worked else 0.0, setting.process(program, begun_ms, 9 * GIB, None), largest=0.0)

    return at


def training(setting: HabitSetting) -> Habit:
    """Return Slurm jobs that last for days, each with a trainer and an evaluator per card.

    On Monday night their collective is stuck: kernels wait for each other at full utilization, with almost no active
    SMs. On Thursday evening one job hangs, and nothing runs.
    """
    jobs = (
        (1, setting.late(Stretch(MON + clock(10, 20), WED + clock(6, 40)))),
        (2, setting.late(Stretch(WED + clock(9, 15), THU + clock(23, 50)))),
        (1, setting.late(Stretch(FRI + clock(8, 5), SAT + clock(19, 30)))),
    )
    hung = setting.late(Stretch(THU + clock(18, 5), THU + clock(23, 50)))
    stuck = setting.late(Stretch(MON + clock(21, 30), TUE + clock(6, 40)))
    at_work, at_stuck = Activity(0.66, 0.28, 0.41, 0.37), Activity(0.03, 0.02, 0.0, 0.01)

    def busy(ts_ms: int, *, loading: bool) -> float:
        if begun(hung, ts_ms) is not None:
            return 0.0
        if loading:
            return setting.rng.uniform(0.0, 0.04)
        if setting.mood("validating", ts_ms, minutes=20) < 0.06:
            return setting.rng.uniform(0.35, 0.6)
        return setting.rng.uniform(0.94, 0.99)

    def at(ts_ms: int) -> CardUsage:
        for number, stretches in jobs:
            begun_ms = begun(stretches, ts_ms)
            if begun_ms is None:
                continue
            loading = ts_ms - begun_ms < 12 * MINUTE_MS
            utilization = busy(ts_ms, loading=loading)
            parts = (
                [("python3", 2 * GIB, 0.9)] if loading else [("python3", 61 * GIB, 0.9), ("evaluate", 9 * GIB, 0.08)]
            )
            running = [
                setting.process(setting.program(number, comm, slurm=True), begun_ms, memory_bytes, utilization * share)
                for comm, memory_bytes, share in parts
            ]
            activity = at_work if begun(stuck, ts_ms) is None else at_stuck
            return used(utilization, *running, largest=utilization + 0.03, activity=activity)
        return FREE

    return at


def server(setting: HabitSetting) -> Program:
    """Return the inference server's program in this round; it runs in a pod."""
    # vLLM names its engine process VLLM::EngineCore; Linux truncates comm to 15 bytes.
    return Program(comm="VLLM::EngineCor", owner="svc-llm", uid=990, place=setting.name, pod=True)


def inference(setting: HabitSetting) -> Habit:
    """Return a server that holds nine tenths of the card and waits for requests, with occasional bursts."""
    program = server(setting)
    (deployed,) = setting.late(Stretch(SUN + clock(4), NEXT_WEEK + SUN + clock(3, 58)))
    busy_hours = setting.late(*daily(WEEKDAYS, clock(8), clock(19)))
    activity = Activity(0.38, 0.12, 0.09, 0.62)

    def at(ts_ms: int) -> CardUsage:
        begun_ms = deployed.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = setting.rng.uniform(0.02, 0.08)
        if setting.mood("burst", ts_ms, minutes=10) < (0.02 if begun(busy_hours, ts_ms) is None else 0.14):
            utilization = setting.rng.uniform(0.2, 0.7)
        running = setting.process(program, begun_ms, 71 * GIB, utilization)
        return used(utilization, running, largest=2 * utilization, activity=activity)

    return at


def orphan(setting: HabitSetting) -> Habit:
    """Return a job that crashes on Saturday morning; its memory stays without a listed process until Friday."""
    program = setting.program(4, "finetune", slurm=True)
    job, left_behind = setting.late(
        Stretch(FRI + clock(18), SAT + clock(3, 10)),
        Stretch(SAT + clock(3, 10), NEXT_WEEK + FRI + clock(17, 20)),
    )

    def at(ts_ms: int) -> CardUsage:
        if left_behind.begun_ms(ts_ms) is not None:
            return CardUsage(held_bytes=47 * GIB, context=True)
        begun_ms = job.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = setting.rng.uniform(0.8, 0.97)
        return used(utilization, setting.process(program, begun_ms, 47 * GIB, utilization), largest=utilization + 0.05)

    return at
