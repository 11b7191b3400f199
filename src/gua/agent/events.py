"""Where the agent's events go: the board that ``gua status`` shows, the log, and the service manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gua.agent.logs import Changes
from gua.agent.loop import Watcher
from gua.agent.notify import Notifier
from gua.agent.status import ALLOCATION_NOTES, Board
from gua.core.plaintext import few
from gua.core.tick import NO_ANSWER, Tick
from gua.core.words import AllocationStatus, ProcessType

PATIENCE_MS: Final = 3 * 60 * 1000
"""How long a job may be there before it is told: Slurm is asked once a minute."""


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
_DRIVER = "driver"
_FAULT = "fault"
_, _SILENT_JOBS = ALLOCATION_NOTES


class AgentEvents:
    """Takes what the loop and the senders tell; safe for threads.

    ``also_alive`` is called each time the loop goes round, some times a minute.
    """

    def __init__(self, *, board: Board, changes: Changes, notifier: Notifier, also_alive: Callable[[], None]) -> None:
        self._board = board
        self._changes = changes
        self._notifier = notifier
        self._also_alive = also_alive
        self._silent_jobs = SilentJobs()
        self._failed_sources: set[str] = set()

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Show the tick; log calls and cards that began to fail with it, or work again."""
        self._board.ticked(tick, lateness_ms=lateness_ms)
        self._changes.works(_DRIVER, "the cards can be read again")
        self._changes.works(_FAULT, "ticks can be made again")
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
        self._changes.failed(reason if reason in {_DRIVER, _FAULT} else _CLOCK, message, kind=reason)

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


def _unanswered(tick: Tick) -> str | None:
    """Return which calls do not come back, ``None`` if all do."""
    calls = sorted({error.call for error in tick.errors if error.code == NO_ANSWER})
    if not calls:
        return None
    return f"the driver does not answer {', '.join(calls)}: what only that tells is unknown (nvidia-smi may hang, too)"


class Listeners:
    """Tells each of them, in their order."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Take note of a tick that was put into the spool."""
        for watcher in self._watchers:
            watcher.ticked(tick, lateness_ms=lateness_ms)

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Take note of ticks that were due and could not be made."""
        for watcher in self._watchers:
            watcher.skipped(reason, message, count)

    def condition(self, key: str, message: str | None) -> None:
        """Take note of something that stands until it is taken back with ``None``."""
        for watcher in self._watchers:
            watcher.condition(key, message)

    def alive(self) -> None:
        """Take note that the loop goes round."""
        for watcher in self._watchers:
            watcher.alive()
