"""Habits of programs that run by themselves: jobs, what a crashed one leaves behind, a server.

Every figure is invented unless it names its source; the week is told in UTC.
"""

from __future__ import annotations

from gua.core.ports import Activity
from gua.sim.calendar import (
    FRI,
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
from gua.sim.habit import FREE, GIB, WEEKDAYS, CardUsage, Draw, HabitSetting, at_work, percent
from gua.sim.programs import Program


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
