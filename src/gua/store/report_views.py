"""Queries of the ``gua_report`` views, and tables of a report's unrolled ticks.

A report runs a view's query directly, as planning the view takes twice as long. An embedded store has no report
views: the engine would parse them at each opening.
"""

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from gua.core.batches import in_batches
from gua.core.errors import UnavailableError
from gua.store.statements import EMBEDDED_TOKENS, Statement, load, server_tokens

DATABASE: Final = "gua_report"
_MAKE_DATABASE: Final = f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Memory COMMENT 'Views of reports'"
_MAKES_DATABASE: Final = re.compile(rf"^CREATE DATABASE IF NOT EXISTS {DATABASE}\b", re.MULTILINE)
_WINDOW: Final = ("since_ms", "until_ms", "hosts", "tick_hours")
# Call of a tick view, as the token ${TICK_WINDOW} writes it; replaced by a table with the same columns.
_TICKS: Final = re.compile(
    rf"\b{DATABASE}\.(?P<view>tick_\w+)\(since_ms = \{{since_ms:Int64\}}, until_ms = \{{until_ms:Int64\}}, "
    r"hosts = \{hosts:Array\(String\)\}, tick_hours = \{tick_hours:Array\(Int64\)\}\)"
)
_TABLE_OF: Final = {
    "tick_cards": "hourly_cards",
    "tick_card_intervals": "card_intervals",
    "tick_process_intervals": "process_intervals",
    "tick_allocation_intervals": "allocation_intervals",
    "tick_sources": "hourly_sources",
}
# Columns that only rollups have.
_OF_ROLLUPS: Final = frozenset({"written", "marks", "fingerprint"})
_OF_INTERVALS: Final = _OF_ROLLUPS | {"first_ms"}
_NO_HOURS: Final = [-1]  # same value as in gua.report.hours: an empty array has no element type in SQL
_MOST_WINDOWS: Final = 4
# Card ticks to roll up in one query, whose limit is 300 MB. Windows of up to _FEW_HOURS hours are not counted first.
_MOST_CARD_TICKS: Final = 200_000
_FEW_HOURS: Final = 4
# Of the rows of one tick view: those of processes of 10,000 cards would be some 30 MB an hour.
_MOST_BYTES: Final = 8 * 2**20
_HOUR_TICKS: Final = (
    "SELECT intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) AS hour, count() AS ticks FROM gua.card_ticks "
    "WHERE hour IN {tick_hours:Array(Int64)} AND (empty({hosts:Array(String)}) OR host IN {hosts:Array(String)}) "
    "GROUP BY hour ORDER BY hour"
)

# A server rejects request fields over 128 KiB (http_max_field_value_size), which 2,000 hosts with long names exceed: a
# long list is sent as several parameters that arrayConcat joins. Quoting and escaping may double the characters of a
# name, and each takes up to 4 bytes.
_PART_CHARACTERS: Final = 12_000

Parameters = Mapping[str, object]


class ReportViews:
    """Views of ``gua_report`` among rendered statements, by name."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._statements = {one.creates[1]: one for one in statements if one.creates and one.creates[0] == DATABASE}

    def query(self, view: str) -> str:
        """Return the query of a view, without comments. Raises UnavailableError if this version has no such view."""
        if view not in self._statements:
            raise UnavailableError(f"there is no view {DATABASE}.{view} in this version")
        query = self._statements[view].select or ""
        return "\n".join(line for line in query.splitlines() if not line.lstrip().startswith("--"))

    def statements(self) -> Iterator[str]:
        """Yield statements that create all views in a memory database, for user statements that reference them."""
        yield _MAKE_DATABASE
        for one in self._statements.values():
            yield one.sql.replace("CREATE OR REPLACE VIEW", "CREATE VIEW IF NOT EXISTS", 1)


def without_ticks(query: str, parameters: Parameters) -> str:
    """Return the query with empty tables for its tick views if ``tick_hours`` contains no hour; else unchanged.

    Planning those views takes most of a small report's time.
    """
    if parameters.get("tick_hours") != _NO_HOURS:
        return query
    return _TICKS.sub(lambda call: f"(SELECT * FROM gua.{_TABLE_OF[call['view']]} WHERE false)", query)  # noqa: S608 - names of tables


def without_report_views(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements of an embedded store: all but those for ``gua_report``."""
    return [
        one
        for one in statements
        if not (one.creates and one.creates[0] == DATABASE) and not _MAKES_DATABASE.search(one.sql)
    ]


