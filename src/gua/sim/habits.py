"""The habits of the simulated cards: people at work, jobs, what a crashed one leaves behind, a server, a desktop.

Every figure is invented unless it names its source; the week is told in UTC.
"""

from __future__ import annotations

from gua.core.ports import Activity
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
    clock,
    daily,
    inside,
)
from gua.sim.habit import FREE, GIB, LOST, MIB, WEEKDAYS, CardUsage, Draw, HabitSetting, Program, at_work, percent


class Notebook:
    """A kernel that somebody starts on Monday and leaves there: it computes now and then in working hours.

    Its model is small: it uses a tenth of the card's SMs.
    """

    HELD = 8 * GIB
    AT_WORK = Activity(0.1, 0.04, 0.02, 0.05)

    def __init__(self, setting: HabitSetting) -> None:
        owner, uid = setting.person(0)
        self._setting = setting
        self._program = Program(
            comm="python", owner=owner, uid=uid, place=setting.name, unit=f"jupyter-{owner}.service"
        )
        (self._kernel,) = setting.late(Stretch(MON + clock(9, 12), NEXT_WEEK + MON + clock(8, 55)))
        self._work = setting.late(
            *daily(WEEKDAYS, clock(9, 20), clock(12, 10)), *daily(WEEKDAYS, clock(13), clock(17, 40))
        )
        self._busy = Draw(f"{setting.name}:busy", minutes=25)

    def at(self, ts_ms: int) -> CardUsage:
        """Return the kernel, at work or forgotten."""
        begun_ms = self._kernel.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = 0.0
        if inside(self._work, ts_ms) and self._busy.at(ts_ms) < 0.42:
            utilization = self._setting.rng.uniform(0.15, 0.85)
        return self._setting.running(
            self._program,
            begun_ms,
            self.HELD,
            utilization,
            largest=1.3 * utilization,
            activity=at_work(utilization, self.AT_WORK),
        )


class Shared:
    """Two people's experiments, at times on the card together; free on most nights, lost on Wednesday morning."""

    HELD = (23 * GIB, 3 * GIB)

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        owner, uid = setting.person(5)
        self._first = Program(comm="python", owner=owner, uid=uid, place=setting.name)
        owner, uid = setting.person(3)
        self._second = Program(comm="python3", owner=owner, uid=uid, place=f"{setting.name}:second")
        self._experiments = setting.late(
            *daily((MON, TUE, THU, FRI), clock(10, 5), clock(18, 10)),
            Stretch(WED + clock(10, 40), THU + clock(6, 30)),
        )
        self._debugging = setting.late(
            *daily((TUE, THU), clock(13, 30), clock(17)), Stretch(FRI + clock(14), FRI + clock(16, 30))
        )
        (self._off_the_bus,) = setting.late(Stretch(WED + clock(9, 20), WED + clock(9, 40)))
        self._running = Draw(f"{setting.name}:running", minutes=30)

    def at(self, ts_ms: int) -> CardUsage:
        """Return whoever is at work."""
        if self._off_the_bus.begun_ms(ts_ms) is not None:
            return LOST
        rng, host = self._setting.rng, self._setting.host
        at_work = (
            (self._first, self._experiments, self.HELD[0], 0.7, (0.3, 0.9)),
            (self._second, self._debugging, self.HELD[1], 0.5, (0.0, 0.05)),
        )
        processes = []
        for program, stretches, memory_bytes, chance, (least, most) in at_work:
            begun_ms = next((at for stretch in stretches if (at := stretch.begun_ms(ts_ms)) is not None), None)
            if begun_ms is not None:
                utilization = rng.uniform(least, most) if self._running.at(ts_ms) < chance else 0.0
                processes.append(
                    host.process(program, begun_ms, memory_bytes=memory_bytes, utilization=percent(utilization))
                )
        if not processes:
            return FREE
        utilization = min(1.0, sum(process.utilization or 0.0 for process in processes))
        return CardUsage(
            utilization=utilization,
            largest=percent(min(1.0, 1.2 * utilization)),
            held_bytes=sum(process.memory_bytes or 0 for process in processes),
            context=True,
            processes=tuple(processes),
        )


