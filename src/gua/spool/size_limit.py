"""The spool's place on the disk: kept below its cap, and given back after an outage."""

from __future__ import annotations

import sqlite3
from typing import Final

from gua.spool.counters import DROPPED, HOLES_TO, add
from gua.spool.schema import pragma

_SHRUNK_FREE_BYTES: Final = 16 * 2**20
_SHRUNK_USED_BYTES: Final = 4 * 2**20
"""So much is rewritten in a few hundredths of a second: no tick waits for it in a way that shows."""
_BUSY_MS: Final = 50
_WAIT_MS: Final = 5_000


def keep_below(database: sqlite3.Connection, max_bytes: int | None) -> None:
    """Delete refused blobs, then the oldest ticks, until the data takes no more; the newest tick always stays.

    Dropped ticks are counted. ``None`` is no limit. Belongs into a transaction.
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
        # A later repair must not take them for lost.
        database.execute(
            "INSERT INTO counters SELECT ?, min(id) - 1 FROM ticks WHERE true "
            "ON CONFLICT (name) DO UPDATE SET count = max(count, excluded.count)",
            (HOLES_TO,),
        )


def is_large(database: sqlite3.Connection) -> bool:
    """Return whether :func:`shrink` has something to do: much of the file is free, and little of it is used."""
    free = pragma(database, "freelist_count") * pragma(database, "page_size")
    return free >= _SHRUNK_FREE_BYTES and _used_bytes(database) <= _SHRUNK_USED_BYTES


def shrink(database: sqlite3.Connection) -> None:
    """Give the room of an outage back to the disk once its ticks are delivered. Not within a transaction."""
    if not is_large(database):
        return
    database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")  # another time will do
    try:
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        database.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")


def _used_bytes(database: sqlite3.Connection) -> int:
    # SQLite keeps the pages of deleted rows for the next ones and does not shrink the file.
    return (pragma(database, "page_count") - pragma(database, "freelist_count")) * pragma(database, "page_size")
