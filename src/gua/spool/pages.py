"""SQLite's pages, read without SQLite: every row of every leaf page that can still be made out.

https://www.sqlite.org/fileformat.html#b_tree_pages
Nothing here trusts the file: not its header, its trees, its lengths or its links.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gua.spool import wal
from gua.spool.schema import PAGE_BYTES

_TABLE_LEAF: Final = 0x0D
_INDEX_LEAF: Final = 0x0A
_TABLE_LOCAL: Final = PAGE_BYTES - 35
_INDEX_LOCAL: Final = (PAGE_BYTES - 12) * 64 // 255 - 23
_LEAST_LOCAL: Final = (PAGE_BYTES - 12) * 32 // 255 - 23
_LONGEST_PAYLOAD: Final = 64 * 2**20
_INTEGER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)

Value = int | float | str | bytes | None


class Image:
    """The pages of a database file, with those that its write-ahead log holds in their place.

    ``path`` need not exist. Memory is bounded by one row; pages that the disk does not give are missing.
    ``doubtful`` tells whether pages may be older than they should, since a part of the log is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._main = _opened(path)
        self._log = _opened(path.with_name(path.name + "-wal"))
        self._logged, self.doubtful = ({}, False) if self._log is None else wal.committed_pages(self._log)
        self._whole = 0 if self._main is None else os.fstat(self._main).st_size // PAGE_BYTES
        # Damaged links may lead every row over the same pages: so many are followed, and no more.
        self._links_left = 4 * (self._whole + len(self._logged))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._main, self._log):
            if descriptor is not None:
                os.close(descriptor)

    def numbers(self) -> Iterator[int]:
        """Yield the number of each page that there is."""
        yield from range(1, self._whole + 1)
        yield from sorted(number for number in self._logged if number > self._whole)

    def page(self, number: int) -> bytes:
        """Return page ``number``, from 1; empty if it is not there or cannot be read."""
        offset = self._logged.get(number)
        descriptor = self._main if offset is None else self._log
        if offset is None:
            offset = (number - 1) * PAGE_BYTES
        if descriptor is None or number < 1:
            return b""
        try:
            data = os.pread(descriptor, PAGE_BYTES, offset)
        except (OSError, OverflowError):
            return b""
        return data if len(data) == PAGE_BYTES else b""

    def table_rows(self, number: int) -> list[tuple[int, list[Value] | None]]:
        """Return (row id, values) of each row on that page, values ``None`` where they cannot be read.

        The column that is the row id itself reads as ``None``. Nothing if the page is no leaf of a table.
        """
        page = self.page(number)
        rows: list[tuple[int, list[Value] | None]] = []
        for at in _cells(page, _TABLE_LEAF):
            try:
                length, at_id = _varint(page, at)
                row_id, start = _varint(page, at_id)
            except IndexError:
                continue
            values = None
            with contextlib.suppress(ValueError, IndexError):
                values = _record(self._payload(page, start, length))
            rows.append((row_id - 2**64 if row_id >= 2**63 else row_id, values))
        return rows

    def index_rows(self, number: int) -> list[list[Value]] | None:
        """Return the rows on that page; ``None`` if it is no leaf of an index, or not all of them can be read."""
        page = self.page(number)
        if not page or page[0] != _INDEX_LEAF:
            return None
        rows = []
        for at in _cells(page, _INDEX_LEAF):
            try:
                length, start = _varint(page, at)
                rows.append(_record(page[start : start + min(length, _INDEX_LOCAL)]))
            except (ValueError, IndexError):
                return None
        return rows if len(rows) == int.from_bytes(page[3:5]) else None

    def _payload(self, page: bytes, start: int, length: int) -> bytes:
        local = _local_bytes(length)
        if length > _LONGEST_PAYLOAD or start + local > PAGE_BYTES:
            msg = "a row is longer than can be"
            raise ValueError(msg)
        parts = [page[start : start + local]]
        missing = length - local
        link = int.from_bytes(page[start + local : start + local + 4]) if missing else 0
        while missing > 0:
            overflow = self.page(link) if self._links_left > 0 else b""
            if not overflow:
                msg = "a row's end is gone"
                raise ValueError(msg)
            self._links_left -= 1
            parts.append(overflow[4 : 4 + missing])
            missing -= PAGE_BYTES - 4
            link = int.from_bytes(overflow[:4])
        return b"".join(parts)


def tick_ids(page: bytes) -> list[int]:
    """Return the ids of the ticks on a page, by the fronts of its rows alone; nothing if it holds no ticks."""
    ids = []
    for at in _cells(page, _TABLE_LEAF):
        with contextlib.suppress(IndexError):
            row_id, start = _varint(page, _varint(page, at)[1])
            if page[_varint(page, start)[1]] == 0:  # the first column is the row id itself, and stands as NULL
                ids.append(row_id)
    return ids


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _cells(page: bytes, kind: int) -> Iterator[int]:
    if not page or page[0] != kind:
        return
    for number in range(min(int.from_bytes(page[3:5]), (PAGE_BYTES - 8) // 2)):
        at = int.from_bytes(page[8 + 2 * number : 10 + 2 * number])
        if 8 <= at < PAGE_BYTES:
            yield at


def _local_bytes(length: int) -> int:
    if length <= _TABLE_LOCAL:
        return length
    local = _LEAST_LOCAL + (length - _LEAST_LOCAL) % (PAGE_BYTES - 4)
    return local if local <= _TABLE_LOCAL else _LEAST_LOCAL


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at ``at`` and where it ends. Raises IndexError at the end of the data."""
    value = 0
    for end in range(at, at + 8):
        byte = data[end]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, end + 1
    return value << 8 | data[at + 8], at + 9


def _record(payload: bytes) -> list[Value]:
    """Return the values of one record. Raises ValueError or IndexError where it is none."""
    body, at = _varint(payload, 0)
    end = body
    values: list[Value] = []
    while at < end:
        kind, at = _varint(payload, at)
        size = _size(kind)
        if body + size > len(payload):
            msg = "a value reaches beyond its record"
            raise ValueError(msg)
        values.append(_value(kind, payload[body : body + size]))
        body += size
    return values


def _size(kind: int) -> int:
    if kind < len(_INTEGER_BYTES):
        return _INTEGER_BYTES[kind]
    if kind == 7:
        return 8
    return (kind - 12) // 2 if kind >= 12 else 0


def _value(kind: int, data: bytes) -> Value:
    if kind == 0:
        return None
    if kind < len(_INTEGER_BYTES):
        return int.from_bytes(data, signed=True)
    if kind in (8, 9):
        return kind - 8
    if kind >= 12:
        return data if kind % 2 == 0 else data.decode()
    msg = "a kind of value that the spool does not write"
    raise ValueError(msg)
