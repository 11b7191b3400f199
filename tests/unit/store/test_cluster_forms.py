"""What the shipped SQL becomes on a cluster. That an engine can read it is held in tests/sql/test_cluster_forms.py."""

from __future__ import annotations

import re

import pytest

from gua.core.errors import UsageError
from gua.store.catalog import SHUT, CatalogEntry, created, in_order, openings
from gua.store.statements import EMBEDDED_TOKENS, Replication, Statement, cluster_tokens, load, server_tokens

TABLES = cluster_tokens("lab")
DATABASE = cluster_tokens("lab", replication=Replication.DATABASE)
WITHOUT_KEEPER = cluster_tokens("lab", replication=Replication.NONE)
FORMS = pytest.mark.parametrize("tokens", [TABLES, DATABASE, WITHOUT_KEEPER], ids=["tables", "database", "none"])
# A table that only a schema on one server uses: a cluster takes no points from other databases.
NOT_SHARDED = "gua.backfilled_days"


def code(statement: Statement) -> str:
    """Return a statement without comments and texts but engines' arguments, on one line."""
    lines = [line for line in statement.sql.splitlines() if not line.lstrip().startswith("--")]
    return re.sub(r"COMMENT '(?:[^']|'')*'", "", " ".join(" ".join(lines).split()))


def made(tokens: dict[str, str]) -> dict[str, str]:
    """Return each statement's code by the name of what it makes."""
    return {one.object_name: code(one) for one in load(tokens)}


def keeping_rows(tokens: dict[str, str]) -> dict[str, str]:
    return {name: sql for name, sql in made(tokens).items() if re.search(r"ENGINE = \w*MergeTree", sql)}


def test_every_statement_goes_to_every_server_of_the_cluster() -> None:
    for name, sql in made(TABLES).items():
        assert sql.count(" ON CLUSTER 'lab' ") == 1, name
        assert re.match(r"CREATE [A-Z ]+ (?:IF NOT EXISTS )?\w+(?:\.\w+)? ON CLUSTER 'lab' ", sql), name


def test_a_replicated_database_takes_the_statements_there_itself() -> None:
    for name, sql in made(DATABASE).items():
        assert ("ON CLUSTER" in sql) == sql.startswith("CREATE DATABASE"), name
    for database in ("gua", "gua_report"):
        (sql,) = (
            sql for sql in made(DATABASE).values() if sql.startswith(f"CREATE DATABASE IF NOT EXISTS {database} ")
        )
        assert f"ENGINE = Replicated('/clickhouse/databases/{database}', '{{shard}}', '{{replica}}')" in sql


def test_without_keeper_nothing_is_replicated_and_nothing_goes_to_other_servers() -> None:
    for name, sql in made(WITHOUT_KEEPER).items():
        assert "Replicated" not in sql, name
        assert "ON CLUSTER" not in sql, name
        assert "replicated_" not in sql, name


def test_every_table_of_rows_is_replicated_and_takes_a_block_that_is_sent_again() -> None:
    for tokens, replica in ((TABLES, "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"), (DATABASE, "")):
        for name, sql in keeping_rows(tokens).items():
            engine = re.search(r"ENGINE = Replicated\w*MergeTree(?:\(([^)]*)\))?", sql)
            assert engine, name
            arguments = (engine[1] or "").removeprefix(replica).removeprefix(", ")
            assert (engine[1] or "").startswith(replica), name
            assert re.fullmatch(r"|[a-z]+", arguments), name
            if name != NOT_SHARDED:
                assert sql.count("SETTINGS") == 1, name
                assert "replicated_deduplication_window = 0" in sql, name


@FORMS
def test_every_table_of_rows_is_local_below_a_distributed_one_of_its_columns(tokens: dict[str, str]) -> None:
    everything = made(tokens)
    local = set(keeping_rows(tokens)) - {NOT_SHARDED}
    assert {name for name in local if not name.endswith("_local")} == set()
    for name in (name.removesuffix("_local") for name in everything if name.endswith("_local")):
        table = name.removeprefix("gua.")
        sharding = re.search(rf" ENGINE = Distributed\('lab', 'gua', '{table}_local', (.+)\)\s*$", everything[name])
        assert sharding, name
        assert columns(everything[name]) == columns(everything[f"{name}_local"]), name


def columns(sql: str) -> str:
    found = re.search(r" (\( .*? \)) (?:ENGINE|DEFINER|AS|TTL)\b", sql)
    assert found
    return found[1]


@FORMS
def test_all_that_is_about_a_host_is_on_the_shard_of_its_landing(tokens: dict[str, str]) -> None:
    by = {
        name.removeprefix("gua."): found[1]
        for name, sql in made(tokens).items()
        if (found := re.search(r"Distributed\('lab', 'gua', '\w+', (.+)\)\s*$", sql))
    }
    assert {by.pop("otel_metrics_gauge"), by.pop("otel_metrics_sum")} == {"cityHash64(ResourceAttributes['host.name'])"}
    assert (by.pop("schema_versions"), by.pop("settings")) == ("cityHash64(version)", "cityHash64(key)")
    assert by.pop("prices") == "cityHash64(model)"
    assert set(by.values()) == {"cityHash64(host)"}


@FORMS
def test_views_that_fill_tables_stay_within_their_server(tokens: dict[str, str]) -> None:
    everything = made(tokens)
    filling = [
        name
        for name, sql in everything.items()
        if "MATERIALIZED VIEW" in sql and not name.startswith("gua.otlp_requests")
    ]
    assert len(filling) > 10
    for name in filling:
        target = re.search(r" TO (gua\.\w+) ", everything[name])
        assert target, name
        # The rules are read from all shards: they are the same for all.
        tables = {target[1], *(one for one in read_by(name, everything) if " VIEW " not in everything[one])}
        far = {one for one in tables if not one.endswith("_local") and "ENGINE = Null" not in everything[one]}
        assert far <= {"gua.settings"}, name


