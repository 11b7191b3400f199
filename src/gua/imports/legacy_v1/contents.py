"""Reading and validation of SQLite databases of gpu-usage-audit 1.0 to 1.8.

Five schemas were released. A newer version adds columns to an older database, so one database may contain rows of all.
The interval of each daemon run is stored from 1.0.3 on. From 1.4 on ``usage_state`` is NULL if the list of compute
processes could not be read.
"""

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.imports.recorded_file import read_errors_converted
from gua.imports.recording import MAX_INTERVAL_MS, Spacings
from gua.imports.values import Timestamps

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_PATIENCE_SECONDS: Final = 5.0
_AT_ONCE: Final = 2_000
# SQLite's message for a damaged schema may contain its bytes, which Python then cannot decode.
_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
REMEDY: Final = "give the database of gpu-usage-audit 1.0 to 1.8"
_REMEDY = ": repair it with sqlite3 FILE .recover | sqlite3 NEW and import that"


class LegacyDatabase:
    """An open, read-only database file in one read transaction. ``where`` is its path as on the command line."""

    def __init__(self, path: Path) -> None:
        """Open the file and begin a read transaction.

        Raises UsageError if it is missing or not a regular file. Raises UnavailableError if it is unreadable or locked,
        and DataError if it is not a complete SQLite database.
        """
        self.where = str(path)
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        with read_errors_converted(self._path, "give the path of a database, as in ~/.gua/gua.db"):
            if not stat.S_ISREG(self._path.stat().st_mode):
                raise UsageError(f"{self._path} is not a regular file: {REMEDY}")
            with self._path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
        if not header.startswith(_MAGIC):
            raise DataError(f"{self._path} is {'not a SQLite database' if header else 'empty'}: {REMEDY}")
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
        """Yield the rows of a query. Raises DataError for damage, UnavailableError if unreadable or written to."""
        cursor = self.run(sql, parameters)
        while True:
            try:
                rows = cursor.fetchmany(_AT_ONCE)
            except _ERRORS as error:
                raise self._error(error) from None
            if self._undisturbed is not None:
                is_same = False
                with suppress(OSError):
                    logged = self._log.exists() and self._log.stat().st_size > 0
                    is_same = self._state() == self._undisturbed and not logged
                if not is_same:
                    msg = f"{self.where} was written to while it was read: import it again, which changes nothing twice"
                    raise UnavailableError(msg)
            if not rows:
                return
            yield from rows

    def row(self, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...]:
        """Return the first row of a query. Raises DataError if it has no rows, else as :meth:`rows` does."""
        for row in self.rows(sql, parameters):
            return row
        missing = "rows are missing"
        raise self._damaged(missing)

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:  # noqa: ANN401 - any SQLite value
        """Return the first value of the first row. Raises as :meth:`row` does."""
        return self.row(sql, parameters)[0]

    def check(self, table: str) -> None:
        """Run SQLite's integrity check of a table and its indexes. Raises DataError for damage."""
        result = str(self.value(f"PRAGMA integrity_check({table})"))
        if result != "ok":
            raise self._damaged(result)

    def close(self) -> None:
        """Close the file. Never raises."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _state(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_size, status.st_mtime_ns

    def run(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        """Execute a statement and return its cursor. Raises as :meth:`rows` does."""
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
    """Return the file's size by its header [bytes] (https://sqlite.org/fileformat.html)."""
    page_bytes = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65_536 if page_bytes == 1 else page_bytes)


_CARD: Final = ("ts", "gpu_uuid", "util_pct")
_CARD_LATER: Final = ("run_id", "gpu_index", "memory_used_mb", "temperature_c", "power_w", "usage_state")
_PROCESS: Final = ("ts", "gpu_uuid", "pid", "mem_used_mb", "loginuid_user")
_COLUMNS: Final = {
    "gpu_sample": ("card_row", _CARD, _CARD_LATER),
    "proc_sample": ("process_row", _PROCESS, ("run_id", "gpu_index", "process_name", "process_type", "owner_user")),
}
"""By table: a view with all columns, NULL if the table lacks one; the columns of 1.0.0; later columns."""
# Times are UTC text, with microseconds unless zero: text order is time order.
_TIME: Final = (
    "ts GLOB '20[0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]*+00:00' AND length(ts) <= 35 "
    # SQLite converts 30 February to 2 March, so the text is compared with the converted one.
    "AND datetime(substr(ts, 1, 19), '+0 seconds') = replace(substr(ts, 1, 19), 'T', ' ') AND julianday(ts) IS NOT NULL"
)
_MOST_MIB: Final = 2**30
"""Plausibility limit of memory [MiB], more than any card has."""
_STAMPED: Final = {
    "ts": f"NOT ifnull({_TIME}, 0)",
    "gpu_uuid": "ifnull(typeof(gpu_uuid) != 'text' OR trim(gpu_uuid) = '' OR length(gpu_uuid) > 256, 1)",
}


