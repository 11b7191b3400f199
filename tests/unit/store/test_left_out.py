"""Blocks of the shipped SQL that a question is asked without: which, what stands in their place, and the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from gua.core.tick import ProcessReading, Tick
from gua.store.database import open_store
from gua.store.left_out import BLOCKS, needless, without
from gua.store.report_views import ReportViews, report_views
from gua.store.statements import Statement, load
from gua.store.tokens import EMBEDDED_TOKENS

SQL = """SELECT
    -- ONLY with prices
    sum(priced) AS priced,
    count(),
    -- OTHERWISE 0 AS priced,
    -- END
    1 AS one
FROM a
-- ONLY with counted hours
UNION ALL
SELECT 2
-- END
"""
DAY_MS = 86_400_000
_COMMENT = re.compile(r"^\s*-- (ONLY with (?P<name>.*)|OTHERWISE .*|END.*)$", re.MULTILINE)


def code(sql: str) -> str:
    return " ".join(" ".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).split())


def in_order(rows: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return rows by the cards that they tell of, if any: not each view sorts them."""
    return sorted(rows, key=lambda row: (str(row.get("host")), str(row.get("gpu"))))


def held_tick(ts_ms: int) -> Tick:
    """Return a tick of a card with an idle process that serves a model, and an active one."""
    tick = agent_tick("a", ts_ms)
    of_each = {"owner": "ana", "gpu_time_ms": 15_000, "memory_bytes": 2**30, "created_ms": 1}
    idle = ProcessReading(pid=7, comm="serve", utilization=0.0, workload_kind="vLLM", workload_model="m", **of_each)
    active = ProcessReading(pid=8, comm="train", utilization=0.5, **of_each)
    return replace(tick, cards=(replace(tick.cards[0], processes=(idle, active)),))


def test_a_block_is_left_out_with_what_stands_in_its_place() -> None:
    whole = "SELECT sum(priced) AS priced, count(), 1 AS one FROM a UNION ALL SELECT 2"
    assert code(without(SQL, frozenset())) == whole
    assert code(without(SQL, frozenset({"prices"}))) == "SELECT 0 AS priced, 1 AS one FROM a UNION ALL SELECT 2"
    assert code(without(SQL, frozenset({"counted hours"}))) == "SELECT sum(priced) AS priced, count(), 1 AS one FROM a"
    assert code(without(SQL, frozenset(BLOCKS))) == "SELECT 0 AS priced, 1 AS one FROM a"


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({}, set()),
        ({"use_hourly": 1, "price_models": ["H100"], "by": "model"}, {"what was told"}),
        ({"use_hourly": 0}, {"counted hours"}),
        ({"by": "kind"}, set()),
        ({"by": "owner", "price_models": ["H100"]}, {"what was told", "other keys"}),
        ({"by": "model", "price_models": []}, {"prices", "what was told"}),
        ({"by": "host", "price_models": []}, {"prices", "prices or models", "what was told"}),
        (
            {"by": "identity", "price_models": []},
            {"prices", "prices or models", "hosts or models", "what was told", "other keys"},
        ),
        # Days up to 30 hours before the window ends tell who is there then, newer ones do not.
        ({"days": [3, 9], "until_ms": 10 * DAY_MS + 30 * 3_600_000}, set()),
        ({"days": [3, 9], "until_ms": 10 * DAY_MS + 30 * 3_600_000 - 1}, {"who is there"}),
        ({"long_streak_ms": 0}, {"split and hours of cards"}),
        ({"long_streak_ms": 1}, {"days of cards"}),
    ],
)
def test_what_is_not_given_is_needed(parameters: dict[str, object], names: set[str]) -> None:
    assert needless(parameters) == names


def test_every_block_of_the_shipped_sql_has_a_known_name_and_an_end() -> None:
    named: set[str] = set()
    for with_days in (False, True):
        for one in load(EMBEDDED_TOKENS, with_days=with_days):
            found = [*_COMMENT.finditer(one.sql)]
            opened = ""
            for line in found:
                if line["name"]:
                    assert not opened, one.name
                    opened = line["name"]
                assert opened, one.name
                named.add(opened)
                opened = "" if line[0].strip() == "-- END" else opened
            assert not opened, one.name
            left = without(one.sql, frozenset(BLOCKS))
            assert not _COMMENT.search(left), one.name
    assert named == BLOCKS.keys()


def test_a_view_that_is_given_other_parameters_than_the_question_is_whole_with_all_within() -> None:
    inner = "CREATE VIEW gua_report.inner\nAS\nSELECT 1\n-- ONLY with counted hours\nUNION ALL SELECT 2\n-- END"
    middle = "CREATE VIEW gua_report.middle\nAS\nSELECT * FROM gua_report.inner(use_hourly = {use_hourly:UInt8})"
    views = ReportViews(Statement(name=name, sql=sql) for name, sql in (("inner", inner), ("middle", middle))).of(
        {"use_hourly": 0}
    )
    for view in ("inner", "middle"):
        passed_on, given = (
            views.written_out(f"SELECT * FROM gua_report.{view}(use_hourly = {value})", deep=True)
            for value in ("{use_hourly:UInt8}", "1")
        )
        assert "SELECT 2" not in passed_on
        assert "SELECT 2" in given


def test_a_query_without_blocks_asks_for_fewer_tables() -> None:
    whole, left = (report_views().of(given).query("usage") for given in ({}, {"by": "owner", "price_models": []}))
    assert "gua.card_info" in whole
    assert "gua.process_ticks" in whole
    assert "gua." not in left.replace("gua_report.", "")


@pytest.mark.engine
def test_the_rows_are_those_of_the_whole_view(tmp_path: Path) -> None:
    begin_ms = 1_774_569_600_000
    read = {"since_ms": begin_ms + 10_000, "until_ms": begin_ms + 600_000, "hosts": []}
    read |= {"tick_hours": [begin_ms // 3_600_000], "use_hourly": 0}
    asked = {
        "usage": {**read, "price_models": [], "price_starts": []},
        "overview": read,
        "time_of_day": {**read, "timezone": "UTC"},
        "card_streaks": {**read, "timezone": "UTC", "long_streak_ms": 1},
        "allocation_sources": read,
    }
    with open_store(f"chdb://{tmp_path}/store") as store:
        store.land([*spooled_ticks(map(held_tick, range(begin_ms + 30_000, begin_ms + 150_000, 30_000)))])
        for view, parameters in asked.items():
            for by in ("identity", "program", "kind", "model") if view == "usage" else ("",):
                given = {**parameters, "by": by} if by else parameters
                # A user's own statement asks the view as it is.
                call = ", ".join(f"{name} = {value!r}" for name, value in given.items())
                whole = store.answer(f"SELECT * FROM gua_report.{view}({call})")
                rows = store.rows(view, given)
                assert rows or view == "allocation_sources"
                of_whole = [dict(zip(whole.names, row, strict=True)) for row in whole.rows]
                assert in_order(rows) == in_order(of_whole), (view, by)
