"""Many files as one recording: their rows in the order of time, with few files open at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from gua.imports.recorded_file import RecordedFile


class _Timed(Protocol):
    @property
    def ts_ms(self) -> int: ...


R = TypeVar("R", bound=_Timed)
Read = Callable[[RecordedFile], Iterator[R]]


def first_time(source: RecordedFile, read: Read[R]) -> int | None:
    """Return when the file's first row was recorded, ``None`` if it has no rows."""
    first = next(read(source), None)
    return None if first is None else first.ts_ms


def merged(first: Sequence[tuple[int, RecordedFile]], read: Read[R]) -> Iterator[R]:
    """Return the rows of all files by time, those of one file in its own order.

    A file is opened when its first row is due, so daily files need one open file, not one for each day.
    """
    waiting = sorted(first, key=lambda timed: (timed[0], str(timed[1].path)), reverse=True)
    open_files: list[tuple[int, int, R, Iterator[R]]] = []
    opened = 0
    while waiting or open_files:
        if waiting and (not open_files or waiting[-1][0] <= open_files[0][0]):
            rows = read(waiting.pop()[1])
            for row in rows:
                heapq.heappush(open_files, (row.ts_ms, opened, row, rows))
                opened += 1
                break
            continue
        _, order, row, rows = heapq.heappop(open_files)
        yield row
        until = min(
            waiting[-1][0] - 1 if waiting else row.ts_ms + 2**62,
            open_files[0][0] if open_files else row.ts_ms + 2**62,
        )
        for following in rows:
            if following.ts_ms > until:
                heapq.heappush(open_files, (following.ts_ms, order, following, rows))
                break
            yield following
