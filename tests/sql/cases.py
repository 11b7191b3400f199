"""The folders of cases, and which of them are worth a run: worked out from the shipped SQL and the rows of a case.

Counted hours change what a view shows only where it reads them, by itself or through another view. To count them takes
more than all else of a case, so the cases that are of some hosts lie in one store, each under hosts of its own, and are
counted once. Shards change where the rows of a table lie, so there a view runs with a case of several hosts, whose rows
lie on both.

What another view reads is run through that one wherever not every case is run.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gua.store import statements
from gua.store.statements import server_tokens

HERE = Path(__file__).resolve().parent
CASES = sorted(about.parent for about in HERE.glob("*/*/about.md"))
ROLLED_UP = frozenset(
    {
        ("gua", "hourly_cards"),
        ("gua", "card_intervals"),
        ("gua", "process_intervals"),
        ("gua", "allocation_intervals"),
        ("gua", "hourly_sources"),
    }
)
# Of these a row is a tick, or what is still to be counted.
UNCOUNTED = {
    *("due_hours", "changed_hours", "hours", "hour_ticks", "right_size", "activity_owners", "busy_with_few_sms"),
}
# The parameters that tell a view which hours to read from ticks, and which prices there are.
_TICKED = "{tick_hours:"
_PRICED = "{price_starts:"
_NAME = re.compile(r"\b(gua|gua_report)\.(\w+)")

View = tuple[str, str]


def name_of(case: Path) -> str:
    return str(case.relative_to(HERE))


def view_of(case: Path) -> View:
    name = case.parent.name
    return "gua_report" if (case / "parameters.json").exists() else database_of(name), name


@cache
def rows_of(case: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that a case puts into each table."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(case.glob("*.jsonl")):
        if file.name != "expect.jsonl":
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
            rows.setdefault(file.name.split(".")[0], []).extend(lines)
    return rows


def parameters_of(case: Path) -> dict[str, Any] | None:
    """Return what a view of gua_report is called with, None for one of gua."""
    parameters = case / "parameters.json"
    return dict(json.loads(parameters.read_text("utf-8"))) if parameters.exists() else None


def hosts_of(case: Path) -> set[str]:
    rows = [row for each in rows_of(case).values() for row in each]
    named = [row.get("host") or row.get("ResourceAttributes", {}).get("host.name") for row in rows]
    named += [card["host"] for row in rows for card in row.get("cards", ())]
    return {host for host in named if host}


@cache
def database_of(name: str) -> str:
    """Return where a table or view without parameters is: in gua, or else in gua_public."""
    return "gua" if ("gua", name) in {one.creates for one in statements.load(server_tokens())} else "gua_public"


@cache
def _views() -> dict[View, str]:
    return {
        one.creates: re.sub(r"^--.*$", "", one.sql, flags=re.MULTILINE)
        for one in statements.load(server_tokens())
        if one.creates and "\nCREATE OR REPLACE VIEW" in f"\n{one.sql}"
    }


@cache
def internal_views() -> set[str]:
    """Return the views of gua that list no columns, as views read them and people do not."""
    views = (one for one in statements.load(server_tokens()) if one.kind == "view" and not one.columns)
    return {one.object_name.removeprefix("gua.") for one in views if one.object_name.startswith("gua.")}


@cache
def read_by(view: View) -> frozenset[View]:
    """Return the tables and views that a view reads, by itself and through others."""
    direct = {(database, name) for database, name in _NAME.findall(_views().get(view, ""))} - {view}
    return frozenset(direct.union(*(read_by(each) for each in direct)))


@cache
def ticked_views() -> set[str]:
    """Return the views of gua_report that take the hours to read from ticks as a parameter."""
    return _views_with(_TICKED)


@cache
def merged_views() -> set[str]:
    """Return the views of gua_report that read merged days of processes."""
    return _views_with("{days:Array(Int64)}")


@cache
def priced_views() -> set[str]:
    """Return the views of gua_report that take prices as a parameter."""
    return _views_with(_PRICED)


def _views_with(parameter: str) -> set[str]:
    return {name for (database, name), sql in _views().items() if database == "gua_report" and parameter in sql}


def reads_counted_hours(case: Path) -> bool:
    return bool(ROLLED_UP & read_by(view_of(case))) and case.parent.name not in UNCOUNTED


@cache
def outermost_views() -> frozenset[View]:
    """Return the views with cases that no other view with cases reads."""
    views = {view_of(case) for case in CASES}
    return frozenset(views.difference(*map(read_by, views)))


@cache
def on_shards() -> frozenset[Path]:
    """Return for each of the outermost views its largest case of several hosts, or else its largest; and each table."""
    several = [case for case in CASES if len(hosts_of(case)) > 1]
    return _with_every_table({**_largest(CASES), **_largest(several)})


@cache
def of_other_engines() -> frozenset[Path]:
    """Return the largest case of each of the outermost views, and cases that fill the other tables."""
    return _with_every_table(_largest(CASES))


@cache
def of_each_view() -> frozenset[Path]:
    """Return for each view as few cases as fill every table that one of its cases fills, the largest first."""
    chosen: list[Path] = []
    filled: defaultdict[View, set[str]] = defaultdict(set)
    for case in sorted(CASES, key=_size, reverse=True):
        view, tables = view_of(case), rows_of(case).keys()
        if view not in filled or tables - filled[view]:
            filled[view] |= tables
            chosen.append(case)
    return frozenset(chosen)


OF_EACH_ROLLUP = {"energy", "card_streaks", "usage", "allocations", "allocation_sources"}
"""Views that together read every rollup table."""


def _largest(cases: Iterable[Path]) -> dict[View, Path]:
    return {view_of(case): case for case in sorted(cases, key=_size)}


def _with_every_table(largest: Mapping[View, Path]) -> frozenset[Path]:
    chosen = {case for view, case in largest.items() if view in outermost_views()}
    filled = {table for case in chosen for table in rows_of(case)}
    for case in sorted(CASES, key=_size, reverse=True):
        if rows_of(case).keys() - filled:
            filled |= rows_of(case).keys()
            chosen.add(case)
    return frozenset(chosen)


def _size(case: Path) -> tuple[int, int, str]:
    rows = rows_of(case)
    return len(rows), sum(map(len, rows.values())), name_of(case)


def runs_on(engine: str, case: Path, *, counted: bool) -> bool:
    """Return whether a case is worth a run on an engine.

    The newest engine runs every case. A server that is read over HTTP, the oldest engine, which takes seconds to plan a
    view, and the shards run one case of each outermost view. The SQL of rollups is the same everywhere: the oldest
    engine and the shards run one view of each rollup table. tests/pipeline/test_cluster.py
    compares whole reports from rolled up hours of shards.
    """
    if engine == "embedded":
        return True
    if counted and (engine == "served" or case.parent.name not in OF_EACH_ROLLUP):
        return False
    return case in (on_shards if engine == "sharded" else of_other_engines)()


# Their rows belong to a host; rows without a host, as settings, would change the other cases too.
OF_HOSTS = {
    *("card_ticks", "process_ticks", "allocation_ticks", "allocation_source_ticks", "card_info", "card_seen"),
    "notices",
}


def is_of_some_hosts(case: Path) -> bool:
    """Return whether a case can lie beside others: its rows are of hosts, and its view takes or shows hosts."""
    parameters = parameters_of(case)
    rows = (case / "expect.jsonl").read_text("utf-8").splitlines()
    knows_hosts = all("host" in json.loads(row) for row in rows) if parameters is None else "hosts" in parameters
    return rows_of(case).keys() <= OF_HOSTS and knows_hosts


def mark_of(case: Path) -> str:
    """Return what the hosts of a case begin with where it lies beside others."""
    return f"{CASES.index(case):03}~"


def rows_beside_others(case: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a case under hosts of its own."""
    mark = mark_of(case)

    def marked(row: dict[str, Any]) -> dict[str, Any]:
        found = {**row, "host": mark + row["host"]}
        if "cards" in row:
            found["cards"] = [marked(card) for card in row["cards"]]
        if "holder" in row:
            found["holder"] = " ".join(
                mark + word if word == row["host"] else word for word in row["holder"].split(" ")
            )
        return found

    return {table: [marked(row) for row in rows] for table, rows in rows_of(case).items()}


def parameters_beside_others(case: Path) -> dict[str, Any] | None:
    """Return the view's parameters that select this case only, None for a view without."""
    parameters = parameters_of(case)
    if parameters is None:
        return None
    hosts = parameters["hosts"] or sorted(hosts_of(case)) or ["nobody"]
    return {**parameters, "hosts": [mark_of(case) + host for host in hosts]}


def runs(cases: Iterable[Path], engine: str | None = None) -> pytest.MarkDecorator:
    """Return the parameters of a test that runs each case from ticks, and from counted hours where those matter.

    With ``engine`` only those that are worth a run there. The cases that lie beside others come last, so that they are
    counted once.
    """
    alone = [(case, False) for case in sorted(cases)]
    counted = [
        (case, True)
        for case, _ in alone
        if reads_counted_hours(case) and (engine is None or runs_on(engine, case, counted=True))
    ]
    return pytest.mark.parametrize(
        ("case", "counted"),
        [
            pytest.param(case, counted, id=f"{name_of(case)}-{'from counted hours' if counted else 'from ticks'}")
            for case, counted in [*alone, *sorted(counted, key=lambda one: is_of_some_hosts(one[0]))]
        ],
    )
