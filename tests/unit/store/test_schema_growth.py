"""The steps from an existing schema to this version's, and the listed differences."""

from __future__ import annotations

import re

import pytest

from gua.store.catalog import CatalogEntry, differences, steps
from gua.store.statements import Statement
from gua.store.topology import Retention, Topology, retained


def test_every_view_on_a_server_runs_with_the_rights_of_its_definer() -> None:
    views = [one for one in Topology().statements(Retention()) if "view" in one.kind]
    assert len(views) > 20
    assert [one.object_name for one in views if not one.as_definer] == []


SMALL = """-- One row is a thing; (with brackets) and 'quotes
CREATE TABLE IF NOT EXISTS gua.things ON CLUSTER 'lab'
(
    host LowCardinality(String) COMMENT 'of a thing, (its host); not ''yours''',
    kept Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    -- a remark, with a comma
    seen DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When' CODEC(Delta, ZSTD(1)),
    parts Nested (a UInt8, b String) COMMENT 'parts'
)
ENGINE = AggregatingMergeTree
ORDER BY host
TTL toDate(seen) + 1 + INTERVAL 9 DAY
SETTINGS replicated_deduplication_window = 0, b = 2
COMMENT 'Things; TTL and SETTINGS in words'"""


def statement(sql: str) -> Statement:
    return Statement(name="10_ticks/01_things.sql", sql=sql)


def test_what_a_statement_makes_is_read_from_its_file() -> None:
    read = statement(SMALL)
    assert (read.kind, read.object_name, read.altering) == (
        "table",
        "gua.things",
        "ALTER TABLE gua.things ON CLUSTER 'lab'",
    )
    assert [(column.name, column.type) for column in read.columns] == [
        ("host", "LowCardinality(String)"),
        ("kept", "Map(LowCardinality(String), String)"),
        ("seen", "DateTime64(3, 'UTC')"),
        ("parts", "Nested (a UInt8, b String)"),
    ]
    assert read.ttl == "toDate(seen) + 1 + INTERVAL 9 DAY"
    assert read.settings == {"replicated_deduplication_window": "0", "b": "2"}


def formatted(sql: str) -> str:
    return re.sub(r"INTERVAL (\d+) DAY", r"toIntervalDay(\1)", " ".join(sql.split()))


def there(**changed: object) -> CatalogEntry:
    whole = {
        "engine": "AggregatingMergeTree",
        "engine_full": "AggregatingMergeTree ORDER BY host TTL toDate(seen) + 1 + toIntervalDay(9) "
        "SETTINGS replicated_deduplication_window = 0, b = 2, index_granularity = 8192",
        "create": "",
        "select": "",
        "columns": {
            "host": "LowCardinality(String)",
            "kept": "Map(LowCardinality(String), String)",
            "seen": "DateTime64(3, 'UTC')",
            "parts.a": "Array(UInt8)",
        },
    }
    return CatalogEntry(**{**whole, **changed})  # type: ignore[arg-type] # what a test changes


def test_a_table_that_is_as_it_should_be_is_left_alone() -> None:
    assert steps([statement(SMALL)], {"gua.things": there()}, formatted) == []
    assert retained({"gua.card_ticks": there()}).ticks_days == 9


def test_a_table_that_is_not_there_is_made() -> None:
    assert steps([statement(SMALL)], {}, formatted) == [SMALL]


def test_a_table_gets_the_columns_that_it_lacks_in_their_places() -> None:
    bare = {"gua.things": there(columns={"host": "LowCardinality(String)"})}
    altering = "ALTER TABLE gua.things ON CLUSTER 'lab' ADD COLUMN IF NOT EXISTS "
    assert steps([statement(SMALL)], bare, formatted) == [
        f"{altering}kept Map(LowCardinality(String), String) CODEC(ZSTD(1)) AFTER host",
        f"{altering}seen DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When' CODEC(Delta, ZSTD(1)) AFTER kept",
        f"{altering}parts Nested (a UInt8, b String) COMMENT 'parts' AFTER seen",
    ]


def test_a_table_gets_the_ttl_and_the_settings_that_are_wanted() -> None:
    without = there(engine_full="AggregatingMergeTree ORDER BY host SETTINGS index_granularity = 8192")
    assert steps([statement(SMALL)], {"gua.things": without}, formatted) == [
        "ALTER TABLE gua.things ON CLUSTER 'lab' MODIFY TTL toDate(seen) + 1 + toIntervalDay(9)",
        "ALTER TABLE gua.things ON CLUSTER 'lab' MODIFY SETTING replicated_deduplication_window = 0",
        "ALTER TABLE gua.things ON CLUSTER 'lab' MODIFY SETTING b = 2",
    ]
    forever = statement(SMALL.replace("TTL toDate(seen) + 1 + INTERVAL 9 DAY\n", ""))
    assert steps([forever], {"gua.things": there()}, formatted) == [
        "ALTER TABLE gua.things ON CLUSTER 'lab' REMOVE TTL"
    ]


VIEW = """-- One row is what passes.
CREATE MATERIALIZED VIEW IF NOT EXISTS gua.passing ON CLUSTER 'lab' TO gua.things
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS
SELECT
    host
FROM gua.points
COMMENT 'Points; AS they pass'"""


def test_a_materialized_view_gets_another_query_and_is_never_dropped() -> None:
    found = there(
        engine="MaterializedView", select="SELECT 1", create="CREATE MATERIALIZED VIEW gua.passing TO gua.things "
    )
    assert steps([statement(VIEW)], {"gua.passing": found}, formatted) == [
        "ALTER TABLE gua.passing ON CLUSTER 'lab' MODIFY QUERY SELECT\n    host\nFROM gua.points",
        "ALTER TABLE gua.passing ON CLUSTER 'lab' MODIFY DEFINER = CURRENT_USER SQL SECURITY DEFINER",
    ]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"columns": {}}, "gua.things lacks the column host LowCardinality(String)"),
        ({"columns": {"host": "String"}}, "gua.things.host is String, not LowCardinality(String)"),
        ({"engine_full": "MergeTree ORDER BY host"}, "gua.things has engine MergeTree ORDER BY host, not"),
        ({"engine_full": "AggregatingMergeTree ORDER BY host"}, "gua.things keeps rows by TTL none, not toDate(seen)"),
        ({"engine_full": "AggregatingMergeTree ORDER BY host"}, "gua.things lacks the setting b = 2"),
    ],
)
def test_differences_are_listed_by_name(changed: dict[str, object], line: str) -> None:
    found = differences([statement(SMALL)], {"gua.things": there(**changed)}, formatted)
    assert any(each.startswith(line) for each in found.lines), found.lines


def test_what_is_there_besides_is_a_note() -> None:
    found = differences([statement(SMALL)], {"gua.things": there(), "gua.mine": there(engine="View")}, formatted)
    assert found.lines == []
    assert found.notes == ["gua.mine is not gua's (View)"]


def test_a_replicas_path_is_no_difference() -> None:
    replica = "ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/gua/things', '{replica}')"
    found = there(engine_full=there().engine_full.replace("AggregatingMergeTree", replica, 1))
    assert differences([statement(SMALL)], {"gua.things": found}, formatted).lines == []
