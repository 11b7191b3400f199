"""Tables of the spool, its file signature, names of its lifetime counters, and kinds of its errors."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final

from gua.core.errors import TransientError, UnavailableError
from gua.state.directory import sync

# Extended result codes: the disk cannot return data that was written.
_UNREADABLE: Final = (266, 522, 8202, 8458)  # IOERR_READ, _SHORT_READ, _DATA, _CORRUPTFS
_READONLY_MOVED: Final = 1032  # READONLY_DBMOVED
_DAMAGED: Final = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    # gua's statements are fixed: if the tables do not fit them, the file has changed.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_INTERNAL,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
)
_REOPEN: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL)


class DamagedError(Exception):
    """The file is not, or no longer, a valid spool."""


class UnknownDestinationError(UnavailableError, ValueError):
    """The destination is not registered in the spool, or not yet again after a repair."""


class Remedy(Enum):
    """What may repair the spool after an error."""

    REOPEN = auto()
    REPLACE = auto()  # set the file aside and create a new one
    CHECKPOINT = auto()  # of the write-ahead log, so that its space can be reused


def remedies(error: Exception) -> tuple[Remedy, ...]:
    """Return the remedies to try in order for an error of SQLite or a :class:`DamagedError`.

    Empty if the caller has to handle it: the file is locked or not writable.
    """
    if isinstance(error, DamagedError | UnicodeDecodeError):
        return (Remedy.REPLACE,)  # SQLite's message may contain bytes of a damaged file
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        # Text that is not UTF-8 raises OperationalError without a code; a closed connection raises another class.
        return (Remedy.REPLACE,) if isinstance(error, sqlite3.OperationalError) else ()
    if extended in _UNREADABLE:
        return Remedy.REOPEN, Remedy.REPLACE
    if extended == _READONLY_MOVED or extended & 0xFF in _REOPEN:
        return (Remedy.REOPEN,)
    if extended & 0xFF == sqlite3.SQLITE_FULL:
        return (Remedy.CHECKPOINT,)
    return (Remedy.REPLACE,) if extended & 0xFF in _DAMAGED else ()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and the system as one-line :class:`UnavailableError`."""
    try:
        yield
    except (DamagedError, UnicodeDecodeError) as error:
        msg = f"the spool {path} is damaged and cannot be set aside: check its disk and permissions"
        raise UnavailableError(msg) from error
    except OSError as error:
        msg = f"the spool {path} cannot be used: {error.strerror or error}; check the path and its permissions"
        raise UnavailableError(msg) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            msg = f"the spool {path} is in use by another process: stop that one, or give this one another spool"
            raise TransientError(msg) from error
        if code == sqlite3.SQLITE_FULL:
            msg = f"the disk of the spool {path} is full: free some space"
        elif code in _DAMAGED:
            msg = f"the spool {path} is damaged and cannot be set aside ({error}): check its disk"
        else:
            msg = f"the spool {path} cannot be used: {error}; check its disk and permissions"
        raise UnavailableError(msg) from error


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
