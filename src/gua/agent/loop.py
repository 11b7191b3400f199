"""The agent's loop: drains the driver's ring buffers, and makes a tick for the spool at each grid point.

Grid points are k x interval + a phase per host, in wall clock time. The grid only schedules; a tick's coverage is
measured (:mod:`gua.agent.sampler`). The phase spreads a fleet's requests to the Collector over the interval.
Events go to the status board, the log, and the service manager.
"""

import hashlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
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
"""Time after which a job on an unallocated card is reported [ms]: Slurm is queried once a minute."""


class Watcher(Protocol):
    """Receiver of the loop's events."""

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Handle a tick that was put into the spool."""

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Handle ``count`` grid points without a tick."""

    def alive(self) -> None:
        """Handle one pass of the loop, as a heartbeat."""


class SilentJobs:
    """Tracker of Slurm jobs with a process on an unallocated card."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[str, str], int] = {}

    def after(self, tick: Tick) -> str | None:
        """Return a message about such jobs after this tick, ``None`` without any."""
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
        return f"Slurm's {named}: in no allocation source; check that the hooks are installed and Slurm is a source"


_CLOCK = "clock"
_, _SILENT_JOBS = ALLOCATION_NOTES


class AgentEvents:
    """Dispatcher for the events of the loop and the senders; thread-safe.

    ``also_alive`` is called on each pass of the loop, several times a minute. ``also`` are further watchers of ticks.
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
        """Show the tick on the board; log calls and cards that began to fail with it, or recovered."""
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
        hanging = sorted({error.call for error in tick.errors if error.code == NO_ANSWER})
        message = f"the driver does not answer {', '.join(hanging)}: the values are unknown (nvidia-smi may hang, too)"
        self._board.note(NO_ANSWER, message if hanging else None)
        self._allocations(tick)
        for each in self.also:
            each.ticked(tick, lateness_ms=lateness_ms)

    def _allocations(self, tick: Tick) -> None:
        failed = {source.source for source in tick.allocation_sources if source.reason is not None}
        for source in tick.allocation_sources:
            key = f"allocations by {source.source}"
            if source.reason is None:
                self._changes.works(key, f"{key} can be read again")
            elif source.source in self._failed_sources:  # background requests have no result at the first tick
                self._changes.failed(key, f"{key} cannot be read: {source.reason}", kind="failed")
        self._failed_sources = failed
        self.condition(_SILENT_JOBS, self._silent_jobs.after(tick))

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Count grid points without a tick, and log the reason."""
        self._board.skipped(reason, count)
        self._changes.failed(reason if reason in {DRIVER, FAULT} else _CLOCK, message, kind=reason)
        for each in self.also:
            each.skipped(reason, message, count)

    def condition(self, key: str, message: str | None) -> None:
        """Show and log a condition until it is cleared with ``None``."""
        self._board.note(key, message)
        if message is None:
            self._changes.works(key, f"{key}: all is well again")
        else:
            self._changes.failed(key, message, kind=message)

    def delivered(self, destination: str, *, ticks: int, refused: int = 0) -> None:  # noqa: ARG002 - the spool counts them
        """Record that delivery works, and log permanently refused ticks."""
        self._board.delivered(destination)
        self._changes.works(destination, f"{destination}: delivery goes on")
        if refused:
            self._changes.failed(
                f"{destination} refused",
                f"{destination}: {refused} ticks were refused for good; they are kept in the spool",
                kind="refused",
            )

    def failed(self, destination: str, message: str) -> None:
        """Show and log why delivery fails; the ticks stay in the spool."""
        self._board.failed(destination, message)
        self._changes.failed(destination, f"{destination}: {message}", kind="failed")

    def alive(self) -> None:
        """Reset the service manager's watchdog."""
        self._notifier.alive()
        self._also_alive()
        for each in self.also:
            each.alive()


DRAIN_EVERY_MS: Final = 5_000
_SMALLEST_PART: Final = 10


