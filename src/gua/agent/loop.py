"""The agent's loop: drains the driver's rings, and on each point of the grid makes a tick for the spool.

Ticks are due on a grid of the wall clock, k x interval + a phase per host. The grid only schedules; what a tick covers
is measured (:mod:`gua.agent.coverage`). The phase keeps a fleet's ticks from reaching the Collector all in one second.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gua.agent.coverage import Outcome
from gua.agent.outbox import Outbox
from gua.agent.sampler import QueueHealth, Sampler
from gua.core.errors import UnavailableError
from gua.core.ports import CardReader, Clock
from gua.core.tick import Tick

DRAIN_EVERY_MS: Final = 5_000
_SMALLEST_PART: Final = 10


def phase_ms(host: str, interval_ms: int) -> int:
    """Return a host's place in the interval, 0 <= phase < interval, the same at every start."""
    digest = hashlib.blake2b(host.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % interval_ms


def due_in_ms(wall_ms: int, interval_ms: int, phase: int) -> int:
    """Return the ms until the next point of the grid, but never less than a tenth of an interval away."""
    left = interval_ms - (wall_ms - phase) % interval_ms
    return left if left * _SMALLEST_PART >= interval_ms else left + interval_ms


def step_ms(left_ms: int) -> int:
    """Return how long to wait before the driver's rings are drained again, in equal steps of 5 s at most."""
    steps = max(1, -(-left_ms // DRAIN_EVERY_MS))
    return -(-left_ms // steps)


DRIVER: Final = "driver"
FAULT: Final = "fault"
MISSED: Final = "missed"
WAITING: Final = Outcome.WAITING.value

_SAID: Final = {
    Outcome.RESTARTED: "the clock was set back by more than 10 minutes: ticks begin anew",
    Outcome.MARK_AHEAD: "the last tick was kept with a later time than this boot has reached: ticks begin anew",
    Outcome.WAITING: "the clock stands behind the last tick (it was set back): no tick until it has passed that one",
    Outcome.TOO_SOON: "less than a millisecond passed since the last tick",
}


class Watcher(Protocol):
    """Who is told what the loop does: the picture that ``gua status`` shows, the log, the service manager."""

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Take note of a tick that was put into the spool."""
        ...

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Take note of ticks that were due and could not be made."""
        ...

    def condition(self, key: str, message: str | None) -> None:
        """Take note of something that stands until it is taken back with ``None``."""
        ...

    def alive(self) -> None:
        """Take note that the loop goes round."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """``interval_ms`` between ticks; ``phase_ms`` is this host's place in it."""

    interval_ms: int
    phase_ms: int


class Loop:
    """Runs until ``wait`` says to stop.

    ``wait(seconds)`` returns True as soon as the agent is to stop. ``encode`` makes the tick's OTLP request,
    ``health`` tells what the agent reports of itself. ``on_tick`` is called after each tick that was put.
    """

    def __init__(  # noqa: PLR0913 - one argument for each end that the loop holds together
        self,
        *,
        sampler: Sampler,
        cards: CardReader,
        outbox: Outbox,
        clock: Clock,
        schedule: Schedule,
        encode: Callable[[Tick], bytes],
        wait: Callable[[float], bool],
        watcher: Watcher,
        health: Callable[[], QueueHealth],
        on_tick: Callable[[], None],
    ) -> None:
        self._sampler = sampler
        self._cards = cards
        self._outbox = outbox
        self._clock = clock
        self._schedule = schedule
        self._encode = encode
        self._wait = wait
        self._watcher = watcher
        self._health = health
        self._on_tick = on_tick

    def first(self) -> None:
        """Make the first tick. Raises UnavailableError, with what to do, where no card can be read."""
        self._make(lateness_ms=0)

    def run(self) -> None:
        """Make ticks until told to stop, and one last tick then, so that no time before a stop stays unobserved."""
        while True:
            due_in = due_in_ms(self._clock.wall_ms(), self._schedule.interval_ms, self._schedule.phase_ms)
            # Scheduled by the monotonic clock: a wall clock that is set meanwhile must not stall the loop.
            due_ms = self._clock.monotonic_ms() + due_in
            stopping = self._rest(due_ms)
            self._watcher.alive()
            self.tick(lateness_ms=0 if stopping else max(0, self._clock.monotonic_ms() - due_ms))
            if stopping:
                return
            if missed := (self._clock.monotonic_ms() - due_ms) // self._schedule.interval_ms:
                self._watcher.skipped(MISSED, f"{missed} ticks came due while the agent could not make them", missed)

    def tick(self, *, lateness_ms: int) -> None:
        """Make one tick if it can be made; tells the watcher where not."""
        try:
            self._make(lateness_ms=lateness_ms)
        except UnavailableError as error:
            self._watcher.skipped(DRIVER, str(error))
        except Exception as error:  # noqa: BLE001 - the next tick covers this one's time; an agent that ended would not
            self._watcher.skipped(FAULT, f"a tick could not be made, the next one is tried: {_fault(error)}")

    def _make(self, *, lateness_ms: int) -> None:
        sample = self._sampler.sample(self._outbox.mark, lateness_ms=lateness_ms, health=self._health())
        if sample.outcome in _SAID:
            self._watcher.skipped(sample.outcome.value, _SAID[sample.outcome])
        if sample.tick is None:
            return
        self._outbox.put(sample.tick.ts_ms, self._encode(sample.tick), sample.mark)
        self._watcher.condition("spool", self._outbox.trouble)
        self._watcher.ticked(sample.tick, lateness_ms=lateness_ms)
        self._on_tick()

    def _rest(self, due_ms: int) -> bool:
        """Wait until the tick is due, draining the rings meanwhile; return True as soon as the agent is to stop."""
        while (left_ms := due_ms - self._clock.monotonic_ms()) > 0:
            step = step_ms(left_ms)
            if self._wait(step / 1000):
                return True
            self._watcher.alive()
            if step < left_ms:
                self._cards.drain()
        return self._wait(0)


def _fault(error: Exception) -> str:
    """Return what went wrong where, in one line for whoever mends it."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"unexpected {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
