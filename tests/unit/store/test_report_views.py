"""The views of gua_report are queried by their statements, and ticks of a window are rolled up once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from gua.core.errors import UnavailableError
from gua.store.database import external_tables, open_store
from gua.store.report_views import ReportViews, SentTicks, TickTables, ViewsOfServer, report_views
from gua.store.schema import this_version
from gua.store.statements import EMBEDDED_TOKENS, Statement, load
from gua.store.topology import Retention, Topology

CALL = (
    "(since_ms = {since_ms:Int64}, until_ms = {until_ms:Int64}, hosts = {hosts:Array(String)}, "
    "tick_hours = {tick_hours:Array(Int64)})"
)
TICKS = """-- A comment
CREATE OR REPLACE VIEW gua_report.tick_cards
AS
SELECT host
-- Another one
FROM gua.ticks
WHERE hour IN {tick_hours:Array(Int64)}
COMMENT 'Words'"""
CARDS = f"CREATE OR REPLACE VIEW gua_report.cards\nAS\nSELECT count() FROM gua_report.tick_cards{CALL}"


def made(sql: str) -> Statement:
    name = sql.split("VIEW ")[1].split(maxsplit=1)[0]
    return Statement(name=name, sql=sql)


VIEWS = ReportViews(map(made, (TICKS, CARDS)))
WINDOW: Mapping[str, object] = {"since_ms": 1, "until_ms": 2, "hosts": [], "tick_hours": [3], "use_hourly": 1}


class Engine:
    """Remembers statements, and answers how many ticks each hour has."""

    def __init__(self, ticks: Mapping[int, int] | None = None) -> None:
        self.ran: list[tuple[str, Mapping[str, object]]] = []
        self.ticks = ticks or {}
        self.tables = TickTables(VIEWS, lambda sql, given: self.ran.append((sql, given)), self.select)

    def select(self, sql: str, _parameters: Mapping[str, object]) -> Iterable[Mapping[str, Any]]:
        if sql.startswith("DESCRIBE"):
            return [{"name": "host"}]
        return [{"hour": hour, "ticks": ticks} for hour, ticks in self.ticks.items()]

    def read(self, sql: str, parameters: Mapping[str, object]) -> str:
        with self.tables.reading(sql, parameters) as read:
            return read

    def inserted(self) -> list[object]:
        """Return the hours of each insert."""
        return [given["tick_hours"] for sql, given in self.ran if sql.startswith("INSERT")]


def test_a_view_is_queried_by_its_statement_without_comments() -> None:
    assert VIEWS.query("tick_cards") == "SELECT host\nFROM gua.ticks\nWHERE hour IN {tick_hours:Array(Int64)}"
    with pytest.raises(UnavailableError, match=r"no view gua_report\.nothing"):
        VIEWS.query("nothing")


def test_the_ticks_of_a_window_are_rolled_up_once_for_all_queries() -> None:
    engine = Engine()

    for _ in range(2):
        assert engine.read(VIEWS.query("cards"), WINDOW) == "SELECT count() FROM gua_report.tick_cards_1"

    assert [sql.split("\n")[0] for sql, _ in engine.ran] == [
        "CREATE DATABASE IF NOT EXISTS gua_report ENGINE = Memory COMMENT 'Views of reports'",
        "CREATE TABLE gua_report.tick_cards_1 AS gua.hourly_cards ENGINE = Memory",
        "INSERT INTO gua_report.tick_cards_1 (host)",
    ]
    assert engine.read("SELECT 1", WINDOW) == "SELECT 1"


@pytest.mark.parametrize("hours", [[], [-1]])
def test_a_window_without_ticks_to_read_has_an_empty_table(hours: list[int]) -> None:
    engine = Engine()

    assert "tick_cards_1" in engine.read(VIEWS.query("cards"), {**WINDOW, "tick_hours": hours})

    assert engine.inserted() == []


def test_many_ticks_are_rolled_up_in_parts_of_whole_hours() -> None:
    engine = Engine(dict.fromkeys(range(7), 90000))

    engine.read(VIEWS.query("cards"), {**WINDOW, "tick_hours": [*range(7)]})

    assert engine.inserted() == [[0, 1], [2, 3], [4, 5], [6]]


def test_each_window_has_its_own_table_and_the_oldest_goes() -> None:
    engine = Engine()

    for number in range(6):
        engine.read(VIEWS.query("cards"), {**WINDOW, "since_ms": number})

    dropped = [sql for sql, _ in engine.ran if sql.startswith("DROP")]
    assert dropped == [f"DROP TABLE IF EXISTS gua_report.tick_cards_{number}" for number in (1, 2)]


def test_a_table_that_a_query_reads_stays_while_other_windows_are_read() -> None:
    engine = Engine()

    with engine.tables.reading(VIEWS.query("cards"), WINDOW):
        for number in range(2, 8):
            engine.read(VIEWS.query("cards"), {**WINDOW, "since_ms": number})
        engine.tables.forget()
        dropped = {sql for sql, _ in engine.ran if sql.startswith("DROP")}
        assert dropped == {f"DROP TABLE IF EXISTS gua_report.tick_cards_{number}" for number in range(2, 8)}

    assert "DROP TABLE IF EXISTS gua_report.tick_cards_1" in [sql for sql, _ in engine.ran]


def test_tables_of_a_window_are_filled_at_the_same_time() -> None:
    views = ReportViews(map(made, (TICKS, CARDS, *(sql.replace("_cards", "_sources") for sql in (TICKS, CARDS)))))
    together = threading.Barrier(2, timeout=10)

    def command(sql: str, _given: Mapping[str, object]) -> None:
        if sql.startswith("INSERT"):
            together.wait()

    tables = TickTables(views, command, lambda *_: [{"name": "host"}])

    def read(view: str) -> str:
        with tables.reading(f"SELECT * FROM gua_report.{view}{CALL}", WINDOW) as sql:
            return sql.rpartition("_")[0]

    with ThreadPoolExecutor(2) as pool:
        read_tables = [*pool.map(read, ("tick_cards", "tick_sources"))]
    assert read_tables == ["SELECT * FROM gua_report.tick_cards", "SELECT * FROM gua_report.tick_sources"]


def test_a_table_that_could_not_be_filled_is_filled_by_the_next_query() -> None:
    engine = Engine()
    failing = [OSError("no memory")]

    def command(sql: str, given: Mapping[str, object]) -> None:
        engine.ran.append((sql, given))
        if sql.startswith("INSERT") and failing:
            raise failing.pop()

    engine.tables = TickTables(VIEWS, command, engine.select)
    with pytest.raises(OSError, match="no memory"):
        engine.read(VIEWS.query("cards"), WINDOW)

    assert "tick_cards_2" in engine.read(VIEWS.query("cards"), WINDOW)
    engine.tables.forget()
    assert [sql.split(".")[1] for sql, _ in engine.ran if sql.startswith("DROP")] == ["tick_cards_1", "tick_cards_2"]


def test_what_was_written_is_read_anew() -> None:
    engine = Engine()

    engine.read(VIEWS.query("cards"), WINDOW)
    engine.tables.forget()

    assert "tick_cards_2" in engine.read(VIEWS.query("cards"), WINDOW)


class Server:
    """Answers each query of ticks with one row of the asked size, and remembers the window."""

    def __init__(self, size: int = 1) -> None:
        self.read: list[Mapping[str, object]] = []
        self._size = size
        self.ticks = SentTicks(VIEWS.query, self._answer)

    def _answer(self, sql: str, window: Mapping[str, object]) -> bytes:
        assert sql == VIEWS.query("tick_cards")
        self.read.append(window)
        return b"host\nString\n" + b"x" * self._size


def test_ticks_are_read_from_a_server_once_and_sent_with_every_query_of_their_window() -> None:
    server = Server()

    for _ in range(2):
        query, tables = server.ticks.sent_with(VIEWS.query("cards"), WINDOW)
        assert (query, tables) == ("SELECT count() FROM tick_cards", {"tick_cards": b"host\nString\nx"})

    assert server.read == [{name: value for name, value in WINDOW.items() if name != "use_hourly"}]
    server.ticks.sent_with(VIEWS.query("cards"), {**WINDOW, "since_ms": 2})
    assert len(server.read) == 2
    server.ticks.forget()
    server.ticks.sent_with(VIEWS.query("cards"), WINDOW)
    assert len(server.read) == 3


@pytest.mark.parametrize(
    ("size", "hours", "reads"), [(1, [], 0), (1, [*range(5)], 0), (9 * 2**20, [3], 1)], ids=["none", "many", "large"]
)
def test_the_server_reads_ticks_itself_where_there_are_none_or_many(size: int, hours: list[int], reads: int) -> None:
    server = Server(size)

    for _ in range(2):
        window = {**WINDOW, "tick_hours": hours}
        assert server.ticks.sent_with(VIEWS.query("cards"), window) == (VIEWS.query("cards"), {})

    assert len(server.read) == reads


def test_tables_that_are_sent_have_the_names_and_types_of_the_answer() -> None:
    answer = b"host\thour\nLowCardinality(String)\tDateTime(\\'UTC\\')\na\\tb\t2026-01-01 00:00:00\n"

    external = external_tables({"tick_cards": answer})

    assert external is not None
    assert external.query_params == {
        "tick_cards_format": "TabSeparated",
        "tick_cards_structure": "host LowCardinality(String), hour DateTime('UTC')",
    }
    assert external.form_data["tick_cards"][1] == b"a\\tb\t2026-01-01 00:00:00\n"
    assert external_tables({}) is None


def test_a_server_is_queried_by_statements_only_if_its_views_are_of_this_version() -> None:
    times: list[int] = []

    def applied() -> tuple[int, str]:
        times.append(1)
        return this_version()

    views = ViewsOfServer(applied, this_version)
    for _ in range(2):
        assert "FROM gua.cards\n" in (views.query("extent") or "")
    assert len(times) == 1
    views.refuse()
    assert views.query("extent") is None
    version, digest = this_version()
    for other in ((version - 1, digest), (version, f"{digest}x"), (0, "")):
        assert ViewsOfServer(lambda other_version=other: other_version, this_version).query("extent") is None


def test_a_user_without_the_right_to_read_the_version_does_not_query_it_twice() -> None:
    times: list[int] = []

    def applied() -> tuple[int, str]:
        times.append(1)
        msg = "no right"
        raise UnavailableError(msg)

    views = ViewsOfServer(applied, this_version)
    with pytest.raises(UnavailableError, match="no right"):
        views.query("extent")
    views.refuse()
    assert views.query("extent") is None
    assert len(times) == 1


def test_no_object_of_an_embedded_store_reads_a_view_of_reports() -> None:
    there = Topology(embedded=True).statements(Retention())
    code = [line for one in there for line in one.sql.splitlines() if not line.lstrip().startswith("--")]
    assert not [line for line in code if "gua_report." in line and "COMMENT" not in line]
    assert len(there) > 60


def test_views_of_reports_read_no_other_view_of_reports_but_those_of_ticks() -> None:
    names = [one.creates[1] for one in load(EMBEDDED_TOKENS) if one.creates and one.creates[0] == "gua_report"]
    for name in names:
        sql = report_views().query(name)
        called = {word.split("(")[0] for word in sql.split() if word.startswith("gua_report.")}
        assert {one for one in called if not one.startswith("gua_report.tick_")} == set(), name


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
def test_what_is_written_between_two_queries_of_one_window_counts(tmp_path: Path) -> None:
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
        (card,) = store.rows("overview", read)
        found = {str(row["state"]): int(row["card_ticks"]) for row in store.rows("time_of_day", read)}
        assert {state: card[f"{state.replace('-', '_')}_card_ticks"] for state in found} == found
        return found

    with open_store(f"chdb://{tmp_path}/store") as store:
        for number in (1, 2):
            store.land([*spooled_ticks([agent_tick("a", begin_ms + number * 30_000)])])
            assert [states() for _ in range(2)] == [{"active": number}] * 2
        store.insert_json("settings", [{"key": "active_utilization", "value": 0.9}])
        assert states() == {"idle-held": 2}
