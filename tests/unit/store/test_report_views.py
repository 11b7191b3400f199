"""The views of gua_report as text: put in the place of their calls, with what a call gives, and made in memory."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from gua.core.errors import UnavailableError
from gua.store.database import call_of, open_store
from gua.store.kept_columns import KEPT_COLUMNS
from gua.store.report_views import MADE, ReportViews, ViewsInMemory, ViewsOfServer, report_views
from gua.store.schema import this_version
from gua.store.statements import Statement
from gua.store.topology import Retention, Topology

INNER = """-- A comment
CREATE OR REPLACE VIEW gua_report.inner
AS
SELECT host
-- Another one; of gua_report.outer
FROM gua.ticks
WHERE ts > {since:Int64} AND has({hosts:Array(String)}, host)
COMMENT 'Words'"""
OUTER = """CREATE OR REPLACE VIEW gua_report.outer
AS
SELECT count() FROM gua_report.inner(since = {since:Int64}, hosts = {hosts:Array(String)}) AS each"""
OTHER = "CREATE OR REPLACE VIEW gua.other\nAS\nSELECT * FROM gua_report.outer(since = 5, hosts = ['a, (b', 'it''s'])"


def made(sql: str) -> Statement:
    return Statement(name="file", sql=sql)


STATEMENTS = [
    Statement(name="db", sql="-- One\nCREATE DATABASE IF NOT EXISTS gua_report"),
    *map(made, (INNER, OUTER, OTHER)),
]
VIEWS = ReportViews(STATEMENTS)


def plain(sql: str) -> str:
    return " ".join(sql.split())


def test_a_call_becomes_the_views_query_with_what_it_gives() -> None:
    asked = VIEWS.written_out(
        "SELECT * FROM gua_report.inner(since = least(1, 2), hosts = {all:Array(String)}) LIMIT 1"
    )
    assert plain(asked) == (
        "SELECT * FROM ( SELECT host FROM gua.ticks WHERE ts > CAST(least(1, 2), 'Int64') "
        "AND has(CAST({all:Array(String)}, 'Array(String)'), host) ) AS inner LIMIT 1"
    )


def test_what_is_passed_on_stays_a_parameter_and_its_name_stays() -> None:
    assert VIEWS.written_out("SELECT 1") == "SELECT 1"
    shallow, deep = (VIEWS.written_out("SELECT * FROM gua_report.outer", deep=deep) for deep in (False, True))
    assert "gua_report.inner(since = {since:Int64}" in shallow
    assert "gua_report" not in deep
    assert "ts > {since:Int64}" in deep
    assert plain(deep).endswith(") AS each ) AS outer")


def test_a_store_without_these_views_has_their_queries_in_the_others() -> None:
    (other,) = VIEWS.without_them(STATEMENTS)
    assert other.creates == ("gua", "other")
    assert "ts > CAST(5, 'Int64') AND has(CAST(['a, (b', 'it''s'], 'Array(String)'), host)" in plain(other.sql)


def test_views_are_made_in_memory_once_and_before_those_that_ask_for_them() -> None:
    ran: list[str] = []
    views = ViewsInMemory(VIEWS, lambda sql, _parameters: ran.append(sql))
    for _ in range(2):
        views.asked("SELECT * FROM gua_report.outer", {})
    assert [sql.split("\n")[0] for sql in ran] == [MADE, "-- A comment"]
    views.make_for("DESCRIBE gua_report.outer")
    assert len(ran) == 3
    assert ran[1].count("CREATE VIEW IF NOT EXISTS gua_report.inner") == 1


def test_a_list_in_parts_comes_into_the_query_of_the_view_and_of_those_in_it() -> None:
    joined = "arrayConcat({hosts_0:Array(String)}, {hosts_1:Array(String)})"
    asked = VIEWS.called("outer", f"(since = {{since:Int64}}, hosts = {joined})")
    assert "ts > {since:Int64}" in asked
    assert joined in asked
    assert "gua_report" not in asked
    assert "{hosts:" not in asked


def test_a_server_is_asked_by_queries_only_where_its_views_are_ours() -> None:
    asked: list[int] = []

    def applied() -> tuple[int, str]:
        asked.append(1)
        return this_version()

    views = ViewsOfServer(applied, this_version)
    call = "(hosts = {hosts:Array(String)})"
    for _ in range(2):
        assert "FROM gua.cards\n" in (views.query("extent", call) or "")
    assert len(asked) == 1
    views.refuse()
    assert views.query("extent", call) is None
    version, digest = this_version()
    for other in ((version - 1, digest), (version, f"{digest}x"), (0, "")):
        assert ViewsOfServer(lambda told=other: told, this_version).query("extent", call) is None


def test_a_user_whom_a_server_tells_no_version_is_not_asked_for_it_twice() -> None:
    asked: list[int] = []

    def applied() -> tuple[int, str]:
        asked.append(1)
        msg = "no right"
        raise UnavailableError(msg)

    views = ViewsOfServer(applied, this_version)
    with pytest.raises(UnavailableError, match="no right"):
        views.query("extent", "")
    views.refuse()
    assert views.query("extent", "") is None
    assert len(asked) == 1


TICKS = """CREATE OR REPLACE VIEW gua_report.spans
AS
SELECT host FROM gua.ticks WHERE ts > {since_ms:Int64} AND ts < {until_ms:Int64}
AND hour IN {tick_hours:Array(Int64)}"""
PASSED_ON = (
    "since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, "
    "tick_hours = {tick_hours:Array(Int64)}"
)
RUNS = f"CREATE OR REPLACE VIEW gua_report.runs\nAS\nSELECT host FROM gua_report.spans({PASSED_ON})"
LONGER = f"CREATE OR REPLACE VIEW gua_report.longer\nAS\nSELECT host FROM gua_report.runs({PASSED_ON})"
OTHER_WINDOW = PASSED_ON.replace("{since_ms", "{at_ms")
LONGEST = f"CREATE OR REPLACE VIEW gua_report.longest\nAS\nSELECT host FROM gua_report.longer({PASSED_ON})"
OTHERS = f"CREATE OR REPLACE VIEW gua_report.others\nAS\nSELECT host FROM gua_report.longer({OTHER_WINDOW})"
KEPT = ReportViews([*map(made, (TICKS, RUNS, LONGER, LONGEST, OTHERS))])
WINDOW = {"since_ms": 1, "until_ms": 2, "hosts": [], "tick_hours": [3], "use_hourly": 1}
TICKS_ALONE = {"spans": ["host String", "hour DateTime"]}
TICKS_AND_LONGER = {**TICKS_ALONE, "longer": ["host String"]}


def test_the_ticks_of_a_window_are_read_once_for_all_that_ask_for_it() -> None:
    ran: list[str] = []
    views = ViewsInMemory(KEPT, lambda sql, _parameters: ran.append(plain(sql)), TICKS_ALONE)
    runs = plain(views.asked(KEPT.query("runs"), WINDOW))
    assert runs == "SELECT host FROM gua_report.`spans_1` AS spans"
    longest = plain(views.asked(KEPT.query("longest"), WINDOW))
    # A view without parameters, as its own were those of the ticks, is not called with any.
    assert "FROM gua_report.`runs_1` AS runs" in longest
    assert [sql.split(" AS ")[0] for sql in ran] == [
        "CREATE DATABASE IF NOT EXISTS gua_report ENGINE = Memory COMMENT 'Views of reports'",
        "CREATE TABLE gua_report.`spans_1` (host String, hour DateTime) ENGINE = Memory",
        f"INSERT INTO gua_report.`spans_1` {plain(KEPT.query('spans'))}",
        "CREATE VIEW gua_report.`runs_1`",
    ]
    assert ran[-1].endswith("SELECT host FROM gua_report.`spans_1` AS spans")


def test_what_is_made_of_the_ticks_is_asked_once_and_by_what_is_kept_below_it() -> None:
    ran: list[str] = []
    views = ViewsInMemory(KEPT, lambda sql, _parameters: ran.append(plain(sql)), TICKS_AND_LONGER)
    for _ in range(2):
        assert plain(views.asked(KEPT.query("longest"), WINDOW)) == "SELECT host FROM gua_report.`longer_1` AS longer"
    assert [sql for sql in ran if sql.startswith("INSERT")] == [
        f"INSERT INTO gua_report.`spans_1` {plain(KEPT.query('spans'))}",
        "INSERT INTO gua_report.`longer_1` SELECT host FROM ( SELECT host FROM gua_report.`spans_1` AS spans ) AS runs",
    ]


def test_who_asks_while_it_is_made_waits_for_it_and_for_nothing_else() -> None:
    """Of two that ask for ticks one makes them; of what is made of them, each what nobody makes yet."""
    ran: list[str] = []
    is_asked, may_go_on = threading.Event(), threading.Event()

    def command(sql: str, _parameters: object) -> None:
        ran.append(plain(sql))
        if sql.startswith("INSERT INTO gua_report.`longer_1`"):
            is_asked.set()
            assert may_go_on.wait(60)

    views = ViewsInMemory(KEPT, command, TICKS_AND_LONGER)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(views.asked, KEPT.query("longest"), WINDOW)
        assert is_asked.wait(60)
        second = pool.submit(views.asked, KEPT.query("longest"), WINDOW)
        assert "`spans_1`" in views.asked(KEPT.query("runs"), WINDOW)
        assert not second.done()
        may_go_on.set()
        assert first.result(60) == second.result(60)
    assert len([sql for sql in ran if sql.startswith("INSERT")]) == 2


def test_another_window_many_hours_and_what_was_written_are_not_asked_of_kept_ticks() -> None:
    views = ViewsInMemory(KEPT, lambda _sql, _parameters: None, TICKS_ALONE)
    assert "spans_1" in views.asked(KEPT.query("runs"), WINDOW)
    assert "`" not in views.asked(KEPT.query("others"), {**WINDOW, "at_ms": 0})
    assert "`" not in views.asked(KEPT.query("runs"), {**WINDOW, "tick_hours": [3, 4, 5, 6, 7]})
    assert "`" not in views.asked(KEPT.query("runs"), {"tick_hours": [3]})
    assert "spans_2" in views.asked(KEPT.query("runs"), {**WINDOW, "hosts": ["a"]})
    views.forget()
    assert "spans_3" in views.asked(KEPT.query("runs"), WINDOW)
    assert "`" not in views.asked(KEPT.query("runs"), {**WINDOW, "since_ms": 0})


@pytest.mark.parametrize(("full", "left"), [("spans", "`"), ("longer", "`longer_1` AS")])
def test_what_cannot_be_kept_is_asked_by_each_question(full: str, left: str) -> None:
    ran: list[str] = []

    def command(sql: str, _parameters: object) -> None:
        ran.append(sql)
        if sql.startswith(f"INSERT INTO gua_report.`{full}_1`"):
            msg = "too many"
            raise UnavailableError(msg)

    views = ViewsInMemory(KEPT, command, TICKS_AND_LONGER)
    assert all(left not in views.asked(KEPT.query("longest"), WINDOW) for _ in range(2))
    assert [sql for sql in ran if f"`{full}_1`" in sql][2] == f"DROP TABLE IF EXISTS gua_report.`{full}_1`"
    assert len([sql for sql in ran if sql.startswith(f"INSERT INTO gua_report.`{full}_1`")]) == 1


@pytest.mark.engine
def test_tables_have_the_columns_of_the_views_that_they_stand_for(tmp_path: Path) -> None:
    window = {"since_ms": 0, "until_ms": 1, "hosts": [], "tick_hours": [0], "use_hourly": 1}
    with open_store(f"chdb://{tmp_path}/store") as store:
        for view, columns in KEPT_COLUMNS.items():
            told = store.select(f"DESCRIBE TABLE ({call_of(view, window)[0]})", window)
            types = [" ".join(f"{one['name']} {one['type']}".split()).replace("( ", "(") for one in told]
            assert types == [*columns], view


def test_a_view_that_is_not_there_is_named() -> None:
    with pytest.raises(UnavailableError, match=r"no view gua_report\.nothing"):
        VIEWS.query("nothing")


def test_no_object_of_an_embedded_store_asks_for_a_view_of_reports() -> None:
    kept = Topology(embedded=True).statements(Retention())
    code = [line for one in kept for line in one.sql.splitlines() if not line.lstrip().startswith("--")]
    assert not [line for line in code if "gua_report." in line and "COMMENT" not in line]
    assert len(kept) > 60
    assert "spans" in report_views().named("SELECT * FROM gua_report.overview()")


@pytest.mark.engine
def test_a_statement_of_a_user_may_name_them_and_the_store_keeps_none(tmp_path: Path) -> None:
    with open_store(f"chdb://{tmp_path}/store") as store:
        count = "SELECT count() AS n FROM system.tables WHERE database = 'gua_report'"
        assert store.select(count) == [{"n": 0}]
        assert len(store.answer("SELECT key FROM gua_report.rules").rows) == 3
        assert store.answer(f"{count} AND name = 'usage'").rows[0][0] == 1
    with open_store(f"chdb://{tmp_path}/store") as store:
        assert store.select(count) == [{"n": 0}]
        assert store.schema.check().lines == []


@pytest.mark.engine
def test_what_is_written_between_two_questions_of_one_window_counts(tmp_path: Path) -> None:
    begin_ms = 1_774_569_600_000
    read = {
        "since_ms": begin_ms,
        "until_ms": begin_ms + 600_000,
        "hosts": [],
        "tick_hours": [begin_ms // 3_600_000],
        "use_hourly": 0,
        "timezone": "UTC",
    }

    def states() -> dict[str, int]:
        (total,) = (row for row in store.rows("overview", read) if row["is_total"])
        found = {str(row["state"]): int(row["card_ticks"]) for row in store.rows("time_of_day", read)}
        assert {state: ticks for state, ticks, *_ in total["states"] if ticks} == found
        return found

    with open_store(f"chdb://{tmp_path}/store") as store:
        for number in (1, 2):
            store.land([*spooled_ticks([agent_tick("a", begin_ms + number * 30_000)])])
            assert [states() for _ in range(2)] == [{"active": number}] * 2
        store.insert_json("settings", [{"key": "active_utilization", "value": 0.9}])
        assert states() == {"idle-held": 2}
        kept = "SELECT name FROM system.tables WHERE database = 'gua_report' AND engine = 'Memory' ORDER BY name"
        of_each = [f"{view}_{number}" for view in ("card_parts", "spans") for number in (1, 2, 3)]
        assert [row["name"] for row in store.select(kept)] == of_each
