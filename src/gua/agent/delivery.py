"""At-least-once delivery of spooled ticks: to endpoints immediately, into a store every hour by a child process.

Each destination has its own thread, so that neither a slow endpoint nor a slow import delays the sampling.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
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
# Upper limit for a server's Retry-After: after a long wait that request is stale.
_LONGEST_RETRY_AFTER_SECONDS: Final = 600.0
EVERY_SECONDS: Final = 3600.0
_FIRST_LANDING_BACK_OFF_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """Number of delivered ticks, and of permanently refused ones (they stay in the spool's ``refused``)."""

    landed: int = 0
    refused: int = 0


def drain(  # noqa: PLR0913 - the three components of delivery, and options for callers
    queue: Spool,
    destination: str,
    landing: Landing,
    *,
    batch_ticks: int = BATCH_TICKS,
    on_batch: Callable[[int, int], object] = lambda *_: None,
    flush: Callable[[], object] = lambda: None,
) -> DrainResult:
    """Deliver all ticks that wait for ``destination``, oldest first, and return the counts.

    A batch is acknowledged only after the next one has landed, the last one after ``flush``. A store that accepted an
    insert has not necessarily written it to disk, so ticks stay in the spool one batch longer. Duplicates after a crash
    have no effect, because storage is idempotent. ``flush`` makes landed ticks durable. ``on_batch`` is called after
    each batch with the numbers of delivered and of refused ticks.

    Any exception from the landing ends the drain and is raised again, after ``flush`` and the acknowledgement of
    landed batches. The failed batch stays in the spool.
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
    """The agent is stopping: the delivered batch is acknowledged, the rest stays in the spool."""


class DeliveryThread(threading.Thread):
    """A thread that delivers ticks from the spool to one destination until :meth:`stop`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make the thread end soon; undelivered ticks stay in the spool."""
        self._stopping.set()


@dataclass(eq=False, repr=False)
class Sender(DeliveryThread):
    """A thread that sends ticks to one endpoint until :meth:`stop`.

    ``queue`` and ``landing`` are opened in the sender's own thread, and again after each failure, so that the sampling
    never waits for a slow endpoint. After a failure it waits up to 1 s, doubling to 60 s ("full jitter"), or as long
    as the endpoint requested. A backlog after an outage is sent with at most ``CATCH_UP_TICKS_PER_SECOND``, so that a
    recovering fleet does not overload the Collector.
    """

    destination: str
    _: KW_ONLY
    queue: Callable[[], AbstractContextManager[Spool]]
    landing: Callable[[], AbstractContextManager[Landing]]
    watcher: AgentEvents
    ticks_per_second: float = CATCH_UP_TICKS_PER_SECOND
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        super().__init__(f"send to {self.destination}")
        self._wake = threading.Event()
        self._batch_began = 0.0

    def wake(self) -> None:
        """Signal that a tick was spooled."""
        self._wake.set()

    def stop(self) -> None:
        """Make the thread end after the current request."""
        super().stop()
        self._wake.set()

    def run(self) -> None:
        """Deliver until stopped."""
        back_off = _FIRST_BACK_OFF_SECONDS
        while not self._stopping.is_set():
            try:
                with self.queue() as queue, self.landing() as landing:
                    while not self._stopping.is_set():
                        self._wake.clear()
                        self._batch_began = time.monotonic()
                        drain(
                            queue,
                            self.destination,
                            landing,
                            batch_ticks=ENDPOINT_BATCH_TICKS,
                            on_batch=self._after_batch,
                        )
                        back_off = _FIRST_BACK_OFF_SECONDS
                        self._wake.wait()
            except _StoppingError:
                return
            except Exception as error:  # noqa: BLE001 - an error in a library must not end the delivery of an agent
                self.watcher.failed(self.destination, _message(error))
                retry_after = error.retry_after_seconds if isinstance(error, TransientError) else None
            else:
                return
            wait = max(back_off * self.jitter(), min(retry_after or 0.0, _LONGEST_RETRY_AFTER_SECONDS))
            self._stopping.wait(wait)
            back_off = min(back_off * 2, _LONGEST_BACK_OFF_SECONDS)

    def _after_batch(self, ticks: int, refused: int) -> None:
        self.watcher.delivered(self.destination, ticks=ticks, refused=refused)
        due = self._batch_began + ticks / self.ticks_per_second
        if self._stopping.wait(max(0.0, due - time.monotonic())):
            raise _StoppingError
        self._batch_began = time.monotonic()


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, GuaError) else f"unexpected {type(error).__name__}: {error}"


@dataclass(eq=False, repr=False)
class PeriodicLanding(DeliveryThread):
    """A thread that calls ``land`` hourly until :meth:`stop`. It retries after a minute, doubling up to an hour.

    ``land(stopping)`` runs the child process, ends it when ``stopping`` is set, and raises GuaError on failure.
    The first landing is at a random time in the second half of the first hour: a new agent has nothing to land, and
    hosts that started together must not land together.
    """

    destination: str
    _: KW_ONLY
    land: Callable[[threading.Event], DrainResult]
    watcher: AgentEvents
    every_seconds: float = EVERY_SECONDS
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        super().__init__(f"land into {self.destination}")

    def run(self) -> None:
        """Land until stopped."""
        wait = self.every_seconds * (1 + self.jitter()) / 2
        back_off = _FIRST_LANDING_BACK_OFF_SECONDS
        while not self._stopping.wait(wait):
            try:
                landed = self.land(self._stopping)
            except Exception as error:  # noqa: BLE001 - such as no memory for a child process; it is tried again
                if self._stopping.is_set():
                    return
                self.watcher.failed(self.destination, _message(error))
                wait = min(back_off, self.every_seconds)
                back_off *= 2
            else:
                self.watcher.delivered(self.destination, ticks=landed.landed, refused=landed.refused)
                wait = self.every_seconds
                back_off = _FIRST_LANDING_BACK_OFF_SECONDS
