"""``gua sql`` on an embedded store: it answers in three forms, and nothing in a statement changes anything."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gua.cli.main import main
from gua.store.database import open_store
from gua.store.user_query import statement

pytestmark = pytest.mark.engine

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Path:
    path = tmp_path_factory.mktemp("sql") / "store"
    with open_store(made_store(path)) as store:
        store.insert_json("settings", [{"key": "active_utilization", "value": 0.2}])
    return path


@pytest.fixture
def gua(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GUA_HOME", str(folder.parent))
    monkeypatch.setenv("GUA_STORE", f"chdb://{folder}")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["sql", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_table_has_names_rows_and_their_number(gua: Run) -> None:
    sql = "SELECT key, value AS v, NULL AS nothing FROM gua.settings; "
    assert gua(sql) == (
        0,
        "key                   v  nothing\nactive_utilization  0.2  -\n1 row\n",
        "",
    )
    assert gua("SELECT 1 AS a WHERE 0") == (0, "a\n0 rows\n", "")
    assert gua("SHOW TABLES FROM gua LIKE 'cards'")[1] == "name\ncards\n1 row\n"
    assert "active_utilization" in gua("WITH 1 AS a SELECT * FROM gua.settings WHERE a = 1 -- a comment")[1]


def test_a_statement_comes_from_standard_input(gua: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("-- a comment\nSELECT 'semicolon; in text' AS a;\n"))
    assert gua("-")[1] == "a\nsemicolon; in text\n1 row\n"


def test_a_filter_is_taken_through_views_to_the_ticks_below_them(gua: Run) -> None:
    # Off in the questions of a report, which shortens their plans; through gua_public every tick would be read then.
    assert gua("SELECT toUInt8(getSetting('query_plan_merge_expressions')) AS merged")[1] == "merged\n     1\n1 row\n"


VALUES = """SELECT nan AS n, toDateTime64('2026-01-02 03:04:05.678', 3, 'Asia/Tokyo') AS t, toDate('2026-01-02') AS d,
    [1, 2] AS l, map('a', NULL) AS m, '=1+1' AS f, char(7, 10, 97) AS c, 18446744073709551615 AS u, true AS b"""


def test_csv_is_harmless_and_json_is_whole(gua: Run) -> None:
    header, row = csv.reader(io.StringIO(gua(VALUES, "--csv")[1]))
    assert header == ["n", "t", "d", "l", "m", "f", "c", "u", "b"]
    expected = ["2026-01-01T18:04:05.678Z", "2026-01-02", "[1, 2]", '{"a": null}', "'=1+1", "a", "18446744073709551615"]
    assert row[1:] == [*expected, "true"]
    found = json.loads(gua(VALUES, "--json")[1])
    assert found["schema"] == "gua.sql/1"
    assert found["columns"][1] == {"name": "t", "type": "DateTime64(3, 'Asia/Tokyo')"}
    (values,) = found["rows"]
    assert values["n"] is None
    assert values["c"] == "\a\na"
    assert values["u"] == 2**64 - 1


@pytest.mark.parametrize("text", ["'=1+1'", "toFixedString('=1+1', 4)", "toLowCardinality('=1+1')"])
def test_no_text_of_any_type_is_a_formula_in_csv(gua: Run, text: str) -> None:
    assert gua(f"SELECT {text} AS f, toDecimal32(-1.5, 1) AS d", "--csv")[1].splitlines()[1] == "'=1+1,-1.5"


@pytest.mark.parametrize(
    ("sql", "code", "told"),
    [
        ("", 2, "this is none"),
        ("SELECT", 2, "the statement is refused"),
        ("SELECT nothing", 2, "Unknown expression identifier"),
        ("SELECT * FROM gua.nothing", 2, "gua.nothing"),
        ("DROP VIEW gua.cards", 2, "not with DROP"),
        ("INSERT INTO gua.settings (key, value) VALUES ('a', 1)", 2, "not with INSERT"),
        ("SET readonly = 0", 2, "not with SET"),
        ("SELECT 1; DROP VIEW gua.cards", 2, "refused"),
        ("SELECT 1); DROP VIEW gua.cards; SELECT (1", 3, "only read"),
        ("SHOW TABLES FROM gua; DROP VIEW gua.cards", 3, "only read"),
        ("SHOW TABLES FROM gua; SET readonly = 0; DROP VIEW gua.cards", 3, "only read"),
        ("SELECT 1 INTO/**/OUTFILE 'a'", 2, "INTO OUTFILE"),
        ("SELECT 1 FORMAT JSON", 2, "refused"),
        ("SELECT 1 SETTINGS readonly = 0", 3, "only read"),
        ("SELECT 1 SETTINGS max_memory_usage = 0", 3, "only read"),
        ("SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", 3, "only read"),
        ("SELECT * FROM numbers(200000)", 2, "exceeds a limit"),
        ("SELECT groupArray(repeat('a', 1000)) FROM numbers(1000000)", 2, "exceeds a limit"),
    ],
)
def test_statements_that_are_not_queries_are_refused_in_one_line(gua: Run, sql: str, code: int, told: str) -> None:
    ended, out, err = gua(sql)
    assert (ended, out, len(err.splitlines())) == (code, "", 1)
    assert told in err
    cards = "(SELECT count() FROM system.tables WHERE database = 'gua' AND name = 'cards')"
    assert gua(f"SELECT count() AS n, {cards} AS t FROM gua.settings")[1] == "n  t\n1  1\n1 row\n"


def test_one_form_is_chosen_and_a_store_is_not_made(gua: Run, tmp_path: Path) -> None:
    assert gua("SELECT 1", "--csv", "--json")[0] == 2
    assert gua("SELECT 1", "--store", str(tmp_path / "none"))[0] == 3
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "sql", [" (select 1)", "/* a */ SELECT 1;;", "# a\nwith 1 as x select x", "DESC a", "EXISTS a"]
)
def test_queries_are_recognized_by_their_first_word(sql: str) -> None:
    assert statement(sql) == sql.strip().rstrip(";")
