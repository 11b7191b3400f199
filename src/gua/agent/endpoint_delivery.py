"""Sends what the spool holds to an endpoint, in a thread of its own: oldest first, and for as long as it takes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol

from gua.agent.delivery import Queue, drain
from gua.core.errors import GuaError, TransientError
from gua.core.ports import Landing

BATCH_TICKS: Final = 60
CATCH_UP_TICKS_PER_SECOND: Final = 120
_FIRST_BACK_OFF_SECONDS: Final = 1.0
_LONGEST_BACK_OFF_SECONDS: Final = 60.0
# A server may ask for any time; what it asked an hour ago is stale.
_LONGEST_RETRY_AFTER_SECONDS: Final = 600.0


class Delivered(Protocol):
    """Who is told how the delivery goes."""

    def delivered(self, destination: str, *, ticks: int, refused: int = 0) -> None:
        """Take note of ticks that arrived, and of how many were refused for good."""
        ...

    def failed(self, destination: str, message: str) -> None:
        """Take note that nothing arrives at present, and why."""
        ...


class _StoppingError(Exception):
    """The agent is to stop: the batch that arrived is acknowledged, the rest stays in the spool."""


class DeliveryThread:
    """A thread that takes ticks from the spool to one destination until :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def run(self) -> None:
        """Deliver until stopped."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; what is not delivered stays in the spool."""
        self._stop.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end of the thread; return whether it came."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()


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
        queue: Callable[[], AbstractContextManager[Queue]],
        landing: Callable[[], AbstractContextManager[Landing]],
        watcher: Delivered,
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
        while not self._stop.is_set():
            try:
                with self._queue() as queue, self._landing() as landing:
                    while not self._stop.is_set():
                        self._wake.clear()
                        self._batch_began = self._monotonic()
                        drain(
                            queue,
                            self._destination,
                            landing,
                            batch_ticks=BATCH_TICKS,
                            on_batch=self._after_batch,
                        )
                        back_off = _FIRST_BACK_OFF_SECONDS
                        self._wake.wait()
            except _StoppingError:
                return
            except GuaError as error:
                self._watcher.failed(self._destination, str(error))
                asked = error.retry_after_seconds if isinstance(error, TransientError) else None
            except Exception as error:  # noqa: BLE001 - a fault in a library must not end the delivery of an agent
                self._watcher.failed(self._destination, f"unexpected {type(error).__name__}: {error}")
                asked = None
            else:
                return
            wait = max(back_off * self._jitter(), min(asked or 0.0, _LONGEST_RETRY_AFTER_SECONDS))
            self._stop.wait(wait)
            back_off = min(back_off * 2, _LONGEST_BACK_OFF_SECONDS)

    def _after_batch(self, ticks: int, refused: int) -> None:
        self._watcher.delivered(self._destination, ticks=ticks, refused=refused)
        due = self._batch_began + ticks / self._ticks_per_second
        if self._stop.wait(max(0.0, due - self._monotonic())):
            raise _StoppingError
        self._batch_began = self._monotonic()
