"""The spool's SQLite file: opened, checked, or set aside if it is damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gpu_usage_audit.core.errors import UnavailableError

_APPLICATION_ID = 0x0067_7561  # "gua"
_VERSION = 1
_BUSY_MS = 5_000
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = """
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
"""


class _DamagedError(Exception):
    """The file is not, or no longer, a database."""


def open_database(path: Path, now: datetime | None = None) -> tuple[sqlite3.Connection, Path | None]:
    """Return a connection to the spool at ``path``, and where a damaged file was set aside (else ``None``).

    The file and its folder are made if they are missing, for their owner alone. A damaged file is renamed to
    ``<name>.corrupt-<UTC time>`` and a new one begun. Raises :class:`UnavailableError` if the file cannot be
    opened, is in use, is of a later version, or belongs to another program (it is left as it is).
    """
    try:
        with translated(path):
            try:
                return _open(path), None
            except _DamagedError:
                aside = _set_aside(path, now or datetime.now(UTC))
            return _open(path), aside
    except OSError as error:
        msg = f"the spool {path} cannot be used: {error.strerror or error}; check the path and its permissions"
        raise UnavailableError(msg) from error


def destinations_of(path: Path) -> frozenset[str]:
    """Return where the ticks of the spool at ``path`` are to go, nothing if there is no sound one. Changes nothing."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if _pragma(connection, "application_id") != _APPLICATION_ID:
                return frozenset()
            return frozenset(name for (name,) in connection.execute("SELECT name FROM destinations"))
    except sqlite3.Error:
        return frozenset()


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as one-line :class:`UnavailableError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise UnavailableError(_message(path, error)) from error


def _message(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return f"the disk of the spool {path} is full: free some space; nothing of this tick was kept"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"the spool {path} is in use by another process: stop that one, or give this one another spool"
    if code in _DAMAGED:
        return f"the spool {path} is damaged: start again, it will be set aside and reported"
    return f"the spool {path} cannot be used: {error}; check its disk and permissions"


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    # One connection for the sampling and the sending thread; the queue serialises its use.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000)
    try:
        _prepare(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise _DamagedError from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        msg = f"{path} belongs to another program and is left alone: give another path for the spool"
        raise UnavailableError(msg)
    if version > _VERSION:
        msg = f"the spool {path} was written by a later version of gua: install that one, or give another path"
        raise UnavailableError(msg)
    # A tick is worth keeping across a power cut: FULL makes every commit reach the disk.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    if not tables:
        # The pragmas stand in the transaction too: a kill here leaves an empty file, not half a spool.
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION_ID};"
            f" PRAGMA user_version = {_VERSION}; {_SCHEMA} COMMIT;"
        )
    elif connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise _DamagedError


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _set_aside(path: Path, now: datetime) -> Path:
    aside = path.with_name(f"{path.name}.corrupt-{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}")
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    path.rename(aside)
    return aside
