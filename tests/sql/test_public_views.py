"""The views of gua_public are those of gua, each row with its card's names, in natural units: recomputed in Python.

Of each view one case of tests/sql is put in, the largest. What it reads in gua is itself held to its cases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gua.store import statements
from sql.cases import of_each_view, rows_of, view_of
from sql.engine import Engine, same

Row = Mapping[str, Any]

HOUR_MS = 3_600_000
HOUR_US = 1000 * HOUR_MS
EPOCH = "1970-01-01T00:00:00.000Z"
NAMES = ("host", "gpu_index", "card", "model", "gpu", "team", "labels")
LABELLED = {"team": "vision", "rack": "7"}
# By the view of gua: the one of gua_public, what is called otherwise there, and what is worked out.
VIEWS: dict[str, tuple[str, dict[str, str], dict[str, tuple[str, float]]]] = {
    "cards": ("cards", {"share": "gpu_fraction"}, {"interval_seconds": ("interval_ms", 1000)}),
    "hosts": (
        "hosts",
        {},
        {
            "interval_seconds": ("interval_ms", 1000),
            "delay_seconds": ("newest_delay_ms", 1000),
            "least_delay_seconds": ("least_delay_ms", 1000),
            "silent_after_seconds": ("silent_after_ms", 1000),
        },
    ),
    "card_hours": (
        "card_hours",
        {"card_ticks": "ticks"},
        {"observed_hours": ("duration_ms", HOUR_MS), "gpu_hours": ("gpu_time_ms", HOUR_MS)}
        | {"without_process_hours": ("without_process_ms", HOUR_MS)},
    ),
    "owner_hours": (
        "usage_hours",
        {},
        {"gpu_hours": ("gpu_time_ms", HOUR_MS), "process_hours": ("duration_ms", HOUR_MS)},
    ),
    "allocation_hours": ("allocation_hours", {"source": "allocation_source"}, {"gpu_hours": ("gpu_time_ms", HOUR_MS)}),
    "execution_idle_hours": (
        "execution_idle_hours",
        {},
        {
            "sampled_gpu_hours": ("sampled_gpu_us", HOUR_US),
            "idle_gpu_hours": ("idle_gpu_us", HOUR_US),
            "powered_gpu_hours": ("powered_gpu_us", HOUR_US),
            "idle_energy_joules": ("idle_energy_mj", 1000),
        },
    ),
    "card_states": (
        "card_ticks",
        {"ts": "tick_time"},
        {
            "observed_seconds": ("duration_ms", 1000),
            "gpu_hours": ("gpu_time_ms", HOUR_MS),
            "utilization": ("busiest_utilization", 10_000),
            "power_watts": ("power_mw", 1000),
            "energy_joules": ("energy_mj", 1000),
        },
    ),
    "idle_streaks": (
        "idle_streaks",
        {"created": "started", "start": "idle_from", "end": "idle_until"},
        {"idle_hours": ("idle_ms", HOUR_MS)},
    ),
    "current_cards": (
        "current_cards",
        {"ts": "tick_time", "stale": "is_stale"},
        {"in_state_hours": ("in_state_ms", HOUR_MS), "utilization": ("busiest_utilization", 10_000)},
    ),
    "current_holders": (
        "current_holders",
        {"ts": "tick_time", "stale": "is_stale", "created": "started"},
        {"idle_hours": ("idle_ms", HOUR_MS), "utilization": ("utilization", 10_000)},
    ),
}
# It reads what others show; its cases are beside those of gua_report.
COSTS = "costs"
NOTICES = "notices"
PUBLIC = {public for public, _, _ in VIEWS.values()} | {COSTS, NOTICES}
# Of all time, where the view of a window is read.
OF_REPORTS = {"idle_streaks": {"since_ms": 172_800_000, "until_ms": 4_102_444_800_000, "hosts": []}}
# It is another one at the next question.
NOW = {"age_seconds"}


def largest(view: str) -> Path:
    of = ("gua_report" if view in OF_REPORTS else "gua", view)
    return max((case for case in of_each_view() if view_of(case) == of), key=lambda case: len(rows(case)))


def rows(case: Path) -> list[Row]:
    return [row for each in rows_of(case).values() for row in each]


def source_rows(engine: Engine, view: str) -> list[dict[str, Any]]:
    """Return the rows that a public view shows, with times as it shows them."""
    public_rows = engine.rows(view, OF_REPORTS.get(view))
    return [
        {name: value.replace("+00:00", "Z") if isinstance(value, str) else value for name, value in row.items()}
        for row in public_rows
    ]


def expected(view: str, row: Row, described: Mapping[tuple[str, str], Row]) -> dict[str, Any]:
    """Return a row of gua as gua_public has it."""
    _, names, values = VIEWS[view]
    renamed = {names.get(name, name): value for name, value in row.items()}
    for name, (column, size) in values.items():
        renamed[name] = None if row[column] is None else row[column] / size
    if "started" in renamed and renamed["started"] == EPOCH:
        renamed["started"] = None
    info = described.get((row["host"], row.get("gpu", "")), {})
    labels = row["labels"] if view == "hosts" else info.get("labels", {})
    named = {"labels": labels, "team": labels.get("team")}
    if view != "hosts":
        model = info.get("name") if info.get("model") is None else info["model"]
        named |= {"gpu_index": info.get("gpu_index"), "card": info.get("name"), "model": model}
    return renamed | named


def test_each_view_of_people_is_held_to_one_of_gua() -> None:
    made = {
        one.creates[1]
        for one in statements.load(statements.EMBEDDED_TOKENS)
        if one.creates and one.creates[0] == "gua_public" and "CREATE OR REPLACE VIEW" in one.sql
    }
    assert made == PUBLIC


@pytest.mark.parametrize("view", VIEWS)
def test_a_row_is_one_of_gua_with_names_and_natural_units(engine: Engine, view: str) -> None:
    case = largest(view)
    for file in sorted(case.glob("*.jsonl")):
        if file.name != "expect.jsonl":
            engine.insert(file.name.split(".")[0], file.read_text("utf-8"))
    public_rows = source_rows(engine, view)
    # Describe the cards that the case does not describe, except one.
    for number, (host, gpu) in enumerate(sorted({(row["host"], row.get("gpu", "GPU-a")) for row in public_rows})[1:]):
        more = {"gpu_index": number, "name": f"H{number}", "ts": "2030-01-01T00:00:00Z", "labels": LABELLED}
        engine.insert_rows("card_info", [{"host": host, "gpu": gpu, **more}])
    public_rows = source_rows(engine, view)
    infos = engine.select("SELECT * FROM gua.card_info FINAL ORDER BY ts")
    labels = {row["host"]: row["labels"] for row in infos}
    described = {(row["host"], row["gpu"]): row | {"labels": labels[row["host"]]} for row in infos}

    public, _, _ = VIEWS[view]
    found = engine.select(f"SELECT * FROM gua_public.{public}")
    assert found
    want = [expected(view, row, described) for row in public_rows]
    shown = [name for name in found[0] if name not in NOW]
    assert {*found[0]} >= ({*NAMES} if view != "hosts" else {"host", "team", "labels"})

    def place(row: Row) -> str:
        return repr([(name, row[name]) for name in shown if not isinstance(row[name], float | dict)])

    assert len(found) == len(want)
    for row, other in zip(sorted(found, key=place), sorted(want, key=place), strict=True):
        for name in shown:
            assert same(row[name], other[name]), (name, row, other)


NUMBER = re.compile(r"^(Nullable\()?(U?Int|Float|Decimal|DateTime)")
IDENTIFIERS = {"gpu_index", "pid", "step", "reminder"}


def test_each_column_has_a_unit_and_a_type_that_every_tool_knows(engine: Engine) -> None:
    columns = engine.select("SELECT table, name, type, comment FROM system.columns WHERE database = 'gua_public'")
    assert {row["table"] for row in columns} == PUBLIC
    for row in columns:
        assert row["comment"], row
        if NUMBER.match(row["type"]) and row["name"] not in IDENTIFIERS:
            assert re.search(r"\[(h|s|0 to 1|By|W|J|UTC|ticks|cards|agents|currency|currency/h)\]$", row["comment"]), (
                row
            )
        assert not re.search(r"_(ms|mw|mj)$|Aggregate|Enum|Tuple|Array", row["name"] + " " + row["type"]), row
    of_cards = [row for row in columns if row["table"] not in {"hosts", NOTICES}]
    for table in PUBLIC - {"hosts", NOTICES}:
        assert tuple(row["name"] for row in of_cards if row["table"] == table)[: len(NAMES)] == NAMES


MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04")
HOURLY = {
    "card_hours": "gua.hourly_cards",
    "usage_hours": "gua.process_intervals",
    "costs": "gua.process_intervals",
    "allocation_hours": "gua.allocation_intervals",
    "execution_idle_hours": "gua.hourly_cards",
}
"""Views of hours, and the table of the hourly rollup that they read."""
# As people write them, and as BI tools do.
OF_MARCH = (
    "hour >= '2026-03-01 00:00:00' AND hour < '2026-04-01 00:00:00'",
    "hour BETWEEN toDateTime('2026-03-01 00:00:00', 'UTC') AND toDateTime('2026-03-31 23:59:59', 'UTC')",
    "toStartOfMonth(hour) = toDate('2026-03-01')",
    "toDate(hour) >= '2026-03-02' AND toDate(hour) <= '2026-03-30'",
    "toStartOfDay(hour) = toDateTime('2026-03-10 00:00:00', 'UTC')",
    "toYYYYMM(hour) = 202603",
)
_READ = re.compile(r"ReadFromMergeTree \((\S+)\)")
_PARTS = re.compile(r"Parts: (\d+)/(\d+)")


@pytest.fixture
def months(engine: Engine) -> Engine:
    """An hour of one card in each of four months, counted."""
    public_rows = {
        "utilization": 9_000,
        "utilization_coverage_ms": 60_000,
        "idle_time_ms": 0,
        "allocation": "unallocated",
    }
    for month in MONTHS:
        tick = {
            "host": "a",
            "gpu": "GPU-a",
            "ts": f"{month}-10T10:30:00Z",
            "duration_ms": 60_000,
            "gpu_time_ms": 60_000,
        }
        engine.insert_rows("card_ticks", [tick | public_rows])
        engine.insert_rows("process_ticks", [tick | {"pid": 1, "utilization": 9_000, "owner": "alice"}])
        engine.insert_rows(
            "card_seen", [{"host": "a", "gpu": "GPU-a", "first_seen": tick["ts"], "last_seen": tick["ts"]}]
        )
    engine.count_hours()
    return engine


def least_parts(engine: Engine, sql: str, table: str) -> tuple[int, int]:
    """Return how many parts of a table are read after its first index, of how many."""
    reads: list[tuple[int, int]] = []
    of = ""
    for line in engine.select(f"EXPLAIN indexes = 1 {sql}"):
        text = str(line["explain"])
        if found := _READ.search(text):
            of = found[1]
        elif of == table and (parts := _PARTS.search(text)):
            reads.append((int(parts[1]), int(parts[2])))
    return min(left for left, _ in reads), max(every for _, every in reads)


def test_a_filter_on_time_reads_one_month_or_day(months: Engine) -> None:
    for view, table in HOURLY.items():
        hours = "sampled_gpu_hours" if view == "execution_idle_hours" else "gpu_hours"
        # Planning one of these takes longer than reading it: two conditions are enough for the other views.
        for condition in OF_MARCH if view == "card_hours" else OF_MARCH[1:3]:
            sql = (
                f"SELECT toStartOfMonth(hour) AS month, team, sum({hours}) AS hours "
                f"FROM gua_public.{view} WHERE {condition} GROUP BY month, team"
            )
            read, every = least_parts(months, sql, table)
            assert (read, every >= len(MONTHS)) == (1, True), (view, condition)
        (found,) = months.select(sql)
        assert same(found["hours"], 1 / 60), view
    for condition in (
        "tick_time >= '2026-03-10 00:00:00' AND tick_time < '2026-03-11 00:00:00'",
        "toDate(tick_time) = '2026-03-10'",
    ):
        sql = f"SELECT sum(gpu_hours) AS hours FROM gua_public.card_ticks WHERE {condition}"
        assert least_parts(months, sql, "gua.card_ticks")[0] == 1, condition
        assert same(months.select(sql)[0]["hours"], 1 / 60), condition
