"""The durable queue: one row per tick, acknowledged by each destination, deleted when all have it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from gua.core.ports import Mark, SpooledTick
from gua.spool.database import Database
from gua.spool.schema import (
    DELIVERED,
    DELIVERED_MS,
    DROPPED,
    REFUSED,
    REPAIRS,
    UNKNOWN_LOSSES,
    DamagedError,
    add,
    pragma,
)
from gua.spool.stats import SpoolStats, acknowledged, depth, stats
from gua.state.compression import compress, decompress

if TYPE_CHECKING:
    from gua.core.idleness import IdleCounter, IdleCounters, Key

DEFAULT_MAX_BYTES: Final = 512 * 2**20
_SHRUNK_FREE_BYTES: Final = 16 * 2**20
_SHRUNK_USED_BYTES: Final = 4 * 2**20
"""Rewriting this much takes some 0.01 s: ticks are not noticeably delayed."""
_BUSY_MS: Final = 50
_WAIT_MS: Final = 5_000

Blob = tuple[int, int, bytes]
"""Time [Unix ms], length of the encoded tick [bytes], and the compressed tick."""


@dataclass(eq=False)
class Spool:
    """The spool file at ``path``, for use by several threads, objects and processes at a time; one thread appends.

    A tick is deleted after all ``destinations`` acknowledged it. A new destination gets every tick still stored; one
    that is no longer listed is forgotten. ``None`` takes the destinations in the file, for a helper that delivers to
    one of them. ``max_bytes`` limits the stored data (``None``: no limit). Refused blobs are deleted first, then the
    oldest ticks, counted in :meth:`stats`.

    A damaged file, on opening or later, is set aside (:attr:`set_aside`) and replaced by a new one, counted in
    :meth:`stats`. A removed file is restored from an open connection.

    Every method raises :class:`UnavailableError` if the file is unusable (disk full, locked, no permission), and its
    subclass TransientError if another process blocks it for more than 5 s.
    """

    path: Path
    _: KW_ONLY
    destinations: Sequence[str] | None = ("store",)
    max_bytes: int | None = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        if self.destinations is not None and not self.destinations:
            raise ValueError("a spool needs a destination, or nothing would ever leave it")
        self._files = (self.path, self.path.with_name(self.path.name + "-wal"))
        self._named = set(self.destinations or ())
        self._newest_id = 0
        self._database = Database(self.path, prepare=self._name_destinations)
        try:
            self._forget_destinations()
        except BaseException:
            self._database.close()
            raise

    @property
    def set_aside(self) -> Path | None:
        """New path of the last damaged file that this object set aside; ``None`` if none."""
        return self._database.set_aside

    def append(self, ts_ms: int, raw: bytes, mark: Mark | None = None) -> None:
        """Store one encoded tick, and its mark, in one transaction; returns after it has reached the disk."""
        self.append_blobs([(ts_ms, len(raw), compress(raw))], mark)

    def append_blobs(self, ticks: Sequence[Blob], mark: Mark | None = None) -> None:
        """Store compressed ticks in order, and the last one's mark, in one transaction that reaches the disk."""

        def work(database: sqlite3.Connection) -> int:
            if _newest_id(database) < self._newest_id:
                # The write-ahead log was removed and SQLite went on without its content: an unknown loss. Ids continue
                # at the current Unix time in ms, above all used ones.
                add(database, REPAIRS, 1)
                add(database, UNKNOWN_LOSSES, 1)
                now_ms = time.time_ns() // 1_000_000
                database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'ticks'", (now_ms,))
            database.executemany("INSERT INTO ticks (ts_ms, raw_length, blob) VALUES (?, ?, ?)", ticks)
            if mark is not None:
                database.execute(
                    "INSERT OR REPLACE INTO mark VALUES (1, ?, ?, ?, ?)",
                    (mark.ts_ms, mark.monotonic_ms, mark.boot_id, _packed(mark.clocks)),
                )
            _limit_size(database, self.max_bytes)
            return _newest_id(database)

        self._newest_id = self._database.write(work)

    def mark(self) -> Mark | None:
        """Return the last stored mark; ``None`` without one."""

        def work(database: sqlite3.Connection) -> Mark | None:
            match database.execute("SELECT ts_ms, monotonic_ms, boot_id, idle_clocks FROM mark").fetchone():
                case None:
                    return None
                case (int(ts_ms), int(monotonic_ms), str() | None as boot_id, bytes() | None as clocks):
                    return Mark(ts_ms=ts_ms, monotonic_ms=monotonic_ms, boot_id=boot_id, clocks=_unpacked(clocks))
            raise DamagedError

        return self._database.read(work)

    def peek(self, destination: str, limit: int, *, after: int = 0) -> list[SpooledTick]:
        """Return up to ``limit`` of the oldest ticks above id ``after`` that ``destination`` has not acknowledged."""

        def work(database: sqlite3.Connection) -> list[SpooledTick]:
            rows = database.execute(
                "SELECT id, ts_ms, raw_length, blob FROM ticks WHERE id > ? ORDER BY id LIMIT ?",
                (max(after, acknowledged(database, destination)), limit),
            ).fetchall()
            return [_tick(row) for row in rows]

        return self._database.read(work)

    def acknowledge(self, destination: str, up_to_id: int) -> None:
        """Record that ``destination`` has all ticks up to ``up_to_id``, and count them; delete ticks that all have."""

        def work(database: sqlite3.Connection) -> bool:
            """Return whether enough was deleted to shrink the file."""
            before_id = acknowledged(database, destination)
            if up_to_id <= before_id:
                return False
            # Without the refused ones.
            ticks: int = database.execute(
                "SELECT (SELECT count(*) FROM ticks WHERE id > :after AND id <= :up_to)"
                " - (SELECT count(*) FROM refused WHERE destination = :destination AND id > :after AND id <= :up_to)",
                {"destination": destination, "after": before_id, "up_to": up_to_id},
            ).fetchone()[0]
            if (delivered := max(ticks, 0)) > 0:
                add(database, DELIVERED + destination, delivered)
                now_ms = time.time_ns() // 1_000_000
                database.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (DELIVERED_MS + destination, now_ms))
            database.execute("UPDATE destinations SET acknowledged_id = ? WHERE name = ?", (up_to_id, destination))
            return _delete_acknowledged(database) and _is_large(database)

        if self._database.write(work):
            self._database.upkeep(_shrink)

    def refuse(self, destination: str, ticks: Sequence[SpooledTick], reason: str) -> None:
        """Store ticks that ``destination`` refused permanently, and count them; does not acknowledge them.

        A tick that is refused again after a restart is counted once.
        """

        def work(database: sqlite3.Connection) -> None:
            new = sum(
                database.execute(
                    "INSERT OR IGNORE INTO refused VALUES (?, ?, ?, ?, ?, ?)",
                    (destination, tick.id, tick.ts_ms, tick.raw_length, tick.blob, reason),
                ).rowcount
                for tick in ticks
            )
            add(database, REFUSED + destination, new)

        self._database.write(work)

    def depth(self, destination: str) -> int:
        """Return the number of ticks pending for ``destination``."""
        return self._database.read(lambda database: depth(database, acknowledged(database, destination)))

    def stats(self) -> SpoolStats:
        """Return the spool's counters; cheap enough for every tick, as no rows are counted."""
        return self._database.read(lambda database: stats(database, self.size_bytes()))

    def size_bytes(self) -> int:
        """Return the bytes on disk, write-ahead log included."""
        return sum(map(_size, self._files))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _name_destinations(self, database: sqlite3.Connection) -> None:
        """Register the destinations; called on each opening, as the file may be new."""
        known = {name for (name,) in database.execute("SELECT name FROM destinations")}
        if missing := [(name,) for name in sorted(self._named - known)]:
            # Written only if needed: a full disk must not prevent the agent's start.
            database.executemany("INSERT OR IGNORE INTO destinations VALUES (?, 0)", missing)
        if self.destinations is None:
            self._named |= known

    def _forget_destinations(self) -> None:
        named = self.destinations
        known = self._database.read(lambda database: list(database.execute("SELECT name FROM destinations")))
        if named is None or not (gone := [row for row in known if row[0] not in named]):
            return

        def work(database: sqlite3.Connection) -> None:
            database.executemany("DELETE FROM destinations WHERE name = ?", gone)
            _delete_acknowledged(database)

        self._database.write(work)


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size  # noqa: PTH116 - called in each tick; takes half the time of Path.stat
    except FileNotFoundError:
        return 0


