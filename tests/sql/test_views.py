"""Every view by folders of data: ``<view>/<case>/`` holds the rows that go in and the rows that must come out.

``<table>.jsonl``    rows for gua.<table>; ``<table>.1.jsonl``, ``<table>.2.jsonl`` are inserts of their own
``parameters.json``  the view is one of gua_report, called with these; without it, of gua or else of gua_public
``expect.jsonl``     all its rows in any order, and of them the columns named here
``about.md``         why these rows are right
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gua.store import statements
from sql.cases import (
    CASES,
    HERE,
    ROLLED_UP,
    UNCOUNTED,
    is_of_some_hosts,
    mark_of,
    of_other_engines,
    on_shards,
    parameters_beside_others,
    parameters_of,
    read_by,
    rows_of,
    runs,
    ticked_views,
    view_of,
)
from sql.engine import LANDING, ROLLUPS, TABLES, Engine, lines_of, same

FILES = {"about.md", "expect.jsonl", "parameters.json"}


def sortable(row: dict[str, Any]) -> str:
    """Return what puts equal rows in the same place, whether a number came as 1 or 1.0."""
    return repr([round(value, 6) if isinstance(value, float) else value for _, value in sorted(row.items())])


def test_every_folder_is_a_case() -> None:
    folders = {path.parent for path in HERE.glob("*/*/*")}
    assert folders - set(CASES) == set()
    for case in CASES:
        inputs = {path.name for path in case.iterdir()} - FILES
        assert {name.split(".")[0] for name in inputs} <= {*TABLES, *LANDING}, case
        assert (case / "about.md").read_text("utf-8").strip(), case


def test_every_view_and_ticks_table_has_a_case() -> None:
    views = {
        (database, name)
        for one in statements.load(statements.EMBEDDED_TOKENS)
        if one.creates and "\nCREATE OR REPLACE VIEW" in f"\n{one.sql}"
        for database, name in [one.creates]
        if database != "gua_public"  # test_public_views.py
    } | {("gua", table) for table in TABLES if table not in {"settings", "prices", *ROLLUPS}}
    # Cases of the views that read them show these.
    read_by_others = {("gua_report", "tick_cards"), ("gua_report", "tick_sources")}
    read_by_others |= {("gua", "notices"), ("gua", "notice_runs")}
    assert views - {view_of(case) for case in CASES} - read_by_others == set()


def test_every_view_that_takes_tick_hours_reads_other_hours_from_rollups() -> None:
    assert len(ticked_views()) >= 20
    of_ticks = {name for name in ticked_views() if name.startswith("tick_")} | UNCOUNTED
    assert {name for name in ticked_views() if not ROLLED_UP & read_by(("gua_report", name))} <= of_ticks


def test_every_view_and_table_is_run_on_every_engine_by_itself_or_through_another() -> None:
    for chosen in (of_other_engines(), on_shards()):
        views = {view_of(case) for case in chosen}
        assert {view_of(case) for case in CASES} <= views.union(*map(read_by, views))
        filled, every = ({table for case in some for table in rows_of(case)} for some in (chosen, CASES))
        assert filled == every


@runs(CASES)
def test_case(opened: Engine, case: Path, *, counted: bool) -> None:
    if counted and is_of_some_hosts(case):
        opened.hold_cases()
        parameters = parameters_beside_others(case)
        rows = opened.rows(case.parent.name, parameters)
        if parameters is None:
            rows = [row for row in rows if row["host"].startswith(mark_of(case))]
        # Whatever is named after a host, wherever it stands.
        found = json.loads(json.dumps(rows).replace(mark_of(case), ""))
    else:
        opened.clear()
        for file in sorted(case.glob("*.jsonl")):
            if file.name != "expect.jsonl":
                opened.insert(file.name.split(".")[0], file.read_text("utf-8"))
        if counted:
            opened.count_hours()
        found = opened.rows(case.parent.name, parameters_of(case))

    expected = lines_of(case / "expect.jsonl")
    columns = expected[0].keys() if expected else ()
    compared = sorted(({column: row[column] for column in columns} for row in found), key=sortable)
    expected = sorted(expected, key=lambda row: sortable({column: row[column] for column in columns}))
    equal = len(found) == len(expected) and all(
        want.keys() == columns and all(same(row[column], want[column]) for column in columns)
        for row, want in zip(compared, expected, strict=True)
    )
    assert equal, f"{(case / 'about.md').read_text('utf-8')}\n{differences(compared if expected else found, expected)}"


def differences(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    """Return both sides as JSON lines, only what differs."""
    lines = [f"found {len(found)} rows, expected {len(expected)}"]
    for number in range(max(len(found), len(expected))):
        row = found[number] if number < len(found) else {}
        want = expected[number] if number < len(expected) else {}
        keys = [key for key in {**row, **want} if key not in row or key not in want or not same(row[key], want[key])]
        if keys:
            at = {key: want.get(key, row.get(key)) for key in ("host", "gpu", "ts", "pid", "state", "owner", "hour")}
            lines += [
                f"row {number} { {key: value for key, value in at.items() if value is not None} }",
                f"   found    { {key: row[key] for key in keys if key in row} }",
                f"   expected { {key: want[key] for key in keys if key in want} }",
            ]
    return "\n".join(lines)