class Workstation:
    """A desktop's display server, a container whose memory the driver does not tell, a film on Saturday."""

    DISPLAY = 120 * MIB
    CONTAINER = 14 * GIB
    FILM = 420 * MIB

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        owner, uid = setting.person(6)
        self._display = Program(
            comm="Xorg", owner="root", uid=0, place=setting.name, type=ProcessType.IGNORED, unit="gdm.service"
        )
        self._service = Program(comm="uvicorn", owner="root", uid=0, place=setting.name, container=True)
        self._film = Program(comm="ffmpeg", owner=owner, uid=uid, place=setting.name)
        (self._up,) = setting.late(Stretch(SUN + clock(5), NEXT_WEEK + SUN + clock(4, 58)))
        self._serving = setting.late(*daily(WEEKDAYS, clock(13), clock(22)))
        (self._watching,) = setting.late(Stretch(SAT + clock(10), SAT + clock(12)))

    def at(self, ts_ms: int) -> CardUsage:
        """Return the display and what else runs."""
        up_ms = self._up.begun_ms(ts_ms)
        if up_ms is None:
            return FREE
        rng, host = self._setting.rng, self._setting.host
        processes = [host.process(self._display, up_ms, memory_bytes=self.DISPLAY, utilization=0.0)]
        held_bytes, utilization, decoder = self.DISPLAY, 0.0, 0.0
        serving_ms = next((at for stretch in self._serving if (at := stretch.begun_ms(ts_ms)) is not None), None)
        if serving_ms is not None:
            utilization = rng.uniform(0.0, 0.06)
            held_bytes += self.CONTAINER
            processes.append(
                host.process(self._service, serving_ms, memory_bytes=None, utilization=percent(utilization))
            )
        watching_ms = self._watching.begun_ms(ts_ms)
        if watching_ms is not None:
            utilization, decoder = 0.03, rng.uniform(0.3, 0.5)
            held_bytes += self.FILM
            processes.append(host.process(self._film, watching_ms, memory_bytes=self.FILM, utilization=0.03))
        return CardUsage(
            utilization=utilization,
            largest=percent(2 * utilization),
            decoder=decoder,
            held_bytes=held_bytes,
            context=len(processes) > 1,
            processes=tuple(processes),
        )


class InstanceKernel:
    """A kernel on a MIG instance, Monday to Friday: what it computes nobody can read."""

    HELD = 9 * GIB

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        owner, uid = setting.person(7)
        self._program = Program(
            comm="python", owner=owner, uid=uid, place=setting.name, unit=f"jupyter-{owner}.service"
        )
        (self._kernel,) = setting.late(Stretch(MON + clock(9, 40), FRI + clock(19)))

    def at(self, ts_ms: int) -> CardUsage:
        """Return the kernel; its utilization is the truth, which the driver will not tell."""
        begun_ms = self._kernel.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        process = self._setting.host.process(self._program, begun_ms, memory_bytes=self.HELD, utilization=None)
        worked = (ts_ms - begun_ms) % (24 * HOUR_MS) < 9 * HOUR_MS
        return CardUsage(utilization=0.2 if worked else 0.0, held_bytes=self.HELD, context=True, processes=(process,))


