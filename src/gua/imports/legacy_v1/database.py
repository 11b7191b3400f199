"""A database of gpu-usage-audit 1.0 to 1.8 (SQLite), opened so that nothing of it is ever written.

Its daemon keeps it in write-ahead-log mode. While somebody has it open, it is read as a reader of that log, in one
transaction: the same rows in every pass, and nobody waits. When nobody has, SQLite would leave two new files beside
it; then it is read as it lies there, and whether that stays so is looked at all the while.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.imports.recorded_file import opening

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_PATIENCE_SECONDS: Final = 5.0
_AT_ONCE: Final = 2_000
# What SQLite says of a damaged schema may hold bytes of it, which Python then cannot read.
_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
REMEDY: Final = "give the database of gpu-usage-audit 1.0 to 1.8"
_REMEDY = ": repair it with sqlite3 FILE .recover | sqlite3 NEW and import that"


class LegacyDatabase:
    """One open database file. ``where`` is its path as the user gave it."""

    def __init__(self, path: Path) -> None:
        """Open it and hold on to what it holds now.

        Raises UsageError if there is no such file, UnavailableError if it cannot be read or is locked, DataError
        for what is not a whole SQLite database.
        """
        self.where = str(path)
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        header = self._header()
        logged = header[18:20] == b"\2\2"
        self._undisturbed = self._state() if logged and not self._log.exists() else None
        if self._undisturbed is not None and _pages_bytes(header) > self._undisturbed[0]:
            msg = f"{path} is cut short: it has {self._undisturbed[0]:,} of {_pages_bytes(header):,} bytes{_REMEDY}"
            raise DataError(msg)
        mode = "mode=ro" if self._undisturbed is None else "mode=ro&immutable=1"
        uri = f"{path.absolute().as_uri()}?{mode}"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None)
        except _ERRORS as error:
            raise self._error(error) from None
        self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            self.value("SELECT count(*) FROM sqlite_schema")
            self.run("BEGIN")
            self.value("SELECT count(*) FROM sqlite_schema")
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query as they are read. Raises DataError for damage, UnavailableError otherwise."""
        cursor = self.run(sql, parameters)
        while True:
            try:
                rows = cursor.fetchmany(_AT_ONCE)
            except _ERRORS as error:
                raise self._error(error) from None
            self._check_undisturbed()
            if not rows:
                return
            yield from rows

    def row(self, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...]:
        """Return the first row of a query that has one."""
        for row in self.rows(sql, parameters):
            return row
        missing = "rows are missing"
        raise self._damaged(missing)

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:  # noqa: ANN401 - what SQLite holds there
        """Return the first value of the first row."""
        return self.row(sql, parameters)[0]

    def check(self, table: str) -> None:
        """Read a table and its indexes once and compare them. Raises DataError for damage."""
        result = str(self.value(f"PRAGMA integrity_check({table})"))
        if result != "ok":
            raise self._damaged(result)

    def close(self) -> None:
        """Let go of the file."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _header(self) -> bytes:
        with opening(self._path, "give the path of a database, as in ~/.gua/gua.db"):
            if not stat.S_ISREG(self._path.stat().st_mode):
                msg = f"{self._path} is not a regular file: {REMEDY}"
                raise UsageError(msg)
            with self._path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
        if not header.startswith(_MAGIC):
            msg = f"{self._path} is {'not a SQLite database' if header else 'empty'}: {REMEDY}"
            raise DataError(msg)
        return header

    def _state(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_size, status.st_mtime_ns

    def _check_undisturbed(self) -> None:
        if self._undisturbed is None:
            return
        with suppress(OSError):
            logged = self._log.exists() and self._log.stat().st_size > 0
            if self._state() == self._undisturbed and not logged:
                return
        msg = f"{self.where} was written to while it was read: import it again, which changes nothing twice"
        raise UnavailableError(msg)

    def run(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a statement and return its cursor. Raises as :meth:`rows` does."""
        try:
            return self._connection.execute(sql, parameters)
        except _ERRORS as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> GuaError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _LOCKED:
            return UnavailableError(
                f"{self.where} is locked by another program: import it when that is done, or import a copy"
            )
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            return UnavailableError(
                f"{self.where} cannot be opened: copy it, with its files -wal and -shm, to where you may write"
            )
        if code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}:
            return UnavailableError(f"{self.where} cannot be read: {error}: check the disk and the permissions")
        if code == sqlite3.SQLITE_NOTADB:
            return DataError(f"{self.where} is not a SQLite database, or encrypted: give an unencrypted one")
        return self._damaged("its schema is no text" if isinstance(error, UnicodeDecodeError) else str(error))

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.where} is damaged: {' '.join(why.split())}{_REMEDY}")


def _pages_bytes(header: bytes) -> int:
    """Return how large the file is by its own header (https://sqlite.org/fileformat.html)."""
    page_bytes = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65_536 if page_bytes == 1 else page_bytes)
