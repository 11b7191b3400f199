"""The way of ticks that nobody is to have: only their mark is kept, so that idle clocks outlive the agent."""

from __future__ import annotations

from typing import Final

from gpu_usage_audit.agent.outbox import BlobQueue
from gpu_usage_audit.core.errors import UnavailableError
from gpu_usage_audit.core.ports import Mark


class MarkOnly:
    """An :class:`gpu_usage_audit.agent.loop.Outbox` for an agent without destinations. For one thread."""

    waiting: Final = 0
    dropped: Final = 0

    def __init__(self, spool: BlobQueue) -> None:
        self._spool = spool
        self._mark: Mark | None = None
        self._trouble: str | None = None

    @property
    def mark(self) -> Mark | None:
        """The mark of the last tick that was put, stored or not; before that the spool's, ``None`` if it has none."""
        if self._mark is None:
            try:
                self._mark = self._spool.mark()
            except UnavailableError as error:
                self._trouble = str(error)
        return self._mark

    @property
    def trouble(self) -> str | None:
        """Why the last mark was not stored; ``None`` if it was."""
        return self._trouble

    def put(self, ts_ms: int, raw: bytes, mark: Mark) -> None:  # noqa: ARG002 - as every outbox is called
        """Take a tick's mark; never raises for trouble with the disk."""
        self._mark = mark
        try:
            self._spool.append_blobs((), mark)
        except UnavailableError as error:
            self._trouble = str(error)
        else:
            self._trouble = None