def read_by(name: str, everything: dict[str, str]) -> set[str]:
    """Return what a view reads, and what the views read that it reads."""
    direct = (
        set(re.findall(r"\b(?:FROM|JOIN) (gua(?:_report)?\.\w+)", everything[name]))
        if " VIEW " in everything[name]
        else set()
    )
    return direct | {one for other in direct for one in read_by(other, everything)}


def test_views_that_split_requests_write_to_the_distributed_tables() -> None:
    everything = made(TABLES)
    assert " TO gua.otel_metrics_gauge " in everything["gua.otlp_requests_to_gauge"]
    assert " TO gua.otel_metrics_sum " in everything["gua.otlp_requests_to_sum"]


@FORMS
def test_every_distributed_table_has_the_comments_of_its_local_table(tokens: dict[str, str]) -> None:
    comments = {
        ".".join(one.creates): re.findall(r"^    (\w+) .* COMMENT '", re.sub(r"\n {8,}", " ", one.sql), re.MULTILINE)
        for one in load(tokens)
        if one.creates
    }
    assert len(comments["gua.card_ticks"]) > 30
    for name, commented in comments.items():
        if name.endswith("_local"):
            assert comments[name.removesuffix("_local")] == commented, name


def test_a_macro_of_the_server_may_stand_for_the_cluster() -> None:
    for name, sql in made(cluster_tokens("{cluster}")).items():
        assert " ON CLUSTER '{cluster}' " in sql, name
    assert "Distributed('{cluster}', 'gua', " in made(cluster_tokens("{cluster}"))["gua.card_ticks"]


@pytest.mark.parametrize(
    "name",
    ["", " ", "lab'", "lab\\", "a b", "lab; DROP DATABASE gua", "lab\n", "{a}{b}", "${LOCAL}", "-", "läb", "x" * 129],
)
def test_what_cannot_be_a_clusters_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no cluster's name"):
        cluster_tokens(name)


def test_rows_are_kept_for_the_days_given_on_the_tables_that_have_them() -> None:
    tokens = cluster_tokens("lab", raw_days=5, ticks_days=90, hours_days=700)
    everything = made(tokens)
    assert " TTL toDateTime(TimeUnix) + INTERVAL 5 DAY SETTINGS " in everything["gua.otel_metrics_gauge_local"]
    assert " TTL toDate(ts) + 1 + INTERVAL 90 DAY SETTINGS " in everything["gua.card_ticks_local"]
    assert " TTL toDate(ts) + 1 + INTERVAL 90 DAY SETTINGS " in everything["gua.process_ticks_local"]
    assert tokens["HOURS_TTL"] == "TTL toDate(hour) + 1 + INTERVAL 700 DAY"
    for name, sql in everything.items():
        assert " TTL " not in sql or name.endswith("_local"), name
    # The lease of a run of gua notify is of no use after two days, whatever else is kept.
    without_days = made(cluster_tokens("lab", raw_days=None))
    assert {name for name, sql in without_days.items() if " TTL " in sql} == {"gua.notice_runs_local"}


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_days_that_no_table_can_keep_are_refused(days: int) -> None:
    for keep in ("raw_days", "ticks_days", "hours_days"):
        with pytest.raises(UsageError, match=f"for {days} days"):
            cluster_tokens("lab", **{keep: days})


def test_one_server_has_none_of_it() -> None:
    for name, sql in made(dict(server_tokens())).items():
        for word in ("_local", "Distributed", "Replicated", "ON CLUSTER", "replicated_"):
            assert word not in sql, name


@FORMS
def test_tables_that_receive_points_are_created_last_or_stay_closed_until_the_end(tokens: dict[str, str]) -> None:
    statements = load(tokens)
    ordered = in_order(statements)
    assert {one.name for one in ordered} == {one.name for one in statements}
    assert [one.object_name for one in ordered[-4:]] == [
        "gua.otel_metrics_gauge",
        "gua.otel_metrics_sum",
        "gua.otlp_requests_to_gauge",
        "gua.otlp_requests_to_sum",
    ]
    # Of replicas one that joins later would have another constraint than those there.
    shut = [one.object_name for one in ordered if SHUT in created(one)]
    assert shut == (["gua.otel_metrics_gauge_local", "gua.otel_metrics_sum_local"] if tokens is WITHOUT_KEEPER else [])
    assert len(openings(statements, {})) == len(shut)


def test_on_one_server_the_landing_tables_are_shut_until_the_end_and_in_an_embedded_store_never() -> None:
    shut = [one for one in load(server_tokens()) if SHUT in created(one)]
    assert [one.object_name for one in shut] == ["gua.otel_metrics_gauge", "gua.otel_metrics_sum"]
    whole = CatalogEntry(engine="MergeTree", engine_full="", create="CREATE TABLE", select="")
    cut_off = CatalogEntry(engine="MergeTree", engine_full="", create=f"CONSTRAINT {SHUT} CHECK 0", select="")
    assert openings(shut, {"gua.otel_metrics_gauge": whole, "gua.otel_metrics_sum": cut_off}) == [
        f"ALTER TABLE gua.otel_metrics_sum DROP CONSTRAINT IF EXISTS {SHUT}"
    ]
    assert not openings(load(EMBEDDED_TOKENS), {})
