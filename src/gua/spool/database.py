"""The spool's SQLite file: made, opened, checked; opened again or replaced where it is damaged or gone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from gua.core.errors import UnavailableError
from gua.spool import locking
from gua.spool.errors import DamagedError, Trouble, translated, trouble
from gua.spool.schema import (
    APPLICATION_ID,
    REPAIRS,
    TABLES,
    UNKNOWN_LOSSES,
    VERSION,
    all_counters,
    build,
    copy,
    pragma,
)
from gua.state.directory import sync

_BUSY_SECONDS: Final = 5.0
_CHECKED_BYTES: Final = 8 * 2**20
"""A larger file is not read through on opening; its damage shows when it is met."""
_LOG_BYTES: Final = 4 * 2**20
_REPAIR_PAUSE_SECONDS: Final = 30.0
_KEPT_ASIDE: Final = 2

T = TypeVar("T")
_Identity = tuple[int, int]


class Database:
    """The connection to the spool at ``path``, for one thread at a time.

    The file and its folder are made if they are missing, for their owner alone. A damaged file is set aside as
    ``<name>.corrupt-<UTC time>``, the two latest of them are kept, and an empty one is begun that counts the loss.
    A file that was removed is written anew by who has it open. ``prepare`` is called in each connection that is opened.

    No method opens the file but through SQLite while it is in use: closing it again would take the locks from every
    other connection of this process (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """

    def __init__(self, path: Path, *, prepare: Callable[[sqlite3.Connection], None]) -> None:
        self.set_aside: Path | None = None
        """Where the last damaged file went that was found by this object."""
        self._path = path
        self._prepare = prepare
        self._connection: sqlite3.Connection | None = None
        self._suspect: sqlite3.Connection | None = None
        self._identity: _Identity | None = None
        self._log_identity: _Identity | None = None
        self._repair_from = 0.0
        self._closed = False

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``work`` reads. Raises UnavailableError if the file cannot be used and not be mended."""
        return self._run(work, writing=False)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` in one transaction that has reached the disk on return, or not at all.

        After trouble that could be mended it is done again. Raises UnavailableError if it could not.
        """

        def transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

        return self._run(transaction, writing=True)

    def upkeep(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do ``work`` outside of a transaction, while the file stays in its place; trouble with it does not matter."""
        with contextlib.suppress(sqlite3.Error, OSError, UnavailableError), locking.writing(self._path):
            if self._connection is not None and self._is_current():
                work(self._connection)

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self._disconnect()

    def _run(self, work: Callable[[sqlite3.Connection], T], *, writing: bool) -> T:
        if self._closed:
            msg = f"the spool {self._path} was closed"
            raise UnavailableError(msg)
        tried: set[Trouble] = set()
        with translated(self._path):
            while True:
                try:
                    connection = self._connected()
                    with locking.writing(self._path) if writing else contextlib.nullcontext():
                        if not writing or self._is_current():
                            return work(connection)
                except (sqlite3.Error, DamagedError, UnicodeDecodeError) as error:
                    self._mend(error, tried)

    def _mend(self, error: sqlite3.Error | DamagedError | UnicodeDecodeError, tried: set[Trouble]) -> None:
        """Do what the error asks for, each remedy once; raise it again if there is none left."""
        kind = trouble(error)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY and os.access(self._path, os.W_OK):
            kind = Trouble.DAMAGED  # the disk can be written to: it is the header that says otherwise
        if kind in (Trouble.REOPEN, Trouble.UNREADABLE) and Trouble.REOPEN not in tried:
            tried.add(Trouble.REOPEN)
            self._disconnect()
        elif kind in (Trouble.DAMAGED, Trouble.UNREADABLE) and Trouble.DAMAGED not in tried:
            tried.add(Trouble.DAMAGED)
            self._repair()
        elif kind is Trouble.FULL and Trouble.FULL not in tried:
            tried.add(Trouble.FULL)
            self.upkeep(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close())
        else:
            raise error

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file that is at the path now."""
        while True:
            if self._connection is not None and self._is_current():
                return self._connection
            if not self._path.exists():
                self._begin()
            elif self._connection is not None and _identity(self._path) == self._identity:
                # Somebody removed the log alone: what stands in it must reach the file before we part with it.
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._disconnect()
            with locking.writing(self._path), contextlib.suppress(FileNotFoundError):
                return self._connect()

    def _is_current(self) -> bool:
        return _identity(self._path) == self._identity and (
            self._log_identity is None or _identity(_log(self._path)) == self._log_identity
        )

    def _disconnect(self) -> None:
        for connection in (self._connection, self._suspect):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
        self._connection = self._suspect = self._log_identity = None

    def _connect(self) -> sqlite3.Connection:
        """Open the file. Raises DamagedError or ``sqlite3.Error``.

        The suspect connection stays open then until the file is set aside: closing it could remove the log.
        """
        status = self._path.stat()
        self._identity = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode):
            msg = f"the spool {self._path} cannot be used: it is no regular file; give another path"
            raise UnavailableError(msg)
        if not status.st_size:
            raise DamagedError  # a spool gets its name when it is whole; SQLite would throw its log away
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            self._path.chmod(0o600)
        connection = self._suspect = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_SECONDS,
        )
        connection.text_factory = lambda data: data.decode(errors="replace")
        _check(connection, self._path)
        if status.st_size <= _CHECKED_BYTES and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise DamagedError
        # A tick is worth keeping across a power cut: FULL makes every commit reach the disk.
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = OFF")  # where it is on, deleting writes five times as much
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
        connection.execute("PRAGMA temp_store = MEMORY")
        self._prepare(connection)
        self._connection, self._suspect = connection, None
        self._log_identity = _identity(_log(self._path))
        return connection

    def _begin(self) -> None:
        """Make the file that is missing: from what is still open of it, or empty."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locking.replacing(self._path):
            if self._path.exists():
                return
            new = _fresh(self._path)
            if self._connection is not None:
                copy(self._connection, new)
            elif _log(self._path).exists() or _asides(self._path):
                # Somebody removed the file alone, or was cut off in the middle of a repair.
                self._build_after_loss(new)
            else:
                build(new, counters={}, after_id=0)
            self._place(new, _aside(self._path))

    def _repair(self) -> None:
        """Set the damaged file aside and begin a new one."""
        if time.monotonic() < self._repair_from:
            msg = f"the spool {self._path} is damaged and could not be repaired a moment ago: check its disk"
            raise UnavailableError(msg)
        with locking.replacing(self._path):
            if _identity(self._path) != self._identity:
                self._disconnect()
                return  # somebody else was faster
            self._repair_from = time.monotonic() + _REPAIR_PAUSE_SECONDS
            new = _fresh(self._path)
            self._build_after_loss(new)
            aside = _aside(self._path)
            self._path.rename(aside)
            self._place(new, aside)
            # Now that the path has another file, closing cannot touch that one's log.
            self._disconnect()
            self.set_aside = aside
            self._repair_from = 0.0

    def _build_after_loss(self, new: Path) -> None:
        """Make a spool that counts on where the lost one stood, as far as SQLite still reads its counters.

        Its ids are above all that were given, as nobody makes a tick a millisecond: an acknowledgement under way must
        not meet another tick under the same id.
        """
        counters: dict[str, int] = {}
        if (lost := self._suspect or self._connection) is not None:
            with contextlib.suppress(sqlite3.Error, DamagedError):
                counters = all_counters(lost)
        for name in (REPAIRS, UNKNOWN_LOSSES):
            counters[name] = counters.get(name, 0) + 1
        build(new, counters=counters, after_id=time.time_ns() // 1_000_000)

    def _place(self, new: Path, aside: Path) -> None:
        """Give the new file its name; the log that belongs to the old one must be gone before."""
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).rename(aside.with_name(aside.name + suffix))
        new.rename(self._path)
        sync(self._path.parent)
        asides = {file.name.removesuffix("-wal").removesuffix("-shm") for file in _asides(self._path)}
        old = sorted(asides)[:-_KEPT_ASIDE]
        for file in _asides(self._path):
            if file.name.removesuffix("-wal").removesuffix("-shm") in old:
                file.unlink(missing_ok=True)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DamagedError, or UnavailableError if the file is another program's or of another version."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    ours = pragma(connection, "application_id") == APPLICATION_ID
    if not ours and tables and 2 * len(tables & TABLES) <= len(TABLES):
        msg = f"{path} belongs to another program and is left alone: give another path for the spool"
        raise UnavailableError(msg)
    if not ours or not tables >= TABLES:
        raise DamagedError
    version = pragma(connection, "user_version")
    if version != VERSION:
        msg = (
            f"the spool {path} is of version {version}, and this gua reads version {VERSION}: deliver what waits in it "
            "with the gua that wrote it, or move the file away, and a new one is begun"
        )
        raise UnavailableError(msg)


def _identity(path: Path) -> _Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - some times in each transaction, in half the time of Path.stat
    except OSError:
        return None
    return status.st_dev, status.st_ino


@lru_cache(maxsize=64)  # asked for in each transaction, and to make a name takes longer than to look the file up
def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")


def _fresh(path: Path) -> Path:
    """Return the name of the file that is being made, and remove what a process that was killed left of one."""
    new = _beside(path, "new")
    for file in (new, _log(new)):
        file.unlink(missing_ok=True)
    return new


def _asides(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.corrupt-")]


def _aside(path: Path) -> Path:
    return _beside(path, f"corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
