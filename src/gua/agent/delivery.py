"""Delivery of spooled ticks, at least once: to endpoints at once, and into a store every hour by a short-lived child.

Each destination has a thread of its own, so that neither a slow endpoint nor a slow import delays the sampling.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gua.core.errors import GuaError, TransientError
from gua.core.ports import Landing
from gua.spool.queue import Spool

if TYPE_CHECKING:
    from gua.agent.loop import AgentEvents

BATCH_TICKS: Final = 480
ENDPOINT_BATCH_TICKS: Final = 60
CATCH_UP_TICKS_PER_SECOND: Final = 120
_FIRST_BACK_OFF_SECONDS: Final = 1.0
_LONGEST_BACK_OFF_SECONDS: Final = 60.0
# A server may ask for any time; what it asked an hour ago is stale.
_LONGEST_RETRY_AFTER_SECONDS: Final = 600.0
EVERY_SECONDS: Final = 3600.0
_FIRST_LANDING_BACK_OFF_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """How many ticks arrived, and how many were refused for good (they are kept in the spool's ``refused``)."""

    landed: int = 0
    refused: int = 0


def drain(  # noqa: PLR0913 - the three ends of the way, and what a caller may watch or set
    queue: Spool,
    destination: str,
    landing: Landing,
    *,
    batch_ticks: int = BATCH_TICKS,
    on_batch: Callable[[int, int], object] = lambda *_: None,
    flush: Callable[[], object] = lambda: None,
) -> DrainResult:
    """Deliver everything that waits for ``destination``, oldest first, and return the counts.

    A batch is acknowledged only when the next one has landed, the last one after ``flush``: a store that has
    accepted an insert has not necessarily written it to the disk, so the ticks stay in the spool a batch longer.
    What is delivered twice after a crash changes nothing, storage is idempotent. ``flush`` makes durable what has
    landed; ``on_batch`` is called after each batch with how many of its ticks arrived and how many were refused.

    Whatever the landing raises ends the drain and is raised again, after ``flush`` and the acknowledgement of
    what had landed before; the batch that failed stays in the spool.
    """
    landed = refused = last = 0
    try:
        while batch := queue.peek(destination, batch_ticks, after=last):
            rejected = landing.land(batch)
            if rejected:
                queue.refuse(destination, rejected, "refused by the destination")
            if last:
                queue.acknowledge(destination, last)
            last = batch[-1].id
            refused += len(rejected)
            landed += len(batch) - len(rejected)
            on_batch(len(batch) - len(rejected), len(rejected))
    finally:
        if last:
            flush()
            queue.acknowledge(destination, last)
    return DrainResult(landed=landed, refused=refused)


class _StoppingError(Exception):
    """The agent is to stop: the batch that arrived is acknowledged, the rest stays in the spool."""


class DeliveryThread(threading.Thread):
    """A thread that takes ticks from the spool to one destination until :meth:`stop`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Let the thread end soon; what is not delivered stays in the spool."""
        self._stopping.set()


class Sender(DeliveryThread):
    """Delivers to one destination until :meth:`stop`.

    ``queue`` and ``landing`` are opened in the sender's own thread, and anew after each failure, so neither a slow
    endpoint nor a slow import is ever waited for by the sampling. After a failure it waits up to 1 s, doubling to
    60 s ("full jitter"), or as long as the endpoint asked for. What piled up in an outage goes at
    ``CATCH_UP_TICKS_PER_SECOND`` at most, so that a fleet that comes back does not bury the Collector.
    """

    def __init__(  # noqa: PLR0913 - both ends, who is told, and what tests replace
        self,
        destination: str,
        *,
        queue: Callable[[], AbstractContextManager[Spool]],
        landing: Callable[[], AbstractContextManager[Landing]],
        watcher: AgentEvents,
        ticks_per_second: float = CATCH_UP_TICKS_PER_SECOND,
        jitter: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(f"send to {destination}")
        self._destination = destination
        self._queue = queue
        self._landing = landing
        self._watcher = watcher
        self._ticks_per_second = ticks_per_second
        self._jitter = jitter
        self._monotonic = monotonic
        self._wake = threading.Event()
        self._batch_began = 0.0

    def wake(self) -> None:
        """Say that a tick was spooled."""
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end after the request in progress."""
        super().stop()
        self._wake.set()

    def run(self) -> None:
        """Deliver until stopped."""
        back_off = _FIRST_BACK_OFF_SECONDS
        while not self._stopping.is_set():
            try:
                with self._queue() as queue, self._landing() as landing:
                    while not self._stopping.is_set():
                        self._wake.clear()
                        self._batch_began = self._monotonic()
                        drain(
                            queue,
                            self._destination,
                            landing,
                            batch_ticks=ENDPOINT_BATCH_TICKS,
                            on_batch=self._after_batch,
                        )
                        back_off = _FIRST_BACK_OFF_SECONDS
                        self._wake.wait()
            except _StoppingError:
                return
            except Exception as error:  # noqa: BLE001 - a fault in a library must not end the delivery of an agent
                self._watcher.failed(self._destination, _words(error))
                asked = error.retry_after_seconds if isinstance(error, TransientError) else None
            else:
                return
            wait = max(back_off * self._jitter(), min(asked or 0.0, _LONGEST_RETRY_AFTER_SECONDS))
            self._stopping.wait(wait)
            back_off = min(back_off * 2, _LONGEST_BACK_OFF_SECONDS)

    def _after_batch(self, ticks: int, refused: int) -> None:
        self._watcher.delivered(self._destination, ticks=ticks, refused=refused)
        due = self._batch_began + ticks / self._ticks_per_second
        if self._stopping.wait(max(0.0, due - self._monotonic())):
            raise _StoppingError
        self._batch_began = self._monotonic()


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, GuaError) else f"unexpected {type(error).__name__}: {error}"


class PeriodicLanding(DeliveryThread):
    """Calls ``land`` every hour until :meth:`stop`; after a failure first after a minute, doubling to the hour.

    ``land(stopping)`` runs the child, ends it when ``stopping`` is set, and raises GuaError with what went wrong.
    The first landing comes at a random moment of the second half of the first hour: hosts that were started together
    do not land together, and what was just started has nothing to land.
    """

    def __init__(
        self,
        destination: str,
        *,
        land: Callable[[threading.Event], DrainResult],
        watcher: AgentEvents,
        every_seconds: float = EVERY_SECONDS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(f"land into {destination}")
        self._destination = destination
        self._land = land
        self._watcher = watcher
        self._every_seconds = every_seconds
        self._jitter = jitter

    def run(self) -> None:
        """Land until stopped."""
        wait = self._every_seconds * (1 + self._jitter()) / 2
        back_off = _FIRST_LANDING_BACK_OFF_SECONDS
        while not self._stopping.wait(wait):
            try:
                landed = self._land(self._stopping)
            except Exception as error:  # noqa: BLE001 - no room for a child now, say: the next try must not be lost
                if self._stopping.is_set():
                    return
                self._watcher.failed(self._destination, _words(error))
                wait = min(back_off, self._every_seconds)
                back_off *= 2
            else:
                self._watcher.delivered(self._destination, ticks=landed.landed, refused=landed.refused)
                wait = self._every_seconds
                back_off = _FIRST_LANDING_BACK_OFF_SECONDS
