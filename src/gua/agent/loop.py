"""The agent's loop: drains the driver's rings, and on each point of the grid makes a tick for the spool.

Ticks are due on a grid of the wall clock, k x interval + a phase per host. The grid only schedules; what a tick covers
is measured (:mod:`gua.agent.sampler`). The phase keeps a fleet's ticks from reaching the Collector all in one second.
Events go to the board that ``gua status`` shows, the log, and the service manager.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from gua.agent.logs import Changes
from gua.agent.notify import Notifier
from gua.agent.outbox import Outbox
from gua.agent.sampler import Outcome, QueueHealth, Sampler
from gua.agent.status import ALLOCATION_NOTES, Board
from gua.core.errors import UnavailableError
from gua.core.plaintext import few
from gua.core.ports import CardReader, Clock
from gua.core.tick import NO_ANSWER, Tick
from gua.core.words import AllocationStatus, ProcessType

DRIVER: Final = "driver"
FAULT: Final = "fault"
MISSED: Final = "missed"
WAITING: Final = Outcome.WAITING.value
PATIENCE_MS: Final = 3 * 60 * 1000
"""How long a job may be there before it is told: Slurm is asked once a minute."""


class Watcher(Protocol):
    """Who takes note of what the loop does."""

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Take note of a tick that was put into the spool."""
        ...

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Take note of ticks that were due and could not be made."""
        ...

    def alive(self) -> None:
        """Take note that the loop goes round."""
        ...


class SilentJobs:
    """Remembers since when each job has had a process on a card that is promised to nobody."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[str, str], int] = {}

    def after(self, tick: Tick) -> str | None:
        """Return a sentence on such jobs after this tick, ``None`` where there are none."""
        cards = {card.uuid: card for card in tick.cards if card.allocation is AllocationStatus.UNALLOCATED}
        now = [
            (card.uuid, process.slurm_job_id)
            for card in cards.values()
            for process in card.processes
            if process.slurm_job_id is not None and process.type is not ProcessType.IGNORED
        ]
        self._since_ms = {place: self._since_ms.get(place, tick.ts_ms) for place in now}
        silent = [place for place, since_ms in self._since_ms.items() if abs(tick.ts_ms - since_ms) >= PATIENCE_MS]
        if not silent:
            return None
        places = {uuid: uuid if card.index is None else f"card {card.index}" for uuid, card in cards.items()}
        named = few([f"job {job} on {places[uuid]}" for uuid, job in silent])
        return (
            f"Slurm's {named}: no source of allocations tells of it; are the hooks installed, and is Slurm looked at?"
        )


_CLOCK = "clock"
_, _SILENT_JOBS = ALLOCATION_NOTES


