"""The durable queue of ticks: one row a tick, acknowledged by each destination, deleted when all have it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu_usage_audit.core.compression import compress
from gpu_usage_audit.core.ports import Mark, SpooledTick
from gpu_usage_audit.spool.database import open_database, translated

DEFAULT_MAX_BYTES = 512 * 2**20
_DROPPED = "dropped"
_REFUSED = "refused:"
_CAP_CHECK_EVERY = 64


class Spool:
    """The spool file at ``path``; usable from several threads of one process.

    ``destinations`` are all that must acknowledge a tick before it is deleted; a destination that is new gets
    every tick still here, one that is no longer named is forgotten. Above ``max_bytes`` (``None``: no limit)
    of stored data the refused blobs go first, then the oldest ticks, counted in :meth:`dropped`. A damaged
    file is set aside on opening, see :attr:`set_aside`.

    Every method raises :class:`UnavailableError` if the file cannot be used (disk full, locked, damaged).
    """

    def __init__(
        self,
        path: Path,
        *,
        destinations: Sequence[str] = ("store",),
        max_bytes: int | None = DEFAULT_MAX_BYTES,
    ) -> None:
        if not destinations:
            msg = "a spool needs a destination, or nothing would ever leave it"
            raise ValueError(msg)
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._database, self._set_aside = open_database(path)
        try:
            self._name_destinations(destinations)
        except BaseException:
            self._database.close()
            raise

    @property
    def set_aside(self) -> Path | None:
        """Where the damaged file went that was found on opening; ``None`` if the file was sound."""
        return self._set_aside

    def append(self, ts_ms: int, raw: bytes, mark: Mark | None = None) -> None:
        """Store one encoded tick, and the mark with it, in one transaction that has reached the disk on return."""
        blob = compress(raw)
        with self._transaction() as database:
            _insert(database, ts_ms, raw, blob)
            if mark is not None:
                database.execute(
                    "INSERT OR REPLACE INTO mark VALUES (1, ?, ?, ?)",
                    (mark.ts_ms, mark.monotonic_ms, mark.boot_id),
                )
            self._enforce_cap()

    def extend(self, ticks: Iterable[tuple[int, bytes]]) -> int:
        """Store many encoded ticks (time in ms, request) in one transaction, all or none; return how many."""
        count = 0
        with self._transaction() as database:
            for count, (ts_ms, raw) in enumerate(ticks, start=1):
                _insert(database, ts_ms, raw, compress(raw))
                if count % _CAP_CHECK_EVERY == 0:
                    self._enforce_cap()
            self._enforce_cap()
        return count

    def mark(self) -> Mark | None:
        """Return the mark of the last tick that was appended with one."""
        with self._locked() as database:
            row = database.execute("SELECT ts_ms, monotonic_ms, boot_id FROM mark").fetchone()
        return None if row is None else Mark(ts_ms=row[0], monotonic_ms=row[1], boot_id=row[2])

    def drop_mark(self) -> None:
        """Forget the mark: the clock was set back so far that it says nothing any more."""
        with self._transaction() as database:
            database.execute("DELETE FROM mark")

    def peek(self, destination: str, limit: int, *, after: int = 0) -> list[SpooledTick]:
        """Return up to ``limit`` of the oldest ticks that ``destination`` has not acknowledged, after id ``after``."""
        with self._locked() as database:
            rows = database.execute(
                "SELECT id, ts_ms, raw_length, blob FROM ticks WHERE id > ? ORDER BY id LIMIT ?",
                (max(after, self._acknowledged(destination)), limit),
            ).fetchall()
        return [SpooledTick(id=row[0], ts_ms=row[1], raw_length=row[2], blob=row[3]) for row in rows]

    def acknowledge(self, destination: str, up_to_id: int) -> None:
        """Note that ``destination`` has every tick up to that id; delete those that all destinations have."""
        with self._transaction() as database:
            if up_to_id > self._acknowledged(destination):
                database.execute("UPDATE destinations SET acknowledged_id = ? WHERE name = ?", (up_to_id, destination))
                self._delete_acknowledged()

    def refuse(self, destination: str, ticks: Sequence[SpooledTick], reason: str) -> None:
        """Keep ticks that ``destination`` refused for good, and count them; acknowledging them is another call.

        A tick that is refused again, after a restart before it was acknowledged, is counted once.
        """
        with self._transaction() as database:
            new = sum(
                database.execute(
                    "INSERT OR IGNORE INTO refused VALUES (?, ?, ?, ?, ?, ?)",
                    (destination, tick.id, tick.ts_ms, tick.raw_length, tick.blob, reason),
                ).rowcount
                for tick in ticks
            )
            self._count(_REFUSED + destination, new)

    def refused(self, destination: str) -> list[tuple[SpooledTick, str]]:
        """Return the refused ticks still kept, oldest first, each with the reason."""
        with self._locked() as database:
            rows = database.execute(
                "SELECT id, ts_ms, raw_length, blob, reason FROM refused WHERE destination = ? ORDER BY id",
                (destination,),
            ).fetchall()
        return [(SpooledTick(id=row[0], ts_ms=row[1], raw_length=row[2], blob=row[3]), row[4]) for row in rows]

    def refused_count(self, destination: str) -> int:
        """Return how many ticks ``destination`` has refused since the spool was made."""
        return self._counter(_REFUSED + destination)

    def dropped(self) -> int:
        """Return how many ticks were dropped, undelivered, to stay below the size cap since the spool was made."""
        return self._counter(_DROPPED)

    def depth(self, destination: str) -> int:
        """Return how many ticks wait for ``destination``."""
        with self._locked() as database:
            count: int = database.execute(
                "SELECT count(*) FROM ticks WHERE id > ?", (self._acknowledged(destination),)
            ).fetchone()[0]
        return count

    def size_bytes(self) -> int:
        """Return the bytes that the spool takes on the disk, its write-ahead log included."""
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated(self._path):
            yield self._database

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._locked() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already.
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _name_destinations(self, destinations: Sequence[str]) -> None:
        with self._transaction() as database:
            database.executemany("INSERT OR IGNORE INTO destinations VALUES (?, 0)", [(name,) for name in destinations])
            known = [row[0] for row in database.execute("SELECT name FROM destinations")]
            database.executemany(
                "DELETE FROM destinations WHERE name = ?", [(name,) for name in known if name not in destinations]
            )
            self._delete_acknowledged()

    def _acknowledged(self, destination: str) -> int:
        row = self._database.execute(
            "SELECT acknowledged_id FROM destinations WHERE name = ?", (destination,)
        ).fetchone()
        if row is None:
            msg = f"{destination!r} is no destination of this spool"
            raise ValueError(msg)
        acknowledged: int = row[0]
        return acknowledged

    def _delete_acknowledged(self) -> None:
        self._database.execute("DELETE FROM ticks WHERE id <= (SELECT min(acknowledged_id) FROM destinations)")

    def _counter(self, name: str) -> int:
        with self._locked() as database:
            row = database.execute("SELECT count FROM counters WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def _count(self, name: str, more: int) -> None:
        self._database.execute(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
            (name, more),
        )

    def _enforce_cap(self) -> None:
        if self._max_bytes is None:
            return
        dropped = 0
        while self._stored_bytes() > self._max_bytes:
            if self._database.execute(
                "DELETE FROM refused WHERE rowid = (SELECT rowid FROM refused ORDER BY id LIMIT 1)"
            ).rowcount:
                continue
            gone = self._database.execute(
                "DELETE FROM ticks WHERE id = (SELECT min(id) FROM ticks) AND id < (SELECT max(id) FROM ticks)"
            ).rowcount
            if not gone:
                break  # the newest tick is kept however small the cap
            dropped += gone
        if dropped:
            self._count(_DROPPED, dropped)

    def _stored_bytes(self) -> int:
        # Pages in use: SQLite keeps the pages of deleted rows for the next ones and does not shrink the file.
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        stored: int = (pages - free) * size
        return stored


def _insert(database: sqlite3.Connection, ts_ms: int, raw: bytes, blob: bytes) -> None:
    database.execute("INSERT INTO ticks (ts_ms, raw_length, blob) VALUES (?, ?, ?)", (ts_ms, len(raw), blob))
