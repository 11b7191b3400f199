"""Times in recordings: local (``2026/03/25 04:47:19.043``), ISO 8601 with or without offset, or Unix time."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from typing import Final

from gua.core.durations import to_ms
from gua.imports.values import LONGEST_VALUE, Cell, CellError, is_unknown

_STAMP = re.compile(
    r"\s*([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9]{2}:[0-9]{2}):([0-5][0-9])(?:[.,]([0-9]{1,9}))?\s*"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?\s*",
    re.ASCII,
)
_EPOCH = re.compile(r"\s*[0-9]{9,19}(?:\.[0-9]+)?\s*", re.ASCII)
_MAX_MS = to_ms(datetime(2200, 1, 1, tzinfo=UTC))
_MIN_MS = to_ms(datetime(2000, 1, 1, tzinfo=UTC))
_DISORDER_MS: Final = 60_000
_KEPT = 10_000


class Timestamps:
    """The times of one file, in the order of its rows. Rows of one moment follow each other: the last is kept.

    A local time that occurs twice, when the clock is set back in autumn, is the earlier one until the
    rows before it make that impossible.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._minutes: dict[tuple[str, str | None], tuple[int, int]] = {}
        self._cell: Cell = math.nan  # equals nothing, so the first cell is read
        self._last_ms = 0
        self.without_offset = False

    def parse(self, cell: Cell) -> int:
        """Return Unix time in ms, rounded down. Raises CellError."""
        if cell == self._cell:
            return self._last_ms
        earlier, later = self._read(cell)
        twice = later > earlier and earlier < self._last_ms - _DISORDER_MS <= later
        self._last_ms = later if twice else earlier
        self._cell = cell
        return self._last_ms

    def _read(self, cell: Cell) -> tuple[int, int]:
        match = _STAMP.fullmatch(cell) if isinstance(cell, str) and len(cell) <= LONGEST_VALUE else None
        if match is None:
            return self._unix(cell)
        minute, second, fraction, offset = match.groups()
        bounds = self._minutes.get((minute, offset))
        if bounds is None:
            bounds = self._minute(minute, offset)
        within = int(second) * 1000 + int((fraction or "0").ljust(3, "0")[:3])
        return bounds[0] + within, bounds[1] + within

    def _minute(self, minute: str, offset: str | None) -> tuple[int, int]:
        """Return when the minute starts, at the first and at the second time that a clock shows it."""
        try:
            moment = datetime.fromisoformat(minute.replace("/", "-") + (offset or ""))
            if offset is None:
                self.without_offset = True
                moment = moment.replace(tzinfo=self._zone)
            bounds = to_ms(moment), to_ms(moment.replace(fold=1))
        except (ValueError, OverflowError):
            msg = f"timestamp {minute!r} is not a date and time"
            raise CellError(msg) from None
        _check_range(bounds[0])
        # A gap in spring has fold=1 before fold=0; no clock ever showed those times.
        bounds = bounds[0], max(bounds)
        if len(self._minutes) >= _KEPT:
            self._minutes.clear()
        self._minutes[minute, offset] = bounds
        return bounds

    def _unix(self, cell: Cell) -> tuple[int, int]:
        number = cell
        if isinstance(cell, str) and _EPOCH.fullmatch(cell):
            number = float(cell) if "." in cell else int(cell)
        if isinstance(number, bool) or not isinstance(number, int | float):
            shown = "missing" if is_unknown(cell) else repr(cell)
            msg = f"timestamp is {shown}, not a time such as 2026/03/25 04:47:19.043 or 2026-03-25T04:47:19Z"
            raise CellError(msg)
        # Seconds, milli-, micro- or nanoseconds: only one of them lies in this century.
        for per_ms, scale in ((1, 1000), (1, 1), (1000, 1), (1_000_000, 1)):
            if _MIN_MS <= number * scale / per_ms <= _MAX_MS:
                unix_ms = number * scale // per_ms if isinstance(number, int) else int(number * scale / per_ms + 1e-4)
                return unix_ms, unix_ms
        msg = f"timestamp {cell!r} is not a Unix time between the years 2000 and 2200"
        raise CellError(msg)


def _check_range(unix_ms: int) -> None:
    if not _MIN_MS <= unix_ms <= _MAX_MS:
        msg = "timestamp is not between the years 2000 and 2200"
        raise CellError(msg)