@cache
def report_views() -> ReportViews:
    """Return the report views of an embedded store; cached."""
    return ReportViews(load(EMBEDDED_TOKENS))


class ViewsOfServer:
    """Report views of a server, replaced by their queries if the server has this version's schema.

    ``applied`` and ``ours`` return (schema version, digest): of the schema applied last, and of this version for one
    server. A view runs with its owner's rights, a query with the user's rights.
    """

    def __init__(self, applied: Callable[[], tuple[int, str]], ours: Callable[[], tuple[int, str]]) -> None:
        self._applied = applied
        self._ours = ours
        self._views: ReportViews | None = None
        self._is_known = False
        self._lock = threading.Lock()

    def query(self, view: str) -> str | None:
        """Return the query to run in place of a view; ``None`` if the view itself must be queried."""
        with self._lock:
            if not self._is_known:
                if self._applied() == self._ours():
                    self._views = ReportViews(load(server_tokens()))
                self._is_known = True
            views = self._views
        return None if views is None else views.query(view)

    def refuse(self) -> None:
        """Query the views themselves from now on: the user may not read the tables."""
        with self._lock:
            self._is_known, self._views = True, None


class _WindowTables:
    """Tables of one window by view, each filled by one thread, and the number of queries that read them now."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.filled: dict[str, str] = {}
        self.parts: list[list[int]] = []
        self.readers = 0
        self.locks = {name: threading.Lock() for name in (*_TABLE_OF, "hours")}


class TickTables:
    """In-memory tables of an embedded engine with rollups of the ticks in a report's window.

    Hours that have no rollup, or that the window cuts, are rolled up once, in batches that fit a query's memory. All
    queries of the report read the result. ``command`` runs a statement with parameters, ``select`` a query.
    """

    def __init__(
        self,
        views: ReportViews,
        command: Callable[[str, Parameters], object],
        select: Callable[[str, Parameters], Iterable[Mapping[str, Any]]],
    ) -> None:
        self._views = views
        self._command = command
        self._select = select
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._windows: dict[str, _WindowTables] = {}
        self._retired: list[_WindowTables] = []

    @contextmanager
    def reading(self, sql: str, parameters: Parameters) -> Iterator[str]:
        """Yield ``sql`` with tables in place of its tick views, filled if missing, and kept until the block ends."""
        if not _TICKS.search(sql):
            yield sql
            return
        bounds = _window(parameters)
        with self._lock:
            window = self._windows.get(repr(bounds))
            if window is None:
                self._retire(list(self._windows)[: 1 - _MOST_WINDOWS])
                window = self._windows[repr(bounds)] = _WindowTables()
            window.readers += 1
        try:
            yield _TICKS.sub(lambda call: self._filled(window, call["view"], bounds), sql)
        finally:
            with self._lock:
                window.readers -= 1
                self._drop_unread()

    def forget(self) -> None:
        """Forget all tables, as the store's ticks changed; one that a query reads is dropped when the query ends."""
        with self._lock:
            self._retire(list(self._windows))

    def _filled(self, window: _WindowTables, view: str, bounds: Parameters) -> str:
        """Return the name of a view's table. Other tables of the window can be filled at the same time."""
        with window.locks[view]:
            if view not in window.filled:
                name = f"{DATABASE}.{view}_{next(self._numbers)}"
                window.made.append(name)
                self._command(_MAKE_DATABASE, {})
                self._command(f"CREATE TABLE {name} AS gua.{_TABLE_OF[view]} ENGINE = Memory", {})
                # The names of the columns are those of the table: describing the query would plan it twice.
                left_out = _OF_INTERVALS if view.endswith("_intervals") else _OF_ROLLUPS
                described = self._select(f"DESCRIBE TABLE {name}", {})
                columns = ", ".join(row["name"] for row in described if row["name"] not in left_out)
                insert = f"INSERT INTO {name} ({columns})\nSELECT {columns} FROM\n(\n{self._views.query(view)}\n)"
                for hours in self._split(window, bounds):
                    self._command(insert, {**bounds, "tick_hours": hours})
                window.filled[view] = name
            return window.filled[view]

    def _split(self, window: _WindowTables, bounds: Parameters) -> list[list[int]]:
        """Return the hours to roll up in batches, made once for a window."""
        hours = list(bounds.get("tick_hours", ()))  # type: ignore[call-overload] # a sequence of numbers
        if len(hours) <= _FEW_HOURS:
            return [hours] if hours else []
        with window.locks["hours"]:
            if not window.parts:
                batches = in_batches(self._select(_HOUR_TICKS, bounds), _MOST_CARD_TICKS, _card_ticks)
                window.parts = [[row["hour"] for row in batch] for batch in batches] or [hours]
            return window.parts

    def _retire(self, keys: Iterable[str]) -> None:
        self._retired += [self._windows.pop(key) for key in keys]
        self._drop_unread()

    def _drop_unread(self) -> None:
        for window in [window for window in self._retired if not window.readers]:
            self._retired.remove(window)
            for name in window.made:
                self._command(f"DROP TABLE IF EXISTS {name}", {})