def phase_ms(host: str, interval_ms: int) -> int:
    """Return a host's offset in the interval [ms], 0 <= phase < interval, the same at every start."""
    digest = hashlib.blake2b(host.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % interval_ms


def due_in_ms(wall_ms: int, interval_ms: int, phase: int) -> int:
    """Return the time until the next grid point [ms]; skip one that is less than a tenth of an interval away."""
    left = interval_ms - (wall_ms - phase) % interval_ms
    return left if left * _SMALLEST_PART >= interval_ms else left + interval_ms


def step_ms(left_ms: int) -> int:
    """Return the wait until the next drain of the ring buffers [ms]: equal steps of at most 5 s."""
    steps = max(1, -(-left_ms // DRAIN_EVERY_MS))
    return -(-left_ms // steps)


_MESSAGES: Final = {
    Outcome.RESTARTED: "the clock was set back by more than 10 minutes: ticks begin anew",
    Outcome.MARK_AHEAD: "the last tick was kept with a later time than this boot has reached: ticks begin anew",
    Outcome.WAITING: "the clock stands behind the last tick (it was set back): no tick until it has passed that one",
    Outcome.TOO_SOON: "less than a millisecond passed since the last tick",
}


@dataclass(eq=False, kw_only=True)
class Loop:
    """The agent's main loop, which makes ticks until ``wait`` returns True.

    Ticks are ``interval_ms`` apart, at this host's offset ``phase`` [ms]. ``wait(seconds)`` returns True as soon as the
    agent is to stop. ``encode`` returns the tick's OTLP request. ``health`` returns the agent's queue metrics.
    ``on_tick`` is called after each tick that was put into the outbox.
    """

    sampler: Sampler
    cards: CardReader
    outbox: Outbox
    clock: Clock
    interval_ms: int
    phase: int
    encode: Callable[[Tick], bytes]
    wait: Callable[[float], bool]
    watcher: AgentEvents
    health: Callable[[], QueueHealth]
    on_tick: Callable[[], None]

    def first(self) -> None:
        """Make the first tick. Raises UnavailableError, with a remedy, if no card can be read."""
        self._make(lateness_ms=0)

    def run(self) -> None:
        """Make ticks until the agent is to stop, then one last tick, so that the time before a stop is observed."""
        while True:
            due_in = due_in_ms(self.clock.wall_ms(), self.interval_ms, self.phase)
            # Scheduled by the monotonic clock, because setting the wall clock must not stall the loop.
            due_ms = self.clock.monotonic_ms() + due_in
            stopping = self._rest(due_ms)
            self.watcher.alive()
            self.tick(lateness_ms=0 if stopping else max(0, self.clock.monotonic_ms() - due_ms))
            if stopping:
                return
            if missed := (self.clock.monotonic_ms() - due_ms) // self.interval_ms:
                self.watcher.skipped(MISSED, f"{missed} ticks came due while the agent could not make them", missed)

    def tick(self, *, lateness_ms: int) -> None:
        """Make one tick; on failure report it to the watcher."""
        try:
            self._make(lateness_ms=lateness_ms)
        except UnavailableError as error:
            self.watcher.skipped(DRIVER, str(error))
        except Exception as error:  # noqa: BLE001 - the next tick covers this time too, if the agent does not end
            # The error and its place in the code, in one line for developers.
            *_, last = traceback.extract_tb(error.__traceback__)
            fault = f"unexpected {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
            self.watcher.skipped(FAULT, f"a tick could not be made, the next one is tried: {fault}")

    def _make(self, *, lateness_ms: int) -> None:
        sample = self.sampler.sample(self.outbox.mark, lateness_ms=lateness_ms, health=self.health())
        if sample.outcome in _MESSAGES:
            self.watcher.skipped(sample.outcome.value, _MESSAGES[sample.outcome])
        if sample.tick is None:
            return
        self.outbox.put(sample.tick.ts_ms, self.encode(sample.tick), sample.mark)
        self.watcher.condition("spool", self.outbox.trouble)
        self.watcher.ticked(sample.tick, lateness_ms=lateness_ms)
        self.on_tick()

    def _rest(self, due_ms: int) -> bool:
        """Wait until the tick's time and drain the rings meanwhile; return True as soon as the agent is to stop."""
        while (left_ms := due_ms - self.clock.monotonic_ms()) > 0:
            step = step_ms(left_ms)
            if self.wait(step / 1000):
                return True
            self.watcher.alive()
            if step < left_ms:
                self.cards.drain()
        return self.wait(0)
