"""The spool's tables, what tells its file from others, and what it counts over its life, by name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from gua.spool.errors import DamagedError
from gua.state.directory import sync

APPLICATION_ID: Final = 0x0067_7561  # "gua"
VERSION: Final = 2
_PAGE_BYTES: Final = 4096

_SCHEMA: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE ticks (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, so that an acknowledgement cannot meet a later tick
  ts_ms INTEGER NOT NULL,
  raw_length INTEGER NOT NULL,
  blob BLOB NOT NULL
);
CREATE TABLE destinations (name TEXT PRIMARY KEY, acknowledged_id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE mark (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  ts_ms INTEGER NOT NULL,
  monotonic_ms INTEGER NOT NULL,
  boot_id TEXT,
  idle_clocks BLOB -- NULL while there is none
);
CREATE TABLE counters (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE refused (
  destination TEXT NOT NULL,
  id INTEGER NOT NULL,
  ts_ms INTEGER NOT NULL,
  raw_length INTEGER NOT NULL,
  blob BLOB NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (destination, id)
);
"""
TABLES: Final = frozenset({"ticks", "destinations", "mark", "counters", "refused"})

DROPPED: Final = "dropped"
REPAIRS: Final = "repairs"
"""How often a damaged or removed spool was begun anew."""
UNKNOWN_LOSSES: Final = "unknown_losses"
"""How often that was with nothing in it: how many ticks were lost is not known."""
REFUSED: Final = "refused:"
DELIVERED: Final = "delivered:"
DELIVERED_MS: Final = "delivered_ms:"
"""When a destination last got ticks, Unix ms."""


def all_counters(database: sqlite3.Connection) -> dict[str, int]:
    """Return every counter. Raises DamagedError if one is no number."""
    counted: dict[str, int] = dict(database.execute("SELECT name, count FROM counters"))
    if not all(isinstance(count, int) for count in counted.values()):
        raise DamagedError
    return counted


def put(database: sqlite3.Connection, name: str, number: int) -> None:
    """Keep a number under that name."""
    database.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, number))


def add(database: sqlite3.Connection, name: str, more: int) -> None:
    """Count ``more`` under that name."""
    database.execute(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
        (name, more),
    )


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that SQLite keeps of the file, as ``page_count``."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def build(target: Path, *, counters: Mapping[str, int], after_id: int) -> None:
    """Write an empty spool to ``target``, whose ticks get ids above ``after_id``, and bring it to the disk.

    Raises ``sqlite3.Error`` or ``OSError`` if there is no room or the disk does not take it.
    """
    _make_private(target)
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        # Nobody sees the file before it is whole and on the disk.
        for name in (f"page_size = {_PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {name}")
        database.executescript(f"BEGIN; {_SCHEMA}")
        database.execute("INSERT INTO sqlite_sequence VALUES ('ticks', ?)", (after_id,))
        database.executemany("INSERT INTO counters VALUES (?, ?)", counters.items())
        database.execute("COMMIT")
        database.execute("PRAGMA journal_mode = WAL")
    sync(target)


def copy(source: sqlite3.Connection, target: Path) -> None:
    """Write the spool that a connection still has open, though its file was removed, to ``target``; raises as above."""
    _make_private(target)
    with closing(sqlite3.connect(target)) as database:
        source.backup(database)
        add(database, REPAIRS, 1)
        database.commit()
    sync(target)


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