def _window(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of the tick views, empty without hours to read from ticks."""
    return {name: parameters[name] for name in _WINDOW} if parameters["tick_hours"] not in ([], _NO_HOURS) else {}


class SentTicks:
    """Rollups of the few unrolled ticks in a report's window, read once from a server and sent with its queries.

    The reader of a server cannot create tables, and planning the tick views in each query takes half of a report's
    time. ``views`` returns the query of a view, ``read`` the answer of a query as TabSeparatedWithNamesAndTypes.
    """

    def __init__(self, views: Callable[[str], str | None], read: Callable[[str, Parameters], bytes]) -> None:
        self._views = views
        self._read = read
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str], bytes] = {}

    def sent_with(self, query: str, parameters: Parameters) -> tuple[str, dict[str, bytes]]:
        """Return the query with tables in place of its tick views, and the answer that each table, by name, holds.

        A query of many hours, or of a view with more than 8 MB of rows, is returned unchanged, without tables.
        """
        names = sorted({call["view"] for call in _TICKS.finditer(query)})
        hours = parameters.get("tick_hours")
        if not names or not isinstance(hours, Sequence) or not 0 < len(hours) <= _FEW_HOURS:
            return query, {}
        window = {name: parameters[name] for name in _WINDOW}
        with self._lock:
            answers = {name: self._answer(name, window) for name in names}
        if not all(answers.values()):
            return query, {}
        return _TICKS.sub(lambda call: call["view"], query), answers

    def forget(self) -> None:
        """Read the ticks anew from now on."""
        with self._lock:
            self._answers.clear()

    def _answer(self, name: str, window: Parameters) -> bytes:
        """Return the rows of a tick view with their header, nothing if they are too large to send."""
        key = (name, repr(window))
        if key not in self._answers:
            answer = self._read(self._views(name) or "", window)
            self._answers[key] = answer if len(answer) <= _MOST_BYTES else b""
        return self._answers[key]


def _card_ticks(row: Mapping[str, Any]) -> int:
    return int(row["ticks"])


def bound_call(parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return ``(name = {name:Type}, …)`` and the values to bind. The SQL contains only gua's own names."""
    written, values = _bound(parameters, types)
    call = ", ".join(f"{name} = {expression}" for name, expression in written.items())
    return (f"({call})" if call else ""), values


def bound_query(sql: str, parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return ``sql`` with its ``{name:Type}`` placeholders for the bound parameters, and the values to bind."""
    written, values = _bound(parameters, types)
    for name, expression in written.items():
        sql = sql.replace(f"{{{name}:{types[name]}}}", expression)
    return sql, values


def _bound(parameters: Mapping[str, object], types: Mapping[str, str]) -> tuple[dict[str, str], dict[str, object]]:
    """Return the SQL expression of each parameter by name, and the values to bind."""
    written: dict[str, str] = {}
    values: dict[str, object] = {}
    for name, value in parameters.items():
        parts: list[object] = [value]
        if isinstance(value, (list, tuple)):
            parts = [*in_batches(value, _PART_CHARACTERS, lambda one: len(str(one)) + 3)]
        if len(parts) <= 1:
            values[name] = value
            written[name] = f"{{{name}:{types[name]}}}"
            continue
        numbered = {f"{name}_{number}": part for number, part in enumerate(parts)}
        values |= numbered
        joined = ", ".join(f"{{{one}:{types[name]}}}" for one in numbered)
        written[name] = f"arrayConcat({joined})"
    return written, values
