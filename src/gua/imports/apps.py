"""The processes of ``--query-compute-apps`` beside the cards: the list that was taken nearest to a card's row."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from gua.core.errors import DataError
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.imports.rows import AppRow

# One run of nvidia-smi stamps the rows of a card within a few milliseconds; its fastest loop takes longer.
_ONE_RUN_MS = 200


@dataclass(slots=True)
class _List:
    """What one run of nvidia-smi listed for one card."""

    ts_ms: int
    rows: dict[int, AppRow] = field(default_factory=dict)


class ProcessLists:
    """The process lists of all cards, asked for in the order of time; only those near the time asked for are kept."""

    def __init__(self, rows: Iterator[AppRow], interval_ms: int, ignored: frozenset[str]) -> None:
        self._rows = rows
        self._ignored = ignored
        self._interval_ms = interval_ms
        self._ahead: AppRow | None = next(rows, None)
        self._lists: defaultdict[str, deque[_List]] = defaultdict(deque)

    def at(self, uuid: str, ts_ms: int) -> tuple[ProcessReading, ...] | None:
        """Return the card's processes at this time, ``None`` if no list of it lies within half an interval."""
        half_ms = self._interval_ms // 2
        while self._ahead is not None and self._ahead.ts_ms <= ts_ms + half_ms + _ONE_RUN_MS:
            self._add(self._ahead, oldest_ms=ts_ms - half_ms)
            self._ahead = next(self._rows, None)
        nearest = min(
            (taken for taken in self._lists.get(uuid, ()) if abs(taken.ts_ms - ts_ms) * 2 <= self._interval_ms),
            key=lambda taken: abs(taken.ts_ms - ts_ms),
            default=None,
        )
        return None if nearest is None else tuple(self._process(row) for row in nearest.rows.values())

    def _add(self, row: AppRow, *, oldest_ms: int) -> None:
        lists = self._lists[row.uuid]
        while lists and lists[0].ts_ms < oldest_ms:
            lists.popleft()
        # A pid that comes again belongs to the next run, however soon that follows.
        if not lists or row.pid in lists[-1].rows or row.ts_ms - lists[-1].ts_ms > _ONE_RUN_MS:
            lists.append(_List(ts_ms=row.ts_ms))
        lists[-1].rows[row.pid] = row

    def _process(self, row: AppRow) -> ProcessReading:
        return ProcessReading(
            pid=row.pid,
            type=ProcessType.IGNORED if row.program in self._ignored else ProcessType.COMPUTE,
            comm=row.program,
            memory_bytes=row.memory_bytes,
        )


def check_order(rows: Iterator[AppRow]) -> None:
    """Read the rows once. Raises DataError if a time goes back."""
    last_ms = 0
    for row in rows:
        if row.ts_ms < last_ms:
            msg = f"{row.source.where}: the time goes back: sort the rows by time"
            raise DataError(msg)
        last_ms = row.ts_ms
