"""The spool's SQLite file: created, opened, checked; reopened or replaced if it is damaged or missing."""

import contextlib
import errno
import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from gua.core.errors import TransientError, UnavailableError
from gua.spool.schema import (
    APPLICATION_ID,
    REPAIRS,
    TABLES,
    UNKNOWN_LOSSES,
    VERSION,
    DamagedError,
    Remedy,
    all_counters,
    build,
    copy,
    pragma,
    remedies,
    translated,
)
from gua.state.directory import sync

WAIT_SECONDS: Final = 5.0
_STEP_SECONDS: Final = 0.01


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Lock the spool at ``path``, shared for writing (``LOCK_SH``) or alone for replacing the file (``LOCK_EX``).

    Raises TransientError if that is impossible for 5 s.
    """
    # Opened each time: a lock on a removed file has no effect.
    # O_NOFOLLOW and O_NONBLOCK: a planted symlink would create or lock another file, a pipe would block.
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(lock_file := _lock_file(path), flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnavailableError(f"{lock_file} is a symbolic link, which gua does not follow here: remove it") from None
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    msg = f"the spool {path} is being repaired by another process: try again when it is done"
                    raise TransientError(msg) from None
                time.sleep(_STEP_SECONDS)
        yield
    finally:
        os.close(descriptor)


@lru_cache(maxsize=64)  # building a path takes as long as opening the file
def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


_BUSY_SECONDS: Final = 5.0
_CHECKED_BYTES: Final = 8 * 2**20
"""Larger files are not checked on opening; damage is detected when it is read."""
_LOG_BYTES: Final = 4 * 2**20
_REPAIR_PAUSE_SECONDS: Final = 30.0
_RETAINED_ASIDE: Final = 2

T = TypeVar("T")
_Identity = tuple[int, int]


class Database:
    """Connection to the spool at ``path``; several threads take turns.

    Creates a missing file and folder for their owner alone. Renames a damaged file to ``<name>.corrupt-<UTC time>``,
    retains the two newest of these, and starts an empty file that counts the loss. A process that has the file open
    restores it if it is removed. ``prepare`` is called for each opened connection.

    Opens the file only through SQLite while it is in use: closing another descriptor would drop the locks of all this
    process's connections (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """

    def __init__(self, path: Path, *, prepare: Callable[[sqlite3.Connection], None]) -> None:
        self.set_aside: Path | None = None
        """New path of the last damaged file that this object set aside; ``None`` if none."""
        self._path = path
        self._prepare = prepare
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._suspect: sqlite3.Connection | None = None
        self._identity: _Identity | None = None
        self._log_identity: _Identity | None = None
        self._repair_from = 0.0
        self._closed = False

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of ``work``. Raises UnavailableError if the file is unusable and cannot be repaired."""
        return self._run(work, writing=False)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in one transaction; return its result after the commit has reached the disk.

        Runs it again after a repairable error. Raises UnavailableError if the repair fails.
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
        """Run ``work`` outside a transaction while the file is not replaced; ignores errors."""
        ignored = contextlib.suppress(sqlite3.Error, OSError, UnavailableError)
        with self._lock, ignored, locked(self._path, fcntl.LOCK_SH):
            if self._connection is not None and self._is_current():
                work(self._connection)

    def close(self) -> None:
        """Close the connection permanently."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _run(self, work: Callable[[sqlite3.Connection], T], *, writing: bool) -> T:
        tried: set[Remedy] = set()
        with self._lock, translated(self._path):
            if self._closed:
                raise UnavailableError(f"the spool {self._path} was closed")
            while True:
                try:
                    connection = self._connected()
                    with locked(self._path, fcntl.LOCK_SH) if writing else contextlib.nullcontext():
                        if not writing or self._is_current():
                            return work(connection)
                except (sqlite3.Error, DamagedError, UnicodeDecodeError) as error:
                    self._mend(error, tried)

    def _mend(self, error: sqlite3.Error | DamagedError | UnicodeDecodeError, tried: set[Remedy]) -> None:
        """Apply the next remedy for ``error``, each one once; re-raise the error if none is left."""
        known = remedies(error)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY and os.access(self._path, os.W_OK):
            known = (Remedy.REPLACE,)  # the disk is writable, so the file's header is wrong
        remedy = next((one for one in known if one not in tried), None)
        if remedy is None:
            raise error
        tried.add(remedy)
        match remedy:
            case Remedy.REOPEN:
                self._disconnect()
            case Remedy.REPLACE:
                self._repair()
            case Remedy.CHECKPOINT:
                self.upkeep(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close())

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file that is at the path now."""
        while True:
            if self._connection is not None and self._is_current():
                return self._connection
            if not self._path.exists():
                self._begin()
            elif self._connection is not None and _identity(self._path) == self._identity:
                # Only the write-ahead log was removed: write its content into the file before the connection is closed.
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._disconnect()
            with locked(self._path, fcntl.LOCK_SH), contextlib.suppress(FileNotFoundError):
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
        """Open and check the file. Raises DamagedError or ``sqlite3.Error``.

        On an error the connection stays open as ``_suspect`` until the file is set aside: closing may remove the log.
        """
        status = self._path.stat()
        self._identity = status.st_dev, status.st_ino
        if not stat.S_ISREG(status.st_mode):
            raise UnavailableError(f"the spool {self._path} cannot be used: it is no regular file; give another path")
        if not status.st_size:
            raise DamagedError  # new spools are renamed when complete; SQLite would discard an empty file's log
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
        # FULL syncs every commit to the disk, so that ticks survive a power failure.
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = OFF")  # secure deletion would write five times as much
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
        connection.execute("PRAGMA temp_store = MEMORY")
        self._prepare(connection)
        self._connection, self._suspect = connection, None
        self._log_identity = _identity(_log(self._path))
        return connection

    def _begin(self) -> None:
        """Create the missing file: a copy from the connection that is still open, or an empty spool."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(self._path, fcntl.LOCK_EX):
            if self._path.exists():
                return
            new = _fresh(self._path)
            if self._connection is not None:
                copy(self._connection, new)
            elif _log(self._path).exists() or _asides(self._path):
                # Only the main file was removed, or a repair was interrupted.
                self._build_after_loss(new)
            else:
                build(new, counters={}, after_id=0)
            self._place(new, _aside(self._path))

    def _repair(self) -> None:
        """Set the damaged file aside and create a new one."""
        if time.monotonic() < self._repair_from:
            msg = f"the spool {self._path} is damaged and could not be repaired a moment ago: check its disk"
            raise UnavailableError(msg)
        with locked(self._path, fcntl.LOCK_EX):
            if _identity(self._path) != self._identity:
                self._disconnect()
                return  # another process has repaired it
            self._repair_from = time.monotonic() + _REPAIR_PAUSE_SECONDS
            new = _fresh(self._path)
            self._build_after_loss(new)
            aside = _aside(self._path)
            self._path.rename(aside)
            self._place(new, aside)
            # The path now names another file, so closing cannot touch that file's log.
            self._disconnect()
            self.set_aside = aside
            self._repair_from = 0.0

    def _build_after_loss(self, new: Path) -> None:
        """Create a spool that continues the counters of the lost one, as far as SQLite can still read them.

        Tick ids start at the current Unix time in ms, above all used ids (ticks are fewer than milliseconds). So an
        acknowledgement in flight cannot match another tick.
        """
        counters: dict[str, int] = {}
        if (lost := self._suspect or self._connection) is not None:
            with contextlib.suppress(sqlite3.Error, DamagedError):
                counters = all_counters(lost)
        for name in (REPAIRS, UNKNOWN_LOSSES):
            counters[name] = counters.get(name, 0) + 1
        build(new, counters=counters, after_id=time.time_ns() // 1_000_000)

    def _place(self, new: Path, aside: Path) -> None:
        """Rename the new file into place, after moving the old file's log away; delete older damaged files."""
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).rename(aside.with_name(aside.name + suffix))
        new.rename(self._path)
        sync(self._path.parent)
        asides = {file: file.name.removesuffix("-wal").removesuffix("-shm") for file in _asides(self._path)}
        old = sorted({*asides.values()})[:-_RETAINED_ASIDE]
        for file, name in asides.items():
            if name in old:
                file.unlink(missing_ok=True)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DamagedError, or UnavailableError if the file is another program's or has another version."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    ours = pragma(connection, "application_id") == APPLICATION_ID
    if not ours and tables and 2 * len(tables & TABLES) <= len(TABLES):
        raise UnavailableError(f"{path} belongs to another program and is left alone: give another path for the spool")
    if not ours or not tables >= TABLES:
        raise DamagedError
    version = pragma(connection, "user_version")
    if version != VERSION:
        raise UnavailableError(
            f"the spool {path} is of version {version}, and this gua reads version {VERSION}: deliver what waits in it "
            "with the gua that wrote it, or move the file away, and a new one is begun"
        )


def _identity(path: Path) -> _Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - several times per transaction; takes half the time of Path.stat
    except OSError:
        return None
    return status.st_dev, status.st_ino


@lru_cache(maxsize=64)  # called in each transaction; building a path takes longer than the stat
def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _fresh(path: Path) -> Path:
    """Return the path for the file under construction, after removing one that a killed process left."""
    new = path.with_name(f"{path.name}.new")
    for file in (new, _log(new)):
        file.unlink(missing_ok=True)
    return new


def _asides(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.corrupt-")]


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
