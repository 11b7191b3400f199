"""What a habit is told about its card, what it does to it in one tick, and draws that hold for a while."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from gua.core.ports import Activity
from gua.core.tick import ProcessReading
from gua.sim.calendar import FRI, MINUTE_MS, MON, THU, TUE, WED, Stretch
from gua.sim.programs import Program, ProgramHost, person

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
