"""The one store: the same statements, views and landing on an embedded engine and on a server."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from gua.core.errors import TransientError, UnavailableError
from gua.core.parameters import PARAMETERS
from gua.store import asking, hours, table_files
from gua.store.answer_rows import AnswerRows, rows_of
from gua.store.binding import bound_call, bound_query
from gua.store.connection import QueryError, connect, translated
from gua.store.directory import PATIENCE_SECONDS, StoreDirectory, nobody
from gua.store.dsn import EmbeddedDsn, ServerDsn, parse_dsn
from gua.store.engine import check_engine, engine_version, require_addresses
from gua.store.handles import Handles
from gua.store.report_views import DATABASE, TickTables, ViewsOfServer, report_views, without_ticks
from gua.store.schema import Schema, this_version

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from gua.core.ports import SpooledTick
    from gua.store.tick_rows import TableLines, TickRows

QUERY_MEMORY_BYTES = 300_000_000
# Of one report. A page asks a question for each host of those that read ticks; a user of a server has memory for twenty
# questions, and each has a minute.
MOST_QUESTIONS_AT_ONCE = 8
_PARAMETER_TYPES = {name: parameter.type for name, parameter in PARAMETERS.items()}
READ_SETTINGS = {
    "max_memory_usage": QUERY_MEMORY_BYTES,
    "do_not_merge_across_partitions_select_final": 1,
    "session_timezone": "UTC",
    # A report asks each question once: compiling its expressions takes longer than it saves.
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
}
# Of the questions of a report alone, nearly all of whose time is making plans: a sixth of it. Their views hold the
# window by themselves. Through those of gua_public a filter on time reaches the partitions only with merged plans.
_REPORT_SETTINGS = {
    "query_plan_merge_expressions": 0,
    # Each of them compares columns one with another, and with each column all of the query that it comes from.
    "optimize_syntax_fuse_functions": 0,
    "optimize_group_by_function_keys": 0,
    "optimize_and_compare_chain": 0,
    "optimize_extract_common_expressions": 0,
    "optimize_aggregators_of_group_by_keys": 0,
}
REPORT_SETTINGS = READ_SETTINGS | _REPORT_SETTINGS
# What the embedded engine of this version is told, and a server that knows it, beyond the scripts of --sql.
_ENGINE_SETTINGS = {
    # A twentieth of the time of a report.
    "query_plan_remove_unused_columns": 0,
    "enable_join_runtime_filters": 0,
}


def call_of(view: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return the SQL that asks for the rows of ``gua_report.<view>``, and the values to bind."""
    call, values = bound_call(parameters, _PARAMETER_TYPES)
    return f"SELECT * FROM gua_report.{view}{call}", values  # noqa: S608 - view and names are ours, values are bound


