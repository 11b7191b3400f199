"""What is left of a damaged spool, taken over into a new file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from gua.spool.counters import HOLES_TO, LOST, REPAIRS, SALVAGED, UNKNOWN_LOSSES
from gua.spool.pages import Image, Value
from gua.spool.schema import PAGE_BYTES, SCHEMA, VERSION, VERSION_COUNTER, root_pages
from gua.state.compression import is_intact

_LARGEST_ID: Final = 2**53
_LARGEST_LOSS: Final = 10_000_000
_UNSEEN_IDS: Final = 1_000_000
_LONGEST_TICK: Final = 64 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class SalvagedTick:
    """A row of ``ticks``: ``id`` is ``None`` where it cannot be believed, ``blob`` where it is not intact."""

    id: int | None
    ts_ms: int
    raw_length: int
    blob: bytes | None


Refused = tuple[str, int, int, int, bytes, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remains:
    """What could be read; ``None`` is what could not. ``rows`` can be gone through once."""

    destinations: Mapping[str, int] | None = None
    mark: tuple[int, int, str | None] | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    sequence: int | None = None
    rows: Iterable[SalvagedTick | Refused] = ()


@contextmanager
def read_file(path: Path) -> Iterator[Remains]:
    """Yield what the damaged file at ``path`` and its log still hold. Never raises for what they contain."""
    with Image(path) as image:
        roots = root_pages()
        yield Remains(
            destinations=_named(image, roots["destinations"]),
            # A mark that is older than the last tick would make spans overlap; none at all only costs a moment.
            mark=None if image.doubtful else _mark(image, roots["mark"]),
            counters=_named(image, roots["counters"]) or {},
            sequence=None if image.doubtful else _sequence(image, roots["sqlite_sequence"]),
            rows=_rows(image),
        )


def read_connection(database: sqlite3.Connection) -> Remains:
    """Return what an open connection still reads of a spool whose file was removed; stops at the first error."""
    destinations = counters = None
    mark: tuple[int, int, str | None] | None = None
    sequence: int | None = None
    with contextlib.suppress(sqlite3.Error):
        destinations = dict(database.execute("SELECT name, acknowledged_id FROM destinations"))
        counters = dict(database.execute("SELECT name, count FROM counters"))
        mark = database.execute("SELECT ts_ms, monotonic_ms, boot_id FROM mark").fetchone()
        last = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()
        sequence = 0 if last is None else last[0]
    return Remains(
        destinations=destinations,
        mark=mark,
        counters=counters or {},
        sequence=sequence,
        rows=_connection_rows(database),
    )


def build(target: Path, remains: Remains | None) -> None:
    """Write a new spool to ``target``, with what remains of another, and bring it to the disk.

    Raises ``sqlite3.Error`` or ``OSError`` if there is no room or the disk does not take it.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        # Nobody sees the file before it is whole and on the disk.
        for pragma in (f"page_size = {PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF", "temp_store = MEMORY"):
            database.execute(f"PRAGMA {pragma}")
        database.executescript(f"BEGIN; {SCHEMA}")
        if remains is not None:
            _take_over(database, remains)
        database.execute("COMMIT")
        database.execute("PRAGMA journal_mode = WAL")
    sync(target)


