"""Tables of the spool, its file signature, and names of its lifetime counters."""

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
"""Number of times that a damaged or removed spool was replaced."""
UNKNOWN_LOSSES: Final = "unknown_losses"
"""Number of replacements by an empty file: the number of lost ticks is unknown."""
REFUSED: Final = "refused:"
DELIVERED: Final = "delivered:"
DELIVERED_MS: Final = "delivered_ms:"
"""Last delivery to a destination [Unix ms]."""


def all_counters(database: sqlite3.Connection) -> dict[str, int]:
    """Return every counter by name. Raises DamagedError if one is not a number."""
    counted: dict[str, int] = dict(database.execute("SELECT name, count FROM counters"))
    if not all(isinstance(count, int) for count in counted.values()):
        raise DamagedError
    return counted


def add(database: sqlite3.Connection, name: str, more: int) -> None:
    """Add ``more`` to the counter ``name``."""
    database.execute(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
        (name, more),
    )


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a numeric PRAGMA of the file, such as ``page_count``."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def build(target: Path, *, counters: Mapping[str, int], after_id: int) -> None:
    """Write an empty spool to ``target`` and sync it to disk; its ticks get ids above ``after_id``.

    Raises ``sqlite3.Error`` or ``OSError`` if the disk is full or fails.
    """
    _make_private(target)
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        # No other process opens the file before it is complete and synced.
        for name in (f"page_size = {_PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {name}")
        database.executescript(f"BEGIN; {_SCHEMA}")
        database.execute("INSERT INTO sqlite_sequence VALUES ('ticks', ?)", (after_id,))
        database.executemany("INSERT INTO counters VALUES (?, ?)", counters.items())
        database.execute("COMMIT")
        database.execute("PRAGMA journal_mode = WAL")
    sync(target)


def copy(source: sqlite3.Connection, target: Path) -> None:
    """Copy a spool whose removed file is still open to ``target``. Raises as :func:`build`."""
    _make_private(target)
    with closing(sqlite3.connect(target)) as database:
        source.backup(database)
        add(database, REPAIRS, 1)
        database.commit()
    sync(target)


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
