from __future__ import annotations

import re
from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.store import statements
from gua.store.statements import schema_directory

CHECKOUT = Path(__file__).resolve().parents[3] / "clickhouse"
CLUSTER_TOKENS = {
    replication.value: statements.cluster_tokens("lab", ticks_days=90, hours_days=700, replication=replication)
    for replication in statements.Replication
}
FORMS = {"embedded": statements.EMBEDDED_TOKENS, "served": statements.server_tokens(), **CLUSTER_TOKENS}
RENDERINGS = pytest.mark.parametrize("tokens", FORMS.values(), ids=FORMS)


def test_a_checkout_uses_its_own_sql() -> None:
    assert schema_directory() == CHECKOUT


def test_an_installed_package_uses_the_sql_in_it(tmp_path: Path) -> None:
    packaged = tmp_path / "gua" / "clickhouse"
    (packaged / "00_landing").mkdir(parents=True)
    assert schema_directory((packaged, CHECKOUT)) == packaged


def test_a_package_without_the_sql_falls_back_to_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "clickhouse").mkdir()
    assert schema_directory((tmp_path / "clickhouse", CHECKOUT)) == CHECKOUT


def test_sql_that_is_nowhere_is_one_line_that_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="install gua-otel again") as refused:
        schema_directory((tmp_path / "a", tmp_path / "b"))
    assert str(tmp_path / "a") in str(refused.value)


@RENDERINGS
def test_every_file_is_one_statement_without_a_token_left(tokens: dict[str, str]) -> None:
    loaded = statements.load(tokens)
    files = [str(path.relative_to(CHECKOUT)) for path in sorted(CHECKOUT.rglob("*.sql"))]
    left_out = ("_on_server.sql",) * (not tokens["DEFINER"])
    assert list(dict.fromkeys(one.name for one in loaded)) == [name for name in files if not name.endswith(left_out)]
    for one in loaded:
        code = re.sub(r"'(?:[^']|'')*'|--.*", "", one.sql)
        assert ";" not in code, one.name
        assert "$" not in code, one.name
        assert one.sql.startswith("-- One row") or one.creates is None or "CREATE DATABASE" in one.sql, one.name


@RENDERINGS
def test_every_statement_can_be_applied_again(tokens: dict[str, str]) -> None:
    for one in statements.load(tokens):
        assert "IF NOT EXISTS" in one.sql or "CREATE OR REPLACE VIEW" in one.sql, one.name


@RENDERINGS
def test_an_object_is_made_once_and_known_by_its_name(tokens: dict[str, str]) -> None:
    made = [one.creates for one in statements.load(tokens) if one.creates]
    assert len(made) == len(set(made))
    assert ("gua", "card_states") in made
    assert ("gua_report", "overview") in made


@RENDERINGS
def test_nothing_is_read_before_it_is_made(tokens: dict[str, str]) -> None:
    made: set[str] = {"gua.otel_metrics_gauge"}
    for one in statements.load(tokens):
        if one.creates:
            code = re.sub(r"'(?:[^']|'')*'|--.*", "", one.sql)
            read = set(re.findall(r"\b(?:FROM|JOIN|TO) (gua(?:_report)?\.\w+)", code))
            assert read <= made, one.name
            made.add(".".join(one.creates))


def test_only_what_must_differ_between_the_engines_does() -> None:
    embedded = {one.name: one.sql for one in statements.load(statements.EMBEDDED_TOKENS)}
    served = {one.name: one.sql for one in statements.load(statements.server_tokens())}
    differing = {name for name in served if served[name] != embedded.get(name)}
    assert set(embedded) <= set(served)
    assert differing == {
        name
        for name, sql in served.items()
        if "SQL SECURITY DEFINER" in sql
        or name.endswith(("otel_metrics_gauge.sql", "otel_metrics_sum.sql", "_on_server.sql"))
        or ("MergeTree" in sql and "SETTINGS auto_statistics_types = ''" in embedded.get(name, ""))
    }


def test_the_digest_differs_between_renderings_and_after_changes() -> None:
    embedded = statements.load(statements.EMBEDDED_TOKENS)
    assert statements.digest(embedded) == statements.digest(statements.load(statements.EMBEDDED_TOKENS))
    assert statements.digest(embedded) != statements.digest(statements.load(statements.server_tokens()))
    assert statements.digest(embedded) != statements.digest(embedded[:-1])