def _delete_acknowledged(database: sqlite3.Connection) -> bool:
    with closing(
        database.execute("DELETE FROM ticks WHERE id <= (SELECT min(acknowledged_id) FROM destinations)")
    ) as deleted:
        return deleted.rowcount > 0


def _tick(row: tuple[object, ...]) -> SpooledTick:
    match row:
        case (int(number), int(ts_ms), int(raw_length), bytes(blob)):
            return SpooledTick(id=number, ts_ms=ts_ms, raw_length=raw_length, blob=blob)
    raise DamagedError


def _newest_id(database: sqlite3.Connection) -> int:
    """Return the largest tick id that was ever used."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()
    return int(row[0]) if row else 0


def _packed(clocks: IdleCounters) -> bytes | None:
    """Return a mark's idle clocks as stored bytes, from which a restarted agent continues; ``None`` without any."""
    if not clocks:
        return None
    from gua.core.idleness import dumps  # noqa: PLC0415 - for the agent; other writers store no marks

    return compress(dumps(clocks))


def _unpacked(stored: bytes | None) -> dict[Key, IdleCounter]:
    if stored is None:
        return {}
    from gua.core.idleness import loads  # noqa: PLC0415 - as above

    try:
        return loads(decompress(stored))
    except ValueError:
        return {}


