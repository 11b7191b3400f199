"""The folders of cases, and which of them are worth a run: worked out from the shipped SQL and the rows of a case.

Counted hours change what a view shows only where it reads them, by itself or through another view. Shards change where
the rows of a table lie, so there a view runs once for each set of tables that its cases fill, and with every case of
several hosts, whose rows lie on both.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gua.store import statements
from gua.store.tokens import server_tokens

HERE = Path(__file__).resolve().parent
CASES = sorted(about.parent for about in HERE.glob("*/*/about.md"))
COUNTED_HOURS = ("gua", "host_hours")
# Of these a row is a tick, or what is still to be counted.
UNCOUNTED = {"spans", "due_hours", "changed_hours", "counted_hours", "hours", "card_parts"}
# The parameters by which a report tells a view which hours to read from ticks, and which prices there are.
_TICKED = "{tick_hours:"
_PRICED = "{price_starts:"
_NAME = re.compile(r"\b(gua|gua_report)\.(\w+)")

View = tuple[str, str]


def name_of(case: Path) -> str:
    return str(case.relative_to(HERE))


def view_of(case: Path) -> View:
    return "gua_report" if (case / "parameters.json").exists() else "gua", case.parent.name


def rows_of(case: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that a case puts into each table."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(case.glob("*.jsonl")):
        if file.name != "expect.jsonl":
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
            rows.setdefault(file.name.split(".")[0], []).extend(lines)
    return rows


def hosts_of(case: Path) -> set[str]:
    rows = [row for each in rows_of(case).values() for row in each]
    named = (row.get("host") or row.get("ResourceAttributes", {}).get("host.name") for row in rows)
    return {host for host in named if host}


@cache
def _views() -> dict[View, str]:
    return {
        one.creates: re.sub(r"^--.*$", "", one.sql, flags=re.MULTILINE)
        for one in statements.load(server_tokens())
        if one.creates and "\nCREATE OR REPLACE VIEW" in f"\n{one.sql}"
    }


@cache
def read_by(view: View) -> frozenset[View]:
    """Return the tables and views that a view reads, by itself and through others."""
    direct = {(database, name) for database, name in _NAME.findall(_views().get(view, ""))} - {view}
    return frozenset(direct.union(*(read_by(each) for each in direct)))


@cache
def ticked_views() -> set[str]:
    """Return the views of gua_report that are told which hours to read from ticks."""
    return _views_with(_TICKED)


@cache
def priced_views() -> set[str]:
    """Return the views of gua_report that are told prices."""
    return _views_with(_PRICED)


def _views_with(parameter: str) -> set[str]:
    return {name for (database, name), sql in _views().items() if database == "gua_report" and parameter in sql}


def reads_counted_hours(case: Path) -> bool:
    return COUNTED_HOURS in read_by(view_of(case)) and case.parent.name not in UNCOUNTED


def on_shards() -> list[Path]:
    """Return the cases of several hosts and, for each view and set of tables that no such case fills, the largest."""
    return _with_the_largest_of_the_rest([case for case in CASES if len(hosts_of(case)) > 1])


def of_each_view() -> list[Path]:
    """Return the largest case for each view and set of tables that its cases fill."""
    return _with_the_largest_of_the_rest([])


def _with_the_largest_of_the_rest(chosen: list[Path]) -> list[Path]:
    filled = {(view_of(case), frozenset(rows_of(case))) for case in chosen}
    for case in sorted(CASES, key=lambda case: -sum(map(len, rows_of(case).values()))):
        if (kind := (view_of(case), frozenset(rows_of(case)))) not in filled:
            filled.add(kind)
            chosen.append(case)
    return sorted(chosen)


def runs(cases: list[Path]) -> pytest.MarkDecorator:
    """Return the parameters of a test that runs each case from ticks, and from counted hours where those matter."""
    return pytest.mark.parametrize(
        ("case", "counted"),
        [
            pytest.param(case, counted, id=f"{name_of(case)}-{'from counted hours' if counted else 'from ticks'}")
            for case in cases
            for counted in ([False, True] if reads_counted_hours(case) else [False])
        ],
    )
