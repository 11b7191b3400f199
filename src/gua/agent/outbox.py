"""Buffer between the loop and the spool: holds ticks in memory, in order, while the disk rejects them."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.spool.queue import Spool
from gua.state.compression import compress

_AT_ONCE: Final = 16


class Outbox:
    """Queue before the spool. Ticks that the spool cannot store wait in memory and are stored later, oldest first.

    ``waiting`` is the number of queued ticks. ``dropped`` counts ticks dropped from the queue since the start: above
    ``max_ticks`` or ``max_bytes`` (compressed) the oldest are dropped, except the newest. ``trouble`` is why the last
    write to the spool failed, ``None`` if it succeeded. Without ``keeps_ticks`` (no destinations) the spool stores only
    the last mark. Use it from one thread only.
    """

    def __init__(
        self, spool: Spool, *, keeps_ticks: bool = True, max_ticks: int = 256, max_bytes: int = 4 * 2**20
    ) -> None:
        self._spool = spool
        self.keeps_ticks = keeps_ticks
        self._max_ticks = max_ticks
        self._max_bytes = max_bytes
        self._mark: Mark | None = None
        self._queue: deque[tuple[tuple[int, int, bytes], Mark | None]] = deque()
        self._bytes = 0
        self.trouble: str | None = None
        self.waiting = 0
        self.dropped = 0

    @property
    def mark(self) -> Mark | None:
        """The mark of the last tick, stored or not; before the first one the spool's, ``None`` without one."""
        if self._mark is None:
            try:
                self._mark = self._spool.mark()
            except UnavailableError as error:
                self.trouble = str(error)
        return self._mark

    def put(self, ts_ms: int, raw: bytes, mark: Mark | None = None) -> None:
        """Queue and store one encoded tick. Never raises for disk errors."""
        self._mark = mark or self._mark
        if not self.keeps_ticks:
            self._store((), mark)
            return
        blob = compress(raw)
        self._queue.append(((ts_ms, len(raw), blob), mark))
        self._bytes += len(blob)
        self.waiting += 1
        self.flush()
        while self.waiting > 1 and (self.waiting > self._max_ticks or self._bytes > self._max_bytes):
            self._forget(1)
            self.dropped += 1

    def flush(self) -> None:
        """Retry to store queued ticks. Never raises for disk errors."""
        while self._queue:
            some = list(islice(self._queue, _AT_ONCE))
            marks = [mark for _, mark in some if mark is not None]
            if not self._store([tick for tick, _ in some], marks[-1] if marks else None):
                return
            self._forget(len(some))

    def _store(self, ticks: Sequence[tuple[int, int, bytes]], mark: Mark | None) -> bool:
        """Store ticks and the last one's mark; return whether the spool accepted them."""
        try:
            self._spool.append_blobs(ticks, mark)
        except UnavailableError as error:
            self.trouble = str(error)
            return False
        self.trouble = None
        return True

    def _forget(self, ticks: int) -> None:
        for _ in range(ticks):
            (_, _, blob), _ = self._queue.popleft()
            self._bytes -= len(blob)
        self.waiting -= ticks
