"""How long to leave a driver alone that failed, or that lost a card: 1 s, doubling to 5 minutes."""

from __future__ import annotations

from typing import Final

from gua.core.ports import Clock

_FIRST_MS: Final = 1000
_LONGEST_MS: Final = 300_000


class Backoff:
    """When the next try is due, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait_ms = 0
        self._due_ms = 0

    @property
    def due(self) -> bool:
        """Whether the next try may be made now; the first one may."""
        return self._clock.monotonic_ms() >= self._due_ms

    @property
    def running(self) -> bool:
        """Whether something failed and has not been good since."""
        return self._wait_ms > 0

    def failed(self) -> None:
        """Count a failure: the next try is due after twice the wait of before."""
        self._wait_ms = min(_LONGEST_MS, self._wait_ms * 2 or _FIRST_MS)
        self._due_ms = self._clock.monotonic_ms() + self._wait_ms

    def good(self) -> None:
        """Forget the failures."""
        self._wait_ms = 0
        self._due_ms = 0
