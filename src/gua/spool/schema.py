"""The spool's tables, and what tells its file from others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

APPLICATION_ID: Final = 0x0067_7561  # "gua"
VERSION: Final = 1
PAGE_BYTES: Final = 4096
VERSION_COUNTER: Final = "version"
"""The version stands a second time among the counters, so that a damaged header does not look like a later program's.
A later program that changes ``VERSION`` writes both."""

SCHEMA: Final = f"""
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
  boot_id TEXT
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
INSERT INTO counters VALUES ('{VERSION_COUNTER}', {VERSION});
"""  # noqa: S608 - our own names and numbers
TABLES: Final = frozenset({"ticks", "destinations", "mark", "counters", "refused"})


def root_pages() -> dict[str, int]:
    """Return on which page each table begins.

    It is the same in every spool, whatever the damage, since they all come from one script, and VACUUM keeps it.
    """
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        empty.executescript(SCHEMA)
        return dict(empty.execute("SELECT name, rootpage FROM sqlite_master"))


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that SQLite keeps of the file, as ``page_count``."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
