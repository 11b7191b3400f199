"""How long requests for cards wait: all of them together, and at least one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gua.core.allocation import QueueWaits


@dataclass(slots=True)
class WaitMeter:
    """Adds up waiting between looks, whatever came and went meanwhile; to be used under the lock of the queue.

    ``now_ms`` is a clock that nobody sets, in ms.
    """

    now_ms: Callable[[], int]
    _waiting: int = 0
    _since_ms: int | None = None
    _wait_ms: int = 0
    _waited_ms: int = 0

    def note(self, waiting: int) -> None:
        """Take note that so many requests wait from now on."""
        now_ms = self.now_ms()
        if self._since_ms is not None and self._waiting:
            passed_ms = max(0, now_ms - self._since_ms)
            self._wait_ms += self._waiting * passed_ms
            self._waited_ms += passed_ms
        self._waiting, self._since_ms = waiting, now_ms

    def take(self) -> QueueWaits:
        """Return what was waited since it was taken last, and begin anew."""
        self.note(self._waiting)
        taken = QueueWaits(waiting=self._waiting, wait_ms=self._wait_ms, waited_ms=self._waited_ms)
        self._wait_ms = self._waited_ms = 0
        return taken
