"""A store under test: rows in and out as JSON lines, and empty again between cases."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from gua.report.hours import choose_hours, read_of
from gua.store.database import Store
from sql.cases import (
    CASES,
    database_of,
    is_of_some_hosts,
    merged_views,
    priced_views,
    reads_counted_hours,
    rows_beside_others,
    runs_on,
    ticked_views,
)
from sql.older import OldestEngine

ROLLUPS = (
    "hourly_cards",
    "card_intervals",
    "process_intervals",
    "allocation_intervals",
    "hourly_sources",
    "rollups",
    "process_days",
)
TABLES = (
    "card_ticks",
    "process_ticks",
    "allocation_ticks",
    "allocation_source_ticks",
    "card_info",
    "card_seen",
    "agents",
    "settings",
    "prices",
    "refused_points",
    "hour_marks",
    "notices",
    "notice_runs",
    *ROLLUPS,
)
LANDING = ("otel_metrics_gauge", "otel_metrics_sum")
Row = Mapping[str, Any]

# Read from ticks, also where hours are counted.
OF_ALL_HOURS = {"right_size", "activity_owners", "busy_with_few_sms"}


class Engine:
    """One engine with the shipped schema; ``writer`` may do everything, ``reader`` is who reports read as."""

    def __init__(self, name: str, writer: Store | OldestEngine, reader: Store | OldestEngine) -> None:
        self.name = name
        self.writer = writer
        self.reader = reader
        # The tests look below the store's own interface.
        self._client = writer if isinstance(writer, OldestEngine) else writer._client  # noqa: SLF001
        self._is_full = False

    def clear(self) -> None:
        """Empty every table that holds data."""
        self._is_full = False
        self._truncate()

    def hold_cases(self) -> None:
        """Hold all cases that can lie beside each other and are worth a run here, with their hours counted."""
        if self._is_full:
            return
        self.clear()
        rows: defaultdict[str, list[Row]] = defaultdict(list)
        for case in CASES:
            if runs_on(self.name, case, counted=True) and reads_counted_hours(case) and is_of_some_hosts(case):
                for table, of_case in rows_beside_others(case).items():
                    rows[table] += of_case
        for table, of_all in rows.items():
            self.insert_rows(table, of_all)
        self.count_hours()
        self._is_full = True

    def _truncate(self) -> None:
        """Empty them; the embedded engine keeps nothing in the landing tables."""
        tables = (*TABLES, *LANDING) if self.name == "served" else TABLES
        names = ", ".join(f"'{table}'" for table in tables)
        filled = f"SELECT name FROM system.tables WHERE database = 'gua' AND name IN ({names}) AND total_rows != 0"
        for row in self.select(filled):
            self.command(f"TRUNCATE TABLE gua.{row['name']}")

    def command(self, sql: str) -> None:
        """Run one statement."""
        self._client.command(sql)
        if isinstance(self.reader, Store):
            self.reader._forget_ticks()  # noqa: SLF001 - as a store does where it is the one that writes

    def insert(self, table: str, lines: str) -> None:
        """Insert JSON lines into ``gua.<table>``, in one insert."""
        self.command(
            f"INSERT INTO gua.{table} SETTINGS date_time_input_format = 'best_effort' FORMAT JSONEachRow {lines}"
        )

    def insert_rows(self, table: str, rows: Iterable[Row]) -> None:
        """Insert rows into ``gua.<table>``."""
        self.insert(table, "\n".join(json.dumps(row) for row in rows))

    def select(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query as JSON values; times are RFC 3339 with milliseconds."""
        text = self._client.raw_query(
            sql,
            fmt="JSONEachRow",
            settings={
                "output_format_json_quote_64bit_integers": 0,
                "output_format_json_quote_denormals": 1,
                "date_time_output_format": "iso",
            },
        )
        return [json.loads(line) for line in text.decode().splitlines()]

    def rows(self, view: str, parameters: Mapping[str, object] | None) -> list[dict[str, Any]]:
        """Return the rows of a view or, with parameters, of ``gua_report.<view>`` as the report reads them."""
        if parameters is None:
            final = " FINAL" if view in TABLES else ""
            return self.select(f"SELECT * FROM {database_of(view)}.{view}{final}")
        read = dict(parameters)
        if view in OF_ALL_HOURS and "tick_hours" not in parameters:
            bounds = {name: parameters[name] for name in ("since_ms", "until_ms", "hosts")}
            read["tick_hours"] = [hour.hour for hour in choose_hours(self.reader, bounds)] or [-1]
        elif view in ticked_views() and "tick_hours" not in parameters:
            read |= self._read(parameters)
        if view in priced_views():
            read = {"price_models": [], "price_starts": [], **read}
        if view == "holders":
            read.setdefault("current_since_ms", 0)
        if view == "streaks":
            read.setdefault("in_parts", 0)
        if view.startswith("tick_") or view in OF_ALL_HOURS:
            read.pop("use_hourly", None)
        if view not in merged_views():
            read.pop("days", None)
            read.pop("unmerged_since_ms", None)
        found = self.reader.rows(view, read)
        return [{key: _json(value) for key, value in row.items()} for row in found]

    def count_hours(self) -> None:
        """Count every hour, also those that are not over."""
        self.writer.count_hours()

    def _read(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return which hours a report would read from ticks."""
        bounds = {name: parameters[name] for name in ("since_ms", "until_ms", "hosts")}
        starts_ms = cast("Iterable[int]", parameters.get("price_starts", ()))
        found = read_of(bounds, choose_hours(self.reader, bounds), price_starts_ms=starts_ms)
        return {name: found[name] for name in ("tick_hours", "use_hourly", "days", "unmerged_since_ms")}


def _json(value: object) -> object:
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    if isinstance(value, dict):  # a tuple with names
        return {name: _json(one) for name, one in value.items()}
    return value


def same(found: object, expected: object) -> bool:
    """Return whether a value is what is expected: numbers to 1e-9 of their size, the rest exactly."""
    if isinstance(expected, bool) or isinstance(found, bool) or expected is None or found is None:
        return found is expected
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return found == expected


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