def _limit_size(database: sqlite3.Connection, max_bytes: int | None) -> None:
    """Delete refused blobs, then the oldest ticks, until the data fits ``max_bytes``; the newest tick always stays.

    Counts dropped ticks. ``None`` means no limit. Call within a transaction.
    """
    if max_bytes is None:
        return
    dropped = 0
    while _used_bytes(database) > max_bytes:
        if database.execute(
            "DELETE FROM refused WHERE rowid = (SELECT rowid FROM refused ORDER BY id LIMIT 1)"
        ).rowcount:
            continue
        gone = database.execute(
            "DELETE FROM ticks WHERE id = (SELECT min(id) FROM ticks) AND id < (SELECT max(id) FROM ticks)"
        ).rowcount
        if not gone:
            break
        dropped += gone
    if dropped:
        add(database, DROPPED, dropped)


def _is_large(database: sqlite3.Connection) -> bool:
    """Return whether :func:`_shrink` is worthwhile: 16 MiB or more free, and at most 4 MiB used."""
    free = pragma(database, "freelist_count") * pragma(database, "page_size")
    return free >= _SHRUNK_FREE_BYTES and _used_bytes(database) <= _SHRUNK_USED_BYTES


def _shrink(database: sqlite3.Connection) -> None:
    """Return the disk space of an outage after its ticks are delivered. Call outside a transaction."""
    if not _is_large(database):
        return
    database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")  # not urgent: give up soon if the file is locked
    try:
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        database.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")


def _used_bytes(database: sqlite3.Connection) -> int:
    # SQLite reuses the pages of deleted rows and does not shrink the file.
    return (pragma(database, "page_count") - pragma(database, "freelist_count")) * pragma(database, "page_size")