class Store:
    """An open store. Made by :func:`open_store`."""

    is_concurrent: Final = True
    """Several threads may ask at the same time: a server's client and this process's engine let them."""

    def __init__(self, dsn: EmbeddedDsn | ServerDsn, client: Client, directory: StoreDirectory | None) -> None:
        self.dsn = dsn
        self._client = client
        self._directory = directory
        self._landed = False
        self._handles = (
            Handles(client, lambda: connect(dsn, data=str(directory.data))) if directory is not None else None
        )
        self._turns = itertools.count(1)
        self._asked_at_once = threading.BoundedSemaphore(MOST_QUESTIONS_AT_ONCE)
        self._ticks = TickTables(report_views(), self._command, self._read) if directory is not None else None
        self._has_views = False
        self.schema = Schema(dsn, client, self.select, embedded=directory is not None)
        self._server_views = ViewsOfServer(self.schema.applied, this_version)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and let the next process in; an embedded one that landed something is tidied up first."""
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
        """Do nothing for what was landed up to now when this closes: whoever made the directory removes it."""
        self._landed = False

    @property
    def is_embedded(self) -> bool:
        """Whether this process is the engine; a server counts hours and merges by itself."""
        return self._directory is not None

    def engine(self) -> str:
        """Return the engine's version, as in ``26.9.2.1``."""
        with translated(self.dsn):
            return str(self._client.command("SELECT version()"))

    def land(self, batch: Sequence[SpooledTick]) -> list[SpooledTick]:
        """Insert spooled ticks; return those that the engine refuses for good. Landing a tick again changes nothing."""
        from gua.store import landing  # noqa: PLC0415 - for those who land

        def insert(part: Sequence[SpooledTick]) -> None:
            with translated(self.dsn):
                if self._directory is None:
                    landing.insert_server(self._client, part)
                else:
                    self._landed = True
                    landing.insert_embedded(self._client, part, self._directory.path)

        try:
            others = batch if self._directory is None else landing.land_rows(batch, self._insert_rows)
            return landing.land_bisecting(others, insert, have_some_landed=len(others) < len(batch))
        finally:
            self._forget_ticks()

    def land_rows(self, rows: TickRows) -> None:
        """Insert ticks that were made into rows of an embedded store. Landing a tick again changes nothing."""
        try:
            self._insert_rows(rows.parts())
        finally:
            self._forget_ticks()

    def _insert_rows(self, parts: Iterable[TableLines]) -> None:
        from gua.store import landing  # noqa: PLC0415 - for those who land

        if self._directory is None:
            msg = "rows of ticks are for an embedded store"
            raise ValueError(msg)
        self._landed = True
        with translated(self.dsn):
            landing.insert_rows(self._client, parts, self._directory.path)

    def flush(self) -> None:
        """Return when what was landed has reached the disk; a server's own care. Raises UnavailableError."""
        if self._directory is not None and self._landed:
            try:
                table_files.sync_filesystem(self._directory.data)
            except OSError as error:
                msg = f"the disk of the store {self._directory.path} fails ({error.strerror}): check it"
                raise UnavailableError(msg) from None

    def count_hours(self, *, anew: bool = False) -> int:
        """Count the hours that are due, and return how many rows (a host in an hour) were written.

        With ``anew`` every hour that has ticks is due. On a server what arrived within the last seconds is not due
        yet; the server counts by itself, too.
        """
        if anew:
            self._run(hours.MARK_ALL)
        return hours.roll_up(self.select, self._run)

    def _run(self, sql: str) -> None:
        try:
            with translated(self.dsn):
                self._client.command(sql, settings=self._settings)
        finally:
            self._forget_ticks()

    def _forget_ticks(self) -> None:
        if self._ticks is not None:
            self._ticks.forget()

    def merge(self) -> None:
        """Merge what was landed in bulk, so that the next reads are fast; a server does it by itself."""
        if self._directory is not None:
            with translated(self.dsn):
                table_files.merge_crowded(self._client, most_parts=1)

    def rows(self, view: str, parameters: Mapping[str, object]) -> AnswerRows:
        """Return the rows of ``gua_report.<view>`` with its parameters bound."""
        if self._ticks is not None:
            sql = self._ticks.read(report_views().query(view), parameters)
            return self._select(sql, parameters, self._report_settings)
        try:
            if query := self._server_views.query(view):
                query = without_ticks(query, parameters)
                return self._select(*bound_query(query, parameters, _PARAMETER_TYPES), self._report_settings)
        except QueryError as error:
            if not error.no_right:
                raise
            self._server_views.refuse()
        return self._select(*call_of(view, parameters), self._report_settings)

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows into a table of ``gua`` at once; on a cluster they are on their shards when it returns."""
        # Not the client's insert: its first call imports pandas, 1.5 s, where that is installed. Settings stand in the
        # statement, so that it is the server that refuses a user who may not write.
        sql = f"INSERT INTO gua.{table} SETTINGS distributed_foreground_insert = 1 FORMAT JSONEachRow"
        try:
            with translated(self.dsn):
                self._client.command(sql, data="\n".join(json.dumps(row) for row in rows).encode())
        finally:
            self._forget_ticks()

    def select(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[Mapping[str, Any]]:
        """Return the rows of a statement. Questions asked at once share the memory of one; alone each has all of it."""
        settings = _REPORT_SETTINGS if self._directory is not None and DATABASE in sql else {}
        return list(self._select(sql, parameters or {}, settings))

    def _select(self, sql: str, parameters: Mapping[str, object], settings: Mapping[str, object]) -> AnswerRows:
        if self._handles is None:
            with self._asked_at_once:
                return self._ask(self._client, sql, parameters, settings)
        turn = next(self._turns)  # what is asked first is answered first, also where it waits for what others make
        shared = {"max_memory_usage": QUERY_MEMORY_BYTES // self._handles.most}
        try:
            with self._handles.lent(turn) as handle:
                return self._ask(handle, sql, parameters, {**settings, **shared})
        except TransientError:
            if self._handles.most == 1:
                raise
            with self._handles.alone() as handle:
                return self._ask(handle, sql, parameters, settings)

    def answer(self, sql: str) -> asking.Answer:
        """Return the answer to a statement of a user's own, which reads and nothing else; see :mod:`asking`."""
        if self._directory is None:
            return asking.ask(self._client, self.dsn, sql, settings={})
        if DATABASE in sql and not self._has_views:
            for statement in report_views().statements():
                self._command(statement, {})
            self._has_views = True
        client = connect(self.dsn, data=str(self._directory.data))
        try:
            settings = {**self._settings, **(_REPORT_SETTINGS if DATABASE in sql else {})}
            return asking.ask(client, self.dsn, sql, settings=settings)
        finally:
            client.close()

    def _command(self, sql: str, parameters: Mapping[str, object]) -> None:
        """Run a statement of an embedded store on a handle that no query uses: other queries wait for its result."""
        if self._handles is not None:
            if parameters:
                # In the statement: settings of a command are each set and reset by a statement of its own.
                settings = {**self._settings, **self._report_settings}
                sql = f"{sql}\nSETTINGS {', '.join(f'{name} = {value!r}' for name, value in settings.items())}"
            with self._handles.lent() as handle, translated(self.dsn):
                handle.command(sql, parameters=dict(parameters))

    def _read(self, sql: str, parameters: Mapping[str, object]) -> list[Mapping[str, Any]]:
        if self._handles is None:
            return []
        with self._handles.lent() as handle:
            return list(self._ask(handle, sql, parameters, self._report_settings))

    def _ask(
        self, client: Client, sql: str, parameters: Mapping[str, object], settings: Mapping[str, object]
    ) -> AnswerRows:
        # Of a question that was left with none of its parameters they would be taken for those of Python's "%".
        bound = {name: value for name, value in parameters.items() if f"{{{name}:" in sql}
        with translated(self.dsn):
            return rows_of(client.query(sql, parameters=bound, settings={**self._settings, **settings}))

    @property
    def _report_settings(self) -> Mapping[str, object]:
        """What the questions of a report need; without those that a server does not let its user change."""
        if self._directory is not None:
            return _REPORT_SETTINGS
        known = self._client.server_settings
        wanted = _REPORT_SETTINGS | _ENGINE_SETTINGS
        return {name: value for name, value in wanted.items() if name in known and not known[name].readonly}

    @property
    def _settings(self) -> dict[str, Any]:
        """What a query on the embedded engine needs; a server's user has it in the profile."""
        return {**READ_SETTINGS, **_ENGINE_SETTINGS} if self._directory else {}


def open_store(
    dsn: str,
    *,
    password: str | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    told: Callable[[str], None] = nobody,
) -> Store:
    """Open the store that ``dsn`` names. An embedded one is made, or brought to this version's schema, as needed.

    ``told`` hears for whom it waits, where another process has an embedded one open for more than a second.
    Raises UsageError (the address), UnavailableError (cannot be used), TransientError (in use, or a
    server that is down).
    """
    parsed = parse_dsn(dsn, password=password)
    if isinstance(parsed, ServerDsn):
        return Store(parsed, connect(parsed), None)
    require_addresses(parsed)
    running = engine_version()
    directory = StoreDirectory(parsed.path)
    directory.hold(patience_seconds=patience_seconds, told=told)
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
