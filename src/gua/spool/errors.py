"""Meaning of SQLite errors for the spool: damage, reopening, or a full disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final

from gua.core.errors import TransientError, UnavailableError

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


class Trouble(Enum):
    """Remedy for an error."""

    DAMAGED = auto()
    """Set the file aside and create a new one."""
    UNREADABLE = auto()
    """Reopen the file; if the error persists, set it aside."""
    REOPEN = auto()
    """Reopen the file."""
    FULL = auto()
    """Checkpoint the write-ahead log, so that its space can be reused."""
    OTHER = auto()
    """Raise it to the caller: the file is locked or not writable."""


def trouble(error: Exception) -> Trouble:
    """Return the remedy for an error of SQLite or a :class:`DamagedError`."""
    if isinstance(error, DamagedError | UnicodeDecodeError):
        return Trouble.DAMAGED  # SQLite's message may contain bytes of a damaged file
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        # Text that is not UTF-8 raises OperationalError without a code; a closed connection raises another class.
        return Trouble.DAMAGED if isinstance(error, sqlite3.OperationalError) else Trouble.OTHER
    if extended in _UNREADABLE:
        return Trouble.UNREADABLE
    if extended == _READONLY_MOVED or extended & 0xFF in _REOPEN:
        return Trouble.REOPEN
    if extended & 0xFF == sqlite3.SQLITE_FULL:
        return Trouble.FULL
    return Trouble.DAMAGED if extended & 0xFF in _DAMAGED else Trouble.OTHER


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
