"""The store: the same statements, views and landing on an embedded engine and on a server."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gua.core.errors import TransientError, UnavailableError
from gua.core.parameters import PARAMETERS
from gua.store import hours, table_files, user_query
from gua.store.connection import QueryError, connect, translated
from gua.store.directory import PATIENCE_SECONDS, StoreDirectory, ignore
from gua.store.dsn import EmbeddedDsn, ServerDsn, parse_dsn
from gua.store.engine import ALONE, Handles, check_engine, engine_version, require_addresses
from gua.store.report_views import (
    DATABASE,
    SentTicks,
    TickTables,
    ViewsOfServer,
    bound_call,
    bound_query,
    report_views,
    without_ticks,
)
from gua.store.schema import Schema, this_version

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.external import ExternalData
    from clickhouse_connect.driver.query import QueryResult

    from gua.core.ports import SpooledTick
    from gua.store.tick_rows import TableLines

_KEEP_NOTICES: Final = (
    "INSERT INTO gua.notices SELECT * REPLACE (now64(3, 'UTC') AS written) FROM gua.notices AS before FINAL "
    "WHERE has({holders:Array(String)}, concat(kind, ' ', holder)) AND before.written < now64(3) - INTERVAL 1 DAY "
    "SETTINGS distributed_foreground_insert = 1"
)
_MOST_HOLDERS: Final = 500
QUERY_MEMORY_BYTES = 300_000_000
# Per report. A page sends one query per host for hosts read from ticks. A server user's memory allows twenty
# queries at a time, each of up to a minute.
MOST_QUERIES_AT_ONCE = 8
_PARAMETER_TYPES = {name: parameter.type for name, parameter in PARAMETERS.items()}
READ_SETTINGS = {
    "max_memory_usage": QUERY_MEMORY_BYTES,
    "do_not_merge_across_partitions_select_final": 1,
    "session_timezone": "UTC",
    # A report runs each query once: compiling its expressions takes longer than it saves.
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
}
# Report queries only: planning is most of their time, and these settings save a sixth. Their views filter the window
# themselves. In gua_public's views a filter on time reaches the partitions only with merged plans.
_REPORT_SETTINGS = {
    "query_plan_merge_expressions": 0,
    # Each of these passes compares columns pairwise, including the whole query behind each column.
    "optimize_syntax_fuse_functions": 0,
    "optimize_group_by_function_keys": 0,
    "optimize_and_compare_chain": 0,
    "optimize_extract_common_expressions": 0,
    "optimize_aggregators_of_group_by_keys": 0,
}
REPORT_SETTINGS = READ_SETTINGS | _REPORT_SETTINGS
# Set on this version's embedded engine and on servers that know them; scripts of --sql do not get them.
_ENGINE_SETTINGS = {
    # Saves a twentieth of a report's time.
    "query_plan_remove_unused_columns": 0,
    "enable_join_runtime_filters": 0,
}
# Views that a server answers for parts of a fleet at the same time: on several threads, their window functions cost up
# to three times the CPU time. Not a setting of the views themselves: in a subquery it makes windows over a Distributed
# table incomplete.
_ONE_THREAD = frozenset({"card_streaks", "holders", "overview", "usage"})


def view_call(view: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return the SQL that selects the rows of ``gua_report.<view>``, and the values to bind."""
    call, values = bound_call(parameters, _PARAMETER_TYPES)
    return f"SELECT * FROM gua_report.{view}{call}", values  # noqa: S608 - gua's own names, bound values


def external_tables(tables: Mapping[str, bytes]) -> ExternalData | None:
    """Return tables to send with a query, each by its name and an answer in TabSeparatedWithNamesAndTypes.

    Source: https://clickhouse.com/docs/engines/table-engines/special/external-data.
    """
    if not tables:
        return None
    from clickhouse_connect.driver.external import ExternalData  # noqa: PLC0415 - only needed on a server

    external = ExternalData()
    for name, answer in tables.items():
        names, types, rows = answer.split(b"\n", 2)
        columns = zip(names.decode().split("\t"), types.decode().replace("\\'", "'").split("\t"), strict=True)
        structure = ", ".join(f"{column} {type_name}" for column, type_name in columns)
        external.add_file(file_name=name, data=rows, fmt="TabSeparated", structure=structure)
    return external


