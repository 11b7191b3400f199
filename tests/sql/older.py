"""The oldest engine that the SQL is made for, ClickHouse 25.8 (LTS), in an environment of its own.

The client that the store uses does not drive it, so statements go to a process that holds nothing but the engine, and
parameters are written into them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from gua.store import database, hours, statements
from servers.tools import ROOT, oldest_engine

Row = Mapping[str, Any]


class OldestEngine:
    """It has the part of a store's interface that the SQL cases use."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [oldest_engine(), ROOT / "tests" / "servers" / "older_engine.py", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # As on a server: it has no such settings of tables yet.
        of_server = {name: statements.server_tokens()[name] for name in ("TABLE_SETTINGS", "COUNTED_SETTINGS")}
        for statement in statements.load({**statements.EMBEDDED_TOKENS, **of_server}):
            self.command(statement.sql)
        known = {row["name"] for row in self._rows_of("SELECT name FROM system.settings")}
        # As a store sets them on a server that knows them.
        self._report_settings = {name: value for name, value in database.REPORT_SETTINGS.items() if name in known}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, sql: str, form: str) -> str:
        """Run one statement and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sql": sql, "format": form}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"{answer['error']}\n{sql[:2000]}"
        return str(answer["text"])

    def command(self, sql: str) -> None:
        self.ask(sql, "TSV")

    def raw_query(self, sql: str, *, fmt: str, settings: Mapping[str, object]) -> bytes:
        """Return the answer in a format, as the client does."""
        changed = ", ".join(f"{name} = {written(value)}" for name, value in settings.items())
        return self.ask(f"{sql} SETTINGS {changed}" if settings else sql, fmt).encode()

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of a view of gua_report."""
        call = ", ".join(f"{name} = {written(value)}" for name, value in parameters.items())
        sql = f"SELECT * FROM gua_report.{view}{f'({call})' if call else ''}"
        text = self.raw_query(sql, fmt="JSONEachRow", settings={**JSON, **self._report_settings})
        lines = [json.loads(line) for line in text.decode().splitlines()]
        return [{column: _moment(value) for column, value in line.items()} for line in lines]

    def count_hours(self) -> int:
        return hours.roll_up(self._rows_of, self.command)

    def _rows_of(self, sql: str) -> list[Row]:
        return [json.loads(line) for line in self.ask(sql, "JSONEachRow").splitlines()]


def _moment(value: object) -> object:
    """Return a time as the client does."""
    return datetime.fromisoformat(value) if isinstance(value, str) and _TIME.fullmatch(value) else value


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
JSON = {
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 1,
    "date_time_output_format": "iso",
}


def written(value: object) -> str:
    """Return a value as a literal of SQL."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    assert isinstance(value, int), value
    return str(value)