def _not_whole(column: str, most: int, *, least: int = 0) -> str:
    return f"{column} IS NOT NULL AND (typeof({column}) != 'integer' OR {column} NOT BETWEEN {least} AND {most})"


_FAULTS: Final = {
    "gpu_sample": {
        **_STAMPED,
        "util_pct": _not_whole("util_pct", 100),
        "gpu_index": _not_whole("gpu_index", 65_535),
        "memory_used_mb": _not_whole("memory_used_mb", _MOST_MIB),
        "power_w": _not_whole("power_w", 100_000),
        "temperature_c": _not_whole("temperature_c", 1_000, least=-1_000),
    },
    "proc_sample": {
        **_STAMPED,
        "pid": f"pid IS NULL OR {_not_whole('pid', 2**32 - 1)}",
        "mem_used_mb": _not_whole("mem_used_mb", _MOST_MIB),
        "process_type": "ifnull(process_type, 'compute') NOT IN ('compute', 'graphics')",
    },
}
"""By table and column: SQL condition for values that no version from 1.0 to 1.8 wrote."""


class RecordedHost(NamedTuple):
    """A host that wrote to the database, with its first and last time as text in the database's format."""

    name: str
    first: str
    last: str


class Contents:
    """Validated summary of a database: all rows are checked before any is imported.

    ``without_interval`` is whether any row belongs to no daemon run with a known interval.
    """

    def __init__(self, database: LegacyDatabase) -> None:
        """Read and check all rows. Raises DataError for content that no version from 1.0 to 1.8 wrote."""
        self._database = database
        self.where = database.where
        tables = {row[0] for row in self._database.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        missing = next((table for table in _COLUMNS if table not in tables), None)
        if missing is not None:
            raise DataError(f"{self.where} has no table {missing}: {REMEDY}")
        version = self._database.value("PRAGMA user_version")
        newer = f"user_version {version}" if version else None
        for table, (view, needed, later) in _COLUMNS.items():
            columns = self._columns(table)
            lacking = next((column for column in needed if column not in columns), None)
            if lacking is not None:
                raise DataError(f"{self.where} has no column {table}.{lacking}: {REMEDY}")
            newer = newer or next((f"column {table}.{name}" for name in columns if name not in {*needed, *later}), None)
            shown = ", ".join(name if name in columns else f"NULL AS {name}" for name in (*needed, *later))
            self._database.run(f"CREATE TEMP VIEW {view} AS SELECT rowid AS row, {shown} FROM main.{table}")  # noqa: S608 - own text
        if newer is not None:
            msg = f"{self.where} has the {newer}, which no version up to 1.8 made: import it with a newer gua"
            raise DataError(msg)
        self.card_rows = self._check_rows("gpu_sample")
        if not self.card_rows:
            raise DataError(f"{self.where} holds no samples: there is nothing to import")
        self.process_rows = self._check_rows("proc_sample")
        self.cards: tuple[str, ...] = tuple(
            str(row[0]) for row in database.rows("SELECT DISTINCT gpu_uuid FROM card_row ORDER BY gpu_uuid")
        )
        self.models = {
            uuid: (str(name)[:256] if name else None, mib if isinstance(mib, int) and 0 < mib <= _MOST_MIB else None)
            for uuid, name, mib in self._later("SELECT gpu_uuid, name, memory_total_mb FROM gpu_device")
        }
        """Model and memory [MiB] by card UUID; ``None`` if unknown."""
        self.hosts, self.driver_version = self._hosts()
        self.runs = self._runs("card_row")
        intervals: dict[int | None, int] = {}
        for run, seconds in self._later("SELECT id, interval_seconds FROM daemon_run"):
            if not isinstance(seconds, int | float) or not 0.001 <= seconds <= MAX_INTERVAL_MS / 1000:
                raise DataError(f"{self.where}: the interval of run {run} is {seconds!r} seconds: nothing was imported")
            intervals[run] = round(seconds * 1000)
        self.intervals_ms = intervals
        self.without_interval = bool(self.runs - self.intervals_ms.keys())
        # From 1.4 on ``usage_state`` is NULL if the process list could not be read. Earlier versions stored neither
        # unreadable lists nor processes of unknown memory: their lists are trusted in runs with a compute process.
        self.runs_with_state = self._runs("card_row WHERE usage_state IS NOT NULL")
        self.runs_with_lists: frozenset[int | None] = frozenset()
        if self.runs - self.runs_with_state:
            self.runs_with_lists = self._runs("process_row WHERE ifnull(process_type, 'compute') = 'compute'")

    def interval_ms(self, default_ms: int | None) -> dict[int | None, int]:
        """Return the interval [ms] by daemon run; unknown ones are ``default_ms``, else the rows' median distance.

        Raises UsageError if no median can be computed, or if it is more than a day.
        """
        known = {run: self.intervals_ms[run] for run in self.runs & self.intervals_ms.keys()}
        unknown = self.runs - known.keys()
        return known | (dict.fromkeys(unknown, default_ms or self._median_ms(unknown)) if unknown else {})

    def _columns(self, table: str) -> frozenset[str]:
        return frozenset(row[1] for row in self._database.rows(f"PRAGMA table_info({table})"))

    def _later(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query on a table that 1.0.0 lacked; none if the table is missing."""
        is_there = self._columns(sql.partition(" FROM ")[2].split()[0])
        return self._database.rows(sql) if is_there else iter(())

    def _check_rows(self, table: str) -> int:
        """Return the number of rows. Raises DataError for damage, or for a value that no version wrote."""
        self._database.check(table)
        counts, view = ", ".join(f"sum({fault})" for fault in _FAULTS[table].values()), _COLUMNS[table][0]
        count, *bad = self._database.row(f"SELECT count(*), {counts} FROM {view}")  # noqa: S608 - own text
        for column, number in zip(_FAULTS[table], bad, strict=True):
            if not number:
                continue
            shown = f"CASE WHEN typeof({column}) IN ('text', 'blob') THEN substr({column}, 1, 60) ELSE {column} END"
            query = f"SELECT row, {shown} FROM {view} WHERE {_FAULTS[table][column]}"  # noqa: S608 - own text
            row, value = self._database.row(query)
            more = f", nor the like in {number - 1:,} more" if number > 1 else ""
            raise DataError(
                f"{self.where}: {table}.{column} is {value!r} in row {row}, which no version from 1.0 to 1.8 wrote"
                f"{more}: nothing was imported"
            )
        return int(count)

    def _hosts(self) -> tuple[tuple[RecordedHost, ...], str | None]:
        columns = "hostname, first_seen, last_seen, driver_version"
        rows = list(self._later(f"SELECT {columns} FROM host ORDER BY first_seen"))  # noqa: S608 - own text
        hosts = tuple(RecordedHost(*map(str, row[:3])) for row in rows if row[0])
        return hosts, str(rows[-1][3])[:256] if rows and rows[-1][3] else None

    def _runs(self, rows: str) -> frozenset[int | None]:
        return frozenset(row[0] for row in self._database.rows(f"SELECT DISTINCT run_id FROM {rows}"))  # noqa: S608 - own text

    def _median_ms(self, runs: frozenset[int | None]) -> int:
        spacings = Spacings()
        for card in self.cards:
            stamps = Timestamps(UTC)
            before_ms: int | None = None
            sql = "SELECT ts, run_id FROM card_row WHERE gpu_uuid = ? ORDER BY ts"
            for ts, of_run in self._database.rows(sql, (card,)):
                ts_ms = stamps.parse(ts)
                if before_ms is not None and ts_ms > before_ms and of_run in runs:
                    spacings.add(ts_ms - before_ms)
                before_ms = ts_ms if of_run in runs else None
        try:
            return spacings.nominal_interval_ms()
        except UsageError as error:
            raise UsageError(f"{self.where}: {error}") from None