def _used(sql: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters that ``sql`` uses: with any other the client would apply Python's "%" formatting."""
    return {name: value for name, value in parameters.items() if f"{{{name}:" in sql}


class AnswerRows:
    """Rows as mappings by column name, stored as the column blocks that the engine returned.

    Each is built on iteration, as 10,000 cards would fill a report's memory. A column of known numbers takes eight
    bytes a value; equal texts in a column share one object.
    """

    def __init__(self, names: Sequence[str], blocks: Sequence[Sequence[Sequence[Any]]]) -> None:
        self._names = names
        self._blocks = blocks

    def __len__(self) -> int:
        return sum(len(block[0]) for block in self._blocks)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for block in self._blocks:
            for row in zip(*block, strict=True):
                yield dict(zip(self._names, row, strict=True))


def read_rows(result: QueryResult) -> AnswerRows:
    """Return the rows of a ``SELECT`` result, read block by block."""
    # One dictionary per column: the key (None,) fits numbers and texts, and (1,) equals (1.0,).
    known: list[dict[object, object]] = [{} for _ in result.column_names]
    with result.column_block_stream as blocks:
        kept = [[*map(_each_text_once, block, known)] for block in blocks]
    return AnswerRows(result.column_names, kept)


def _each_text_once(column: Sequence[Any], known: dict[object, object]) -> Sequence[Any]:
    if not len(column) or not _is_text(column[0]):
        return column
    return [known.setdefault(value, value) for value in column]


def _is_text(value: object) -> bool:
    """Return whether ``value`` is a text, or a tuple of texts and ``None``."""
    if isinstance(value, tuple):
        return all(part is None or isinstance(part, str) for part in value)
    return isinstance(value, str)


class Store(AbstractContextManager["Store"]):
    """An open store, embedded or on a server. Created by :func:`open_store`."""

    is_concurrent: Final = True
    """Several threads may query at the same time."""

    def __init__(self, dsn: EmbeddedDsn | ServerDsn, client: Client, directory: StoreDirectory | None) -> None:
        self.dsn = dsn
        self._client = client
        self._directory = directory
        self._landed = False
        self._handles = (
            Handles(client, lambda: connect(dsn, data=str(directory.data))) if directory is not None else None
        )
        self._turns = itertools.count(1)
        self._query_slots = threading.BoundedSemaphore(MOST_QUERIES_AT_ONCE)
        self._ticks = TickTables(report_views(), self._command, self._read) if directory is not None else None
        self._has_views = False
        self.is_single_threaded = False
        """Set for few and short queries of an embedded store: a thread each takes less CPU."""
        self.schema = Schema(dsn, client, self.select, embedded=directory is not None)
        self._server_views = ViewsOfServer(self.schema.applied, this_version)
        self._sent_ticks = SentTicks(self._server_views.query, self._read_raw)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and release the directory. If an embedded store landed rows, merge and clean it first."""
        if self._directory is None:
            self._client.close()
            return
        replaced: list[Path] = []
        try:
            if self._landed:
                with translated(self.dsn):
                    table_files.merge_crowded(self._client)
                    replaced = table_files.replaced_parts(self._client, self._directory.data)
        finally:
            if self._handles is not None:
                self._handles.close()
            table_files.remove_parts(replaced)
            self._directory.release()

    def throw_away(self) -> None:
        """Skip merging and cleaning on close for rows landed so far: the caller deletes the directory."""
        self._landed = False

    @property
    def is_embedded(self) -> bool:
        """Whether the engine is in this process. Only a server rolls up hours and merges parts by itself."""
        return self._directory is not None

    def engine(self) -> str:
        """Return the engine's version, as in ``26.9.2.1``."""
        with translated(self.dsn):
            return str(self._client.command("SELECT version()"))

    def land(self, batch: Sequence[SpooledTick]) -> list[SpooledTick]:
        """Insert spooled ticks; return those that the engine refuses permanently. Landing is idempotent."""
        from gua.store import landing  # noqa: PLC0415 - only needed for landing

        def insert(part: Sequence[SpooledTick]) -> None:
            with translated(self.dsn):
                if self._directory is None:
                    landing.insert_server(self._client, part)
                else:
                    self._landed = True
                    landing.insert_embedded(self._client, part, self._directory.path)

        try:
            others = batch if self._directory is None else landing.land_rows(batch, self.land_lines)
            refused = landing.land_bisecting(others, insert)
            if len(refused) == len(batch) > 1:
                insert(batch)  # raises: if every tick is refused, the cause is not the ticks
            return refused
        finally:
            self._forget_ticks()

    def land_lines(self, lines: Iterable[TableLines]) -> None:
        """Insert rows of tables into an embedded store, in order. Idempotent. Raises ValueError on a server's store."""
        from gua.store import landing  # noqa: PLC0415 - only needed for landing

        if self._directory is None:
            raise ValueError("rows of ticks are for an embedded store")
        self._landed = True
        try:
            with translated(self.dsn):
                landing.insert_rows(self._client, lines, self._directory.path)
        finally:
            self._forget_ticks()

    def flush(self) -> None:
        """Sync landed rows to the disk of an embedded store; a no-op on a server. Raises UnavailableError."""
        if self._directory is not None and self._landed:
            try:
                table_files.sync_filesystem(self._directory.data)
            except OSError as error:
                msg = f"the disk of the store {self._directory.path} fails ({error.strerror}): check it"
                raise UnavailableError(msg) from None

    def count_hours(self, *, anew: bool = False, most: int | None = None) -> int:
        """Roll up the pending hours; return the number of rows (one per host and hour) written.

        ``anew`` marks every hour that has ticks as pending. ``most`` limits one call to so many rows, or, without a
        pending hour, to merging days: call it until it returns 0. A server skips hours with ticks from the last 10
        seconds, and also rolls up by itself.
        """
        if anew:
            self._run(hours.MARK_ALL)
        return hours.roll_up(self.select, self._run, most=most)

    def _run(self, sql: str) -> None:
        # One thread: it takes a fifth less CPU time and less memory than two.
        settings = {**self._settings, "max_threads": 1} if self.is_embedded else {}
        try:
            with translated(self.dsn):
                self._client.command(sql, settings=settings)
        finally:
            self._forget_ticks()

    def _forget_ticks(self) -> None:
        self._sent_ticks.forget()
        if self._ticks is not None:
            self._ticks.forget()

    def merge(self) -> None:
        """Merge bulk-landed parts of an embedded store for faster reads; a server merges by itself."""
        if self._directory is not None:
            with translated(self.dsn):
                table_files.merge_crowded(self._client, most_parts=1)

    def rows(self, view: str, parameters: Mapping[str, object]) -> AnswerRows:
        """Return the rows of ``gua_report.<view>`` with the bound ``parameters``."""
        if self._ticks is not None:
            with self._ticks.reading(report_views().query(view), parameters) as sql:
                return self._select(sql, parameters, self._report_settings())
        settings = self._report_settings(view)
        try:
            if query := self._server_views.query(view):
                if view == "hours":  # each report begins with it
                    self._sent_ticks.forget()
                query, tables = self._sent_ticks.sent_with(without_ticks(query, parameters), parameters)
                sql, values = bound_query(query, parameters, _PARAMETER_TYPES)
                return self._select(sql, values, settings, tables)
        except QueryError as error:
            if not error.no_right:
                raise
            self._server_views.refuse()
        return self._select(*view_call(view, parameters), settings)

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows into the table ``gua.<table>``. On a cluster they are stored on their shards on return."""
        # Not the client's insert: its first call imports pandas if installed, 1.5 s. The setting is part of the
        # statement, so that the server itself rejects a user without the right to write.
        sql = f"INSERT INTO gua.{table} SETTINGS distributed_foreground_insert = 1 FORMAT JSONEachRow"
        try:
            with translated(self.dsn):
                self._client.command(sql, data="\n".join(json.dumps(row) for row in rows).encode())
        finally:
            self._forget_ticks()

    def keep_notices(self, holders: Sequence[str]) -> None:
        """Write notices that are older than a day anew, so that they do not expire; holders are ``<kind> <holder>``."""
        with translated(self.dsn):
            for first in range(0, len(holders), _MOST_HOLDERS):
                part = list(holders[first : first + _MOST_HOLDERS])
                self._client.command(_KEEP_NOTICES, parameters={"holders": part})

    def select(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[Mapping[str, Any]]:
        """Return the rows of a query. Concurrent queries of an embedded store share one query's memory limit."""
        settings = _REPORT_SETTINGS if self._directory is not None and DATABASE in sql else {}
        return list(self._select(sql, parameters or {}, settings))

    def _select(
        self,
        sql: str,
        parameters: Mapping[str, object],
        settings: Mapping[str, object],
        tables: Mapping[str, bytes] = MappingProxyType({}),
    ) -> AnswerRows:
        if self._handles is None:
            with self._query_slots:
                return self._query(self._client, sql, parameters, settings, tables)
        turn = next(self._turns)  # first in, first served, also for queries that wait for a shared tick table
        shared = {"max_memory_usage": QUERY_MEMORY_BYTES // self._handles.most}
        try:
            with self._handles.lent(turn) as handle:
                return self._query(handle, sql, parameters, {**settings, **shared})
        except TransientError:
            if self._handles.most == 1:
                raise
            with self._handles.lent(ALONE) as handle:
                return self._query(handle, sql, parameters, settings)

    def answer(self, sql: str) -> user_query.StatementResult:
        """Return the result of a user's read-only statement; see :mod:`user_query`."""
        if self._directory is None:
            return user_query.run_statement(self._client, self.dsn, sql, settings={})
        if DATABASE in sql and not self._has_views:
            for statement in report_views().statements():
                self._command(statement, {})
            self._has_views = True
        client = connect(self.dsn, data=str(self._directory.data))
        try:
            settings = {**self._settings, **(_REPORT_SETTINGS if DATABASE in sql else {})}
            return user_query.run_statement(client, self.dsn, sql, settings=settings)
        finally:
            client.close()

    def _command(self, sql: str, parameters: Mapping[str, object]) -> None:
        """Run a statement of an embedded store on an unused handle: other queries wait for its result."""
        if self._handles is not None:
            if parameters:
                # As part of the statement: the client sets and resets each setting of a command separately.
                settings = {**self._settings, **self._report_settings()}
                sql = f"{sql}\nSETTINGS {', '.join(f'{name} = {value!r}' for name, value in settings.items())}"
            with self._handles.lent() as handle, translated(self.dsn):
                handle.command(sql, parameters=dict(parameters))

    def _read(self, sql: str, parameters: Mapping[str, object]) -> list[Mapping[str, Any]]:
        if self._handles is None:
            return []
        with self._handles.lent() as handle:
            return list(self._query(handle, sql, parameters, self._report_settings()))

    def _read_raw(self, sql: str, parameters: Mapping[str, object]) -> bytes:
        """Return the answer of a server as TabSeparatedWithNamesAndTypes."""
        sql, values = bound_query(sql, parameters, _PARAMETER_TYPES)
        with self._query_slots, translated(self.dsn):
            return self._client.raw_query(
                sql, _used(sql, values), settings=dict(self._report_settings()), fmt="TabSeparatedWithNamesAndTypes"
            )

    def _query(
        self,
        client: Client,
        sql: str,
        parameters: Mapping[str, object],
        settings: Mapping[str, object],
        tables: Mapping[str, bytes] = MappingProxyType({}),
    ) -> AnswerRows:
        settings = {**self._settings, **settings}
        with translated(self.dsn):
            return read_rows(
                client.query(sql, _used(sql, parameters), settings=settings, external_data=external_tables(tables))
            )

    def _report_settings(self, view: str = "") -> Mapping[str, object]:
        """Return settings for queries of a report, without those that a server does not know or let its user change."""
        if self._directory is not None:
            return _REPORT_SETTINGS
        known = self._client.server_settings
        settings = _REPORT_SETTINGS | _ENGINE_SETTINGS | ({"max_threads": 1} if view in _ONE_THREAD else {})
        return {name: value for name, value in settings.items() if name in known and not known[name].readonly}

    @property
    def _settings(self) -> dict[str, Any]:
        """Settings for every query on the embedded engine; empty for a server, where the user's profile has them."""
        threads = {"max_threads": 1} if self.is_single_threaded else {}
        return {**READ_SETTINGS, **_ENGINE_SETTINGS, **threads} if self._directory else {}


def open_store(
    dsn: str,
    *,
    password: str | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    warn: Callable[[str], None] = ignore,
) -> Store:
    """Open the store at address ``dsn``; create or upgrade an embedded one if needed.

    ``warn`` receives one message if another process has the embedded store open for more than a second.
    Raises UsageError (the address), UnavailableError (cannot be used), TransientError (in use, or a
    server that is down).
    """
    parsed = parse_dsn(dsn, password=password)
    if isinstance(parsed, ServerDsn):
        return Store(parsed, connect(parsed), None)
    require_addresses(parsed)
    running = engine_version()
    directory = StoreDirectory(parsed.path)
    directory.hold(patience_seconds=patience_seconds, warn=warn)
    try:
        stamped = directory.stamped_engine()
        check_engine(parsed.path, stamped=stamped, running=running)
        if stamped != running:
            directory.stamp(running)
        store = Store(parsed, connect(parsed, data=str(directory.data)), directory)
    except BaseException:
        directory.release()
        raise
    try:
        store.schema.complete()
    except BaseException:
        store.close()
        raise
    return store
