"""Between the loop and the spool: keeps ticks in memory, in order, while the disk does not take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.state.compression import compress

_AT_ONCE: Final = 16


class BlobQueue(Protocol):
    """The spool as the outbox sees it."""

    def append_blobs(self, ticks: Sequence[tuple[int, int, bytes]], mark: Mark | None = None) -> None:
        """Store (time in ms, raw length, compressed tick) in order and the last one's mark, all or none."""
        ...

    def mark(self) -> Mark | None:
        """Return the mark of the last tick that was stored with one."""
        ...


class MarkOnly:
    """The outbox of an agent without destinations: it keeps no tick, the spool only holds the last one's mark.

    For one thread.
    """

    def __init__(self, spool: BlobQueue) -> None:
        self._spool = spool
        self._trouble: str | None = None
        self._mark: Mark | None = None

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
    def waiting(self) -> int:
        """How many ticks wait in memory."""
        return 0

    @property
    def dropped(self) -> int:
        """How many ticks were dropped from memory since the start."""
        return 0

    @property
    def trouble(self) -> str | None:
        """Why the spool did not take what was put last; ``None`` if it did."""
        return self._trouble

    def put(self, ts_ms: int, raw: bytes, mark: Mark | None = None) -> None:  # noqa: ARG002 - a tick is not kept here
        """Take one encoded tick; never raises for trouble with the disk."""
        self._mark = mark
        self._store((), mark)

    def _store(self, ticks: Sequence[tuple[int, int, bytes]], mark: Mark | None) -> bool:
        """Store ticks and the last one's mark; return whether the spool took them."""
        try:
            self._spool.append_blobs(ticks, mark)
        except UnavailableError as error:
            self._trouble = str(error)
            return False
        self._trouble = None
        return True


class Outbox(MarkOnly):
    """Takes every tick. What the spool cannot take waits here and goes, oldest first, as soon as it can.

    Above ``max_ticks`` or ``max_bytes`` (compressed) the oldest that wait are dropped and counted; the newest stays.
    For one thread.
    """

    def __init__(self, spool: BlobQueue, *, max_ticks: int = 256, max_bytes: int = 4 * 2**20) -> None:
        super().__init__(spool)
        self._max_ticks = max_ticks
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[tuple[int, int, bytes], Mark | None]] = deque()
        self._bytes = 0
        self._dropped = 0

    @property
    def waiting(self) -> int:
        """How many ticks wait in memory."""
        return len(self._waiting)

    @property
    def dropped(self) -> int:
        """How many ticks were dropped from memory since the start."""
        return self._dropped

    def put(self, ts_ms: int, raw: bytes, mark: Mark | None = None) -> None:
        """Take one encoded tick; never raises for trouble with the disk."""
        blob = compress(raw)
        self._waiting.append(((ts_ms, len(raw), blob), mark))
        self._bytes += len(blob)
        if mark is not None:
            self._mark = mark
        self.flush()
        while len(self._waiting) > 1 and (len(self._waiting) > self._max_ticks or self._bytes > self._max_bytes):
            self._forget(1)
            self._dropped += 1

    def flush(self) -> None:
        """Try again to store what waits; never raises for trouble with the disk."""
        while self._waiting:
            some = list(islice(self._waiting, _AT_ONCE))
            marks = [mark for _, mark in some if mark is not None]
            if not self._store([tick for tick, _ in some], marks[-1] if marks else None):
                return
            self._forget(len(some))

    def _forget(self, ticks: int) -> None:
        for _ in range(ticks):
            (_, _, blob), _ = self._waiting.popleft()
            self._bytes -= len(blob)