def sync(path: Path) -> None:
    """Bring a file or the entries of a folder to the disk. Only for files that no connection of SQLite has open."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_over(database: sqlite3.Connection, remains: Remains) -> None:
    acknowledged = _believable(remains)
    delivered = min(acknowledged.values(), default=0)
    highest = max([remains.sequence or 0, *acknowledged.values()])
    database.execute("CREATE TEMP TABLE late (ts_ms INTEGER, raw_length INTEGER, blob BLOB)")
    for row in remains.rows:
        if isinstance(row, tuple):
            database.execute("INSERT OR IGNORE INTO refused VALUES (?, ?, ?, ?, ?, ?)", row)
            continue
        highest = max(highest, row.id or 0)
        if row.blob is not None and (row.id is None or row.id > delivered):
            _take_tick(database, row)
    accounted = max(delivered, min(remains.counters.get(HOLES_TO, 0), highest))
    missing = highest - accounted - _count(database, f"ticks WHERE id > {accounted:d}")
    if remains.sequence is None:
        # Higher ids may have been given: an acknowledgement under way must not meet another tick under the same id.
        highest = max(highest + _UNSEEN_IDS, time.time_ns() // 1_000_000)
    database.execute("DELETE FROM sqlite_sequence WHERE name = 'ticks'")
    database.execute("INSERT INTO sqlite_sequence VALUES ('ticks', ?)", (highest,))
    late = database.execute(
        "INSERT INTO ticks (ts_ms, raw_length, blob) SELECT ts_ms, raw_length, blob FROM late ORDER BY rowid"
    ).rowcount
    is_known = remains.destinations is not None and remains.sequence is not None and missing <= _LARGEST_LOSS
    database.executemany("INSERT INTO destinations VALUES (?, ?)", acknowledged.items())
    newest = database.execute("SELECT max(ts_ms) FROM ticks").fetchone()[0]
    if remains.mark is not None and remains.mark[0] >= (newest or 0):
        database.execute("INSERT INTO mark VALUES (1, ?, ?, ?)", remains.mark)
    counters = Counter(remains.counters)
    lost = max(0, missing - late) if is_known else 0
    counters.update({SALVAGED: _count(database, "ticks"), LOST: lost, UNKNOWN_LOSSES: int(not is_known), REPAIRS: 1})
    counters |= {HOLES_TO: highest, VERSION_COUNTER: VERSION}
    database.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?)", counters.items())


def _take_tick(database: sqlite3.Connection, tick: SalvagedTick) -> None:
    values = (tick.ts_ms, tick.raw_length, tick.blob)
    if tick.id is not None:
        if database.execute("INSERT OR IGNORE INTO ticks VALUES (?, ?, ?, ?)", (tick.id, *values)).rowcount:
            return
        same = "SELECT 1 FROM ticks WHERE id = ? AND ts_ms = ? AND raw_length = ? AND blob = ?"
        if database.execute(same, (tick.id, *values)).fetchone():
            return  # an older copy of the page
    # Two ticks under one id: one of the ids is damaged. What is delivered twice does no harm, what is left out does.
    database.execute("INSERT INTO late VALUES (?, ?, ?)", values)


def _believable(remains: Remains) -> dict[str, int]:
    """Return the acknowledged ids, 0 for those that no tick can have had: sending again is harmless."""
    limit = _LARGEST_ID if remains.sequence is None else remains.sequence
    return {name: acked if acked <= limit else 0 for name, acked in (remains.destinations or {}).items()}


def _count(database: sqlite3.Connection, rows: str) -> int:
    count: int = database.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]  # noqa: S608 - our own words and numbers
    return count


def _rows(image: Image) -> Iterator[SalvagedTick | Refused]:
    for number in image.numbers():
        rows = image.table_rows(number)
        ids = [row_id for row_id, _ in rows]
        # A page keeps its rows in the order of their ids: otherwise one of them is damaged, and none is believed.
        ordered = all(before < after for before, after in pairwise(ids))
        for row_id, values in rows:
            row = _tick(_id(row_id) if ordered else None, values) or _refused(values)
            if row is not None:
                yield row


def _connection_rows(database: sqlite3.Connection) -> Iterator[SalvagedTick | Refused]:
    with contextlib.suppress(sqlite3.Error):
        for row_id, *values in database.execute("SELECT id, ts_ms, raw_length, blob FROM ticks ORDER BY id"):
            tick = _tick(row_id, [None, *values])
            if tick is not None:
                yield tick
    with contextlib.suppress(sqlite3.Error):
        for values in database.execute("SELECT destination, id, ts_ms, raw_length, blob, reason FROM refused"):
            refused = _refused(values)
            if refused is not None:
                yield refused


def _tick(row_id: int | None, values: Sequence[Value] | None) -> SalvagedTick | None:
    match values:
        case [None, int(ts_ms), int(raw_length), bytes(blob)] if 0 <= raw_length <= _LONGEST_TICK:
            intact = is_intact(blob, raw_length)
            return SalvagedTick(id=row_id, ts_ms=ts_ms, raw_length=raw_length, blob=blob if intact else None)
    return None


def _refused(values: Sequence[Value] | None) -> Refused | None:
    match values:
        case [str(destination), int(number), int(ts_ms), int(raw_length), bytes(blob), str(reason)] if (
            0 <= raw_length <= _LONGEST_TICK and is_intact(blob, raw_length)
        ):
            return destination, number, ts_ms, raw_length, blob, reason
    return None


def _named(image: Image, page: int) -> dict[str, int] | None:
    """Return the names and numbers of a small table; ``None`` if there is none, or not all of it can be read."""
    rows = image.index_rows(page)
    if rows is None:
        return None
    named = {}
    for values in rows:
        match values:
            case [str(name), int(number)] if 0 <= number < _LARGEST_ID:
                named[name] = number
            case _:
                return None
    return named


def _mark(image: Image, page: int) -> tuple[int, int, str | None] | None:
    for _, values in image.table_rows(page):
        match values:
            case [None, int(ts_ms), int(monotonic_ms), str() | None as boot_id]:
                return ts_ms, monotonic_ms, boot_id
    return None


def _sequence(image: Image, page: int) -> int | None:
    for _, values in image.table_rows(page):
        match values:
            case ["ticks", int(number)]:
                return _id(number)
    return None


def _id(number: int) -> int | None:
    return number if 0 <= number < _LARGEST_ID else None
