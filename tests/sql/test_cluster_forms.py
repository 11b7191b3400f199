"""Every statement of every cluster form is read by the real engines; without Keeper, most of them cannot be run."""

from __future__ import annotations

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
    """Return each statement by what it makes, as the engine writes it once it has read it."""
    return {
        one.object_name: str(
            engine.select(f"SELECT formatQuerySingleLine('{one.sql.translate(LITERAL)}') AS sql")[0]["sql"]
        )
        for one in statements
    }


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
