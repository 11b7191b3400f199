"""The views of gua_report as text: put in the place of their calls, with what a call gives, and made in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.store.database import open_store
from gua.store.report_views import MADE, ReportViews, ViewsInMemory, ViewsOfServer, report_views
from gua.store.retention import Retention
from gua.store.schema import this_version
from gua.store.statements import Statement
from gua.store.topology import Topology

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
    database, _, name = sql.split("VIEW ")[1].split(maxsplit=1)[0].partition(".")
    return Statement(name=name, sql=sql, creates=(database, name))


STATEMENTS = [
    Statement(name="db", sql="-- One\nCREATE DATABASE IF NOT EXISTS gua_report", creates=None),
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
    views = ViewsInMemory(VIEWS, ran.append)
    for _ in range(2):
        views.asked("SELECT * FROM gua_report.outer")
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