class Training:
    """Slurm jobs of a trainer and an evaluator a card, for days.

    On Monday night their collective is stuck: kernels wait for each other, at full utilization and with next to no SM
    at work. On Thursday evening one of them hangs, and nothing runs.
    """

    TRAINER = 61 * GIB
    EVALUATOR = 9 * GIB
    LOADING_MS = 12 * MINUTE_MS
    AT_WORK = Activity(0.66, 0.28, 0.41, 0.37)
    STUCK = Activity(0.03, 0.02, 0.0, 0.01)

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        self._jobs = tuple(
            zip(
                setting.late(
                    Stretch(MON + clock(10, 20), WED + clock(6, 40)),
                    Stretch(WED + clock(9, 15), THU + clock(23, 50)),
                    Stretch(FRI + clock(8, 5), SAT + clock(19, 30)),
                ),
                (setting.person(1), setting.person(2), setting.person(1)),
                strict=True,
            )
        )
        self._hung = setting.late(Stretch(THU + clock(18, 5), THU + clock(23, 50)))
        self._stuck = setting.late(Stretch(MON + clock(21, 30), TUE + clock(6, 40)))
        self._validating = Draw(f"{setting.name}:validating", minutes=20)

    def at(self, ts_ms: int) -> CardUsage:
        """Return the running job's part on this card."""
        for stretch, (owner, uid) in self._jobs:
            begun_ms = stretch.begun_ms(ts_ms)
            if begun_ms is not None:
                return self._run(owner, uid, begun_ms, ts_ms)
        return FREE

    def _run(self, owner: str, uid: int, begun_ms: int, ts_ms: int) -> CardUsage:
        loading = ts_ms - begun_ms < self.LOADING_MS
        utilization = self._utilization(ts_ms, loading=loading)
        parts = [("python3", 2 * GIB if loading else self.TRAINER, 0.9)]
        if not loading:
            parts.append(("evaluate", self.EVALUATOR, 0.08))
        return CardUsage(
            utilization=utilization,
            largest=percent(min(1.0, utilization + 0.03)),
            held_bytes=sum(memory_bytes for _, memory_bytes, _ in parts),
            context=True,
            activity=at_work(utilization, self.STUCK if inside(self._stuck, ts_ms) else self.AT_WORK),
            processes=tuple(
                self._setting.host.process(
                    Program(comm=comm, owner=owner, uid=uid, place=self._setting.name, slurm=True),
                    begun_ms,
                    memory_bytes=memory_bytes,
                    utilization=percent(utilization * share),
                )
                for comm, memory_bytes, share in parts
            ),
        )

    def _utilization(self, ts_ms: int, *, loading: bool) -> float:
        if inside(self._hung, ts_ms):
            return 0.0
        if loading:
            return self._setting.rng.uniform(0.0, 0.04)
        if self._validating.at(ts_ms) < 0.06:
            return self._setting.rng.uniform(0.35, 0.6)
        return self._setting.rng.uniform(0.94, 0.99)


def server(setting: HabitSetting) -> Program:
    """Return the program of a round's inference server; a pod runs it."""
    # vLLM names its engine process VLLM::EngineCore; the kernel keeps 15 characters of a name.
    return Program(comm="VLLM::EngineCor", owner="svc-llm", uid=990, place=setting.name, pod=True)


class Inference:
    """A server that took nine tenths of the card for itself and waits for requests; now and then some come."""

    HELD = 71 * GIB
    AT_WORK = Activity(0.38, 0.12, 0.09, 0.62)

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        self._program = server(setting)
        (self._deployed,) = setting.late(Stretch(SUN + clock(4), NEXT_WEEK + SUN + clock(3, 58)))
        self._busy_hours = setting.late(*daily(WEEKDAYS, clock(8), clock(19)))
        self._burst = Draw(f"{setting.name}:burst", minutes=10)

    def at(self, ts_ms: int) -> CardUsage:
        """Return the server, waiting or in a burst of requests."""
        begun_ms = self._deployed.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = self._setting.rng.uniform(0.02, 0.08)
        if self._burst.at(ts_ms) < (0.14 if inside(self._busy_hours, ts_ms) else 0.02):
            utilization = self._setting.rng.uniform(0.2, 0.7)
        return self._setting.running(
            self._program,
            begun_ms,
            self.HELD,
            utilization,
            largest=2 * utilization,
            activity=at_work(utilization, self.AT_WORK),
        )


class Orphan:
    """A job that crashes on Saturday morning; its memory stays, and no listed process owns it until Friday."""

    HELD = 47 * GIB

    def __init__(self, setting: HabitSetting) -> None:
        self._setting = setting
        owner, uid = setting.person(4)
        self._program = Program(comm="finetune", owner=owner, uid=uid, place=setting.name, slurm=True)
        self._job, self._left_behind = setting.late(
            Stretch(FRI + clock(18), SAT + clock(3, 10)),
            Stretch(SAT + clock(3, 10), NEXT_WEEK + FRI + clock(17, 20)),
        )

    def at(self, ts_ms: int) -> CardUsage:
        """Return the job, or what it left behind."""
        if self._left_behind.begun_ms(ts_ms) is not None:
            return CardUsage(held_bytes=self.HELD, context=True)
        begun_ms = self._job.begun_ms(ts_ms)
        if begun_ms is None:
            return FREE
        utilization = self._setting.rng.uniform(0.8, 0.97)
        return self._setting.running(self._program, begun_ms, self.HELD, utilization, largest=utilization + 0.05)
