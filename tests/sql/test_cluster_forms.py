"""Every statement of every cluster form is read by the real engines; without Keeper, most of them cannot be run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gua.store.statements import Replication, Statement, cluster_tokens, load
from sql.engine import Engine

FORMS = {
    "tables": cluster_tokens("lab", ticks_days=90, hours_days=700),
    "macro": cluster_tokens("{cluster}"),
    "database": cluster_tokens("lab", replication=Replication.DATABASE),
    "none": cluster_tokens("lab", replication=Replication.NONE),
}
LITERAL = str.maketrans({"\\": "\\\\", "'": "\\'"})


def written_by(engine: Engine, statements: list[Statement]) -> dict[str, str]:
    """Return each statement by the object it creates, parsed and formatted by the engine."""
    written: dict[str, str] = {}
    for some in batched(statements, 10):
        literals = ", ".join(f"'{one.sql.translate(LITERAL)}'" for one in some)
        found = engine.select(f"SELECT formatQuerySingleLine(arrayJoin([{literals}])) AS sql")
        written |= {one.object_name: str(row["sql"]) for one, row in zip(some, found, strict=True)}
    return written


def batched(statements: list[Statement], most: int) -> Iterator[list[Statement]]:
    for start in range(0, len(statements), most):
        yield statements[start : start + most]


@pytest.mark.parametrize("form", FORMS)
def test_an_engine_reads_every_statement(engine: Engine, form: str) -> None:
    loaded = load(FORMS[form])
    written = written_by(engine, loaded)
    assert len(written) == len(loaded)
    cluster = "{cluster}" if form == "macro" else "lab"
    for one in loaded:
        sql = written[one.object_name]
        assert sql.count(" ON CLUSTER ") == one.sql.count(" ON CLUSTER "), one.name
        if "ENGINE = Distributed(" in one.sql:
            assert sql.startswith("CREATE TABLE IF NOT EXISTS "), one.name
            assert f" ENGINE = Distributed('{cluster}', 'gua', " in sql, one.name


def test_an_engine_finds_replicas_engine_and_settings_where_they_are_meant(engine: Engine) -> None:
    tables = written_by(engine, load(FORMS["tables"]))
    card_info = tables["gua.card_info_local"]
    assert (
        "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', ts) "
        in card_info
    )
    card_ticks = tables["gua.card_ticks_local"]
    assert " TTL (toDate(ts) + 1) + toIntervalDay(90) SETTINGS replicated_deduplication_window = 0" in card_ticks
    assert "CREATE TABLE IF NOT EXISTS gua.card_ticks_local ON CLUSTER lab " in card_ticks
    database = written_by(engine, load(FORMS["database"]))
    assert "ENGINE = Replicated('/clickhouse/databases/gua', '{shard}', '{replica}')" in database["gua"]
    assert " ENGINE = ReplicatedReplacingMergeTree(ts) " in database["gua.card_info_local"]