class AgentEvents:
    """Takes what the loop and the senders tell; safe for threads.

    ``also_alive`` is called each time the loop goes round, some times a minute. ``also`` are others that take note of
    ticks.
    """

    def __init__(self, *, board: Board, changes: Changes, notifier: Notifier, also_alive: Callable[[], None]) -> None:
        self._board = board
        self._changes = changes
        self._notifier = notifier
        self._also_alive = also_alive
        self._silent_jobs = SilentJobs()
        self._failed_sources: set[str] = set()
        self.also: list[Watcher] = []

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Show the tick; log calls and cards that began to fail with it, or work again."""
        self._board.ticked(tick, lateness_ms=lateness_ms)
        self._changes.works(DRIVER, "the cards can be read again")
        self._changes.works(FAULT, "ticks can be made again")
        self._changes.works(_CLOCK, "the clock has passed the last tick: ticks go on")
        for card in tick.cards:
            if card.failed:
                self._changes.failed(card.uuid, f"card {card.uuid} is lost or needs a reset", kind="lost")
            else:
                self._changes.works(card.uuid, f"card {card.uuid} is back")
        failing = {(error.call, error.code) for error in tick.errors}
        if failing:
            words = ", ".join(f"{call}: {code}" for call, code in sorted(failing))
            self._changes.failed("calls", f"some calls failed, the rest goes on: {words}", kind=words)
        else:
            self._changes.works("calls", "all calls succeed again")
        self._board.note(NO_ANSWER, _unanswered(tick))
        self._allocations(tick)
        for each in self.also:
            each.ticked(tick, lateness_ms=lateness_ms)

    def _allocations(self, tick: Tick) -> None:
        failed = {source.source for source in tick.allocation_sources if source.reason is not None}
        for source in tick.allocation_sources:
            key = f"allocations by {source.source}"
            if source.reason is None:
                self._changes.works(key, f"{key} can be read again")
            elif source.source in self._failed_sources:  # what is asked in the background answers after the first tick
                self._changes.failed(key, f"{key} cannot be read: {source.reason}", kind="failed")
        self._failed_sources = failed
        self.condition(_SILENT_JOBS, self._silent_jobs.after(tick))

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Count ticks that were due and are not there, and log why."""
        self._board.skipped(reason, count)
        self._changes.failed(reason if reason in {DRIVER, FAULT} else _CLOCK, message, kind=reason)
        for each in self.also:
            each.skipped(reason, message, count)

    def condition(self, key: str, message: str | None) -> None:
        """Show and log what stands until it is taken back."""
        self._board.note(key, message)
        if message is None:
            self._changes.works(key, f"{key}: all is well again")
        else:
            self._changes.failed(key, message, kind=message)

    def delivered(self, destination: str, *, ticks: int, refused: int = 0) -> None:  # noqa: ARG002 - the spool counts them
        """Show that delivery goes on, and log what was refused for good."""
        self._board.delivered(destination)
        self._changes.works(destination, f"{destination}: delivery goes on")
        if refused:
            self._changes.failed(
                f"{destination} refused",
                f"{destination}: {refused} ticks were refused for good; they are kept in the spool",
                kind="refused",
            )

    def failed(self, destination: str, message: str) -> None:
        """Show and log why nothing arrives; the ticks wait in the spool."""
        self._board.failed(destination, message)
        self._changes.failed(destination, f"{destination}: {message}", kind="failed")

    def alive(self) -> None:
        """Feed the service manager's watchdog."""
        self._notifier.alive()
        self._also_alive()
        for each in self.also:
            each.alive()


def _unanswered(tick: Tick) -> str | None:
    """Return which calls do not come back, ``None`` if all do."""
    calls = sorted({error.call for error in tick.errors if error.code == NO_ANSWER})
    if not calls:
        return None
    return f"the driver does not answer {', '.join(calls)}: what only that tells is unknown (nvidia-smi may hang, too)"


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


_SAID: Final = {
    Outcome.RESTARTED: "the clock was set back by more than 10 minutes: ticks begin anew",
    Outcome.MARK_AHEAD: "the last tick was kept with a later time than this boot has reached: ticks begin anew",
    Outcome.WAITING: "the clock stands behind the last tick (it was set back): no tick until it has passed that one",
    Outcome.TOO_SOON: "less than a millisecond passed since the last tick",
}


class Loop:
    """Runs until ``wait`` says to stop.

    Ticks are ``interval_ms`` apart; ``phase`` is this host's place in that [ms]. ``wait(seconds)`` returns True as soon
    as the agent is to stop. ``encode`` makes the tick's OTLP request, ``health`` tells what the agent says of itself.
    ``on_tick`` is called after each tick that was put.
    """

    def __init__(  # noqa: PLR0913 - one argument for each end that the loop holds together
        self,
        *,
        sampler: Sampler,
        cards: CardReader,
        outbox: Outbox,
        clock: Clock,
        interval_ms: int,
        phase: int,
        encode: Callable[[Tick], bytes],
        wait: Callable[[float], bool],
        watcher: AgentEvents,
        health: Callable[[], QueueHealth],
        on_tick: Callable[[], None],
    ) -> None:
        self._sampler = sampler
        self._cards = cards
        self._outbox = outbox
        self._clock = clock
        self._interval_ms = interval_ms
        self._phase = phase
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
            due_in = due_in_ms(self._clock.wall_ms(), self._interval_ms, self._phase)
            # Scheduled by the monotonic clock: a wall clock that is set meanwhile must not stall the loop.
            due_ms = self._clock.monotonic_ms() + due_in
            stopping = self._rest(due_ms)
            self._watcher.alive()
            self.tick(lateness_ms=0 if stopping else max(0, self._clock.monotonic_ms() - due_ms))
            if stopping:
                return
            if missed := (self._clock.monotonic_ms() - due_ms) // self._interval_ms:
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
