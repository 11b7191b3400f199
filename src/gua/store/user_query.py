"""User-written SQL statements: run read-only, with limits on time and result size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gua.core.errors import UsageError
from gua.store.connection import translated
from gua.store.dsn import EmbeddedDsn, ServerDsn

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_ROWS: Final = 100_000
_SECONDS: Final = 60
# First word of a statement, after leading spaces, comments and brackets.
_WORD: Final = re.compile(r"(?:\s|--[^\n]*\n|#!?[^\n]*\n|/\*.*?\*/|\()*([a-z]+)?", re.IGNORECASE | re.DOTALL)
_QUERIES: Final = {"select", "with"}
_METADATA: Final = {"show", "describe", "desc", "explain", "exists"}
_OUTFILE: Final = re.compile(r"\boutfile\b", re.IGNORECASE)
_CHANGEABLE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class StatementResult:
    """Result of a user's statement: column names, ClickHouse types, and rows of Python values."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Sequence[object]]


def statement(sql: str) -> str:
    """Return ``sql`` stripped of its last semicolons. Raises UsageError if it is no read statement or writes a file."""
    text = sql.strip().rstrip(";").rstrip()
    match = _WORD.match(text)
    word = (match[1] or "").lower() if match else ""
    if word not in _QUERIES | _METADATA:
        got = f"not with {word.upper()}" if word else "and this is none"
        raise UsageError(f"a statement begins with SELECT, WITH, SHOW, DESCRIBE, EXPLAIN or EXISTS, {got}")
    if _OUTFILE.search(text):
        raise UsageError("a statement writes no file: take INTO OUTFILE out, and use --csv or --json")
    return text


def run_statement(
    client: Client, dsn: EmbeddedDsn | ServerDsn, sql: str, *, settings: dict[str, object]
) -> StatementResult:
    """Return the result of a user's statement; ``settings`` are the store's own query settings.

    An embedded engine's ``client`` stays read-only afterwards: pass a separate one.
    Raises UsageError (rejected, or over a limit), UnavailableError (no right, no store), TransientError.
    """
    text = statement(sql)
    with translated(dsn, of_user=True):
        limits = _limits(client, settings)
        if isinstance(dsn, EmbeddedDsn):
            # Set on the engine's session: settings of a query would limit only the last of several statements.
            for name, value in limits.items():
                client.command(f"SET {name} = {value!r}")
            limits = {}
        columns: Sequence[Sequence[object]] = ()
        if text.split(None, 1)[0].lower() not in _METADATA:
            # Brackets allow a query only, and no FORMAT clause.
            columns = client.query(f"DESCRIBE TABLE (\n{text}\n)", settings=limits).result_rows
        result = client.query(text, settings=limits)
    names, types = tuple(result.column_names), tuple(each.name for each in result.column_types)
    if not result.result_rows:  # chDB returns no columns for an empty result
        names, types = tuple(str(each[0]) for each in columns), tuple(str(each[1]) for each in columns)
    return StatementResult(names=names, types=types, rows=result.result_rows)


def _limits(client: Client, settings: dict[str, object]) -> dict[str, object]:
    """Return settings that make a statement read-only and limited; empty if the user may not change settings."""
    ends = {"max_result_rows": MOST_ROWS, "result_overflow_mode": "throw"}
    read_only = int(client.query("SELECT getSetting('readonly')").result_rows[0][0])
    if read_only == 0:
        # ``readonly`` must be last: no setting can be changed after it.
        return {**settings, **ends, "max_execution_time": _SECONDS, "readonly": 1}
    return ends if read_only == _CHANGEABLE else {}
