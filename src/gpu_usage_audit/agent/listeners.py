"""Several watchers told as one what the loop does."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_usage_audit.agent.loop import Watcher
from gpu_usage_audit.core.tick import Tick


class Listeners:
    """Tells each of them, in their order."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:
        """Take note of a tick that was put into the spool."""
        for one in self._watchers:
            one.ticked(tick, lateness_ms=lateness_ms)

    def skipped(self, reason: str, message: str, count: int = 1) -> None:
        """Take note of ticks that were due and could not be made."""
        for one in self._watchers:
            one.skipped(reason, message, count)

    def condition(self, key: str, message: str | None) -> None:
        """Take note of something that stands until it is taken back with ``None``."""
        for one in self._watchers:
            one.condition(key, message)

    def alive(self) -> None:
        """Take note that the loop goes round."""
        for one in self._watchers:
            one.alive()
