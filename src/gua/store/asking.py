"""A statement of a user's own: it reads and does nothing else, and its answer has an end."""

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
# Between what may come before it: spaces, comments, brackets.
_WORD: Final = re.compile(r"(?:\s|--[^\n]*\n|#!?[^\n]*\n|/\*.*?\*/|\()*([a-z]+)?", re.IGNORECASE | re.DOTALL)
_ASKED: Final = {"select", "with"}
_TOLD: Final = {"show", "describe", "desc", "explain", "exists"}
_OUTFILE: Final = re.compile(r"\boutfile\b", re.IGNORECASE)
_CHANGEABLE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Columns by name and ClickHouse type, and the rows as Python values."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Sequence[object]]


def statement(sql: str) -> str:
    """Return the one statement in ``sql``. Raises UsageError unless it is one that asks, as SELECT does."""
    text = sql.strip().rstrip(";").rstrip()
    found = _WORD.match(text)
    word = (found[1] or "").lower() if found else ""
    if word not in _ASKED | _TOLD:
        said = f"not with {word.upper()}" if word else "and this is none"
        raise UsageError(f"a statement begins with SELECT, WITH, SHOW, DESCRIBE, EXPLAIN or EXISTS, {said}")
    if _OUTFILE.search(text):
        raise UsageError("a statement writes no file: take INTO OUTFILE out, and use --csv or --json")
    return text


def ask(client: Client, dsn: EmbeddedDsn | ServerDsn, sql: str, *, settings: dict[str, object]) -> Answer:
    """Return the answer to a statement of a user's own; ``settings`` are those of the store's own questions.

    An embedded engine's ``client`` reads alone from then on: give it one of its own.
    Raises UsageError (it is refused, or asks for too much), UnavailableError (no right, no store), TransientError.
    """
    text = statement(sql)
    with translated(dsn, of_user=True):
        limits = _limits(client, settings)
        if isinstance(dsn, EmbeddedDsn):
            # For the engine, not for the statement, of which only the last of several would be held by its own.
            for name, value in limits.items():
                client.command(f"SET {name} = {value!r}")
            limits = {}
        columns: Sequence[Sequence[object]] = ()
        if text.split(None, 1)[0].lower() not in _TOLD:
            # Nothing but a query stands in brackets, no FORMAT.
            columns = client.query(f"DESCRIBE TABLE (\n{text}\n)", settings=limits).result_rows
        found = client.query(text, settings=limits)
    names, types = tuple(found.column_names), tuple(each.name for each in found.column_types)
    if not found.result_rows:  # the embedded engine tells no columns then
        names, types = tuple(str(each[0]) for each in columns), tuple(str(each[1]) for each in columns)
    return Answer(names=names, types=types, rows=found.result_rows)


def _limits(client: Client, settings: dict[str, object]) -> dict[str, object]:
    """Return what makes a statement read alone and end; nothing for a user who may set nothing and is held anyway."""
    ends = {"max_result_rows": MOST_ROWS, "result_overflow_mode": "throw"}
    read_only = int(client.query("SELECT getSetting('readonly')").result_rows[0][0])
    if read_only == 0:
        # What comes after it is refused.
        return {**settings, **ends, "max_execution_time": _SECONDS, "readonly": 1}
    return ends if read_only == _CHANGEABLE else {}
