"""Habits of people at work: notebooks, experiments, a desktop.

Every figure is invented unless it names its source; the week is told in UTC.
"""

from __future__ import annotations

from gua.core.ports import Activity
from gua.core.words import ProcessType
from gua.sim.calendar import (
    FRI,
    HOUR_MS,
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
from gua.sim.habit import FREE, GIB, LOST, MIB, WEEKDAYS, CardUsage, Draw, HabitSetting, at_work, percent
from gua.sim.programs import Program


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
