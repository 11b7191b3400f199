"""Tables that a Collector's exporter made by itself: which of them can be read, and the views over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gua.core.errors import UnavailableError, UsageError
from gua.store import statements
from gua.store.catalog import CatalogEntry
from gua.store.landing_database import TABLES, attached, attached_databases, over, require_tables

COLUMNS = {
    "ResourceAttributes": "Map(LowCardinality(String), String)",
    "ScopeName": "String",
    "MetricName": "LowCardinality(String)",
    "Attributes": "Map(LowCardinality(String), String)",
    "StartTimeUnix": "DateTime64(9)",
    "TimeUnix": "DateTime64(9)",
    "Value": "Float64",
    "Flags": "UInt32",
}
SUM = {**COLUMNS, "AggregationTemporality": "Int32", "IsMonotonic": "Bool"}
SHIPPED = statements.load(statements.server_tokens())
Rows = list[Mapping[str, Any]]


class Columns:
    """Answers as system.columns of a server with these tables would."""

    def __init__(self, gauge: Mapping[str, str], total: Mapping[str, str]) -> None:
        self.tables = dict(zip(TABLES, (gauge, total), strict=True))

    def __call__(self, sql: str, _parameters: Mapping[str, object] | None) -> Rows:
        if "currentUser()" in sql:
            return [{"name": "gua_owner"}]
        return [
            {"table": table, "name": name, "type": kind}
            for table, columns in self.tables.items()
            for name, kind in columns.items()
        ]


def without(columns: Mapping[str, str], name: str) -> dict[str, str]:
    return {column: kind for column, kind in columns.items() if column != name}


def test_times_in_nanoseconds_and_in_whole_seconds_are_distinguished() -> None:
    seconds = {"StartTimeUnix": "DateTime", "TimeUnix": "DateTime"}
    assert not require_tables("otel", Columns(COLUMNS, SUM))
    assert require_tables("otel", Columns({**COLUMNS, **seconds}, {**SUM, **seconds}))
    assert require_tables("otel", Columns(COLUMNS, {**SUM, **seconds}))


def test_a_column_that_is_missing_or_of_another_type_is_named() -> None:
    with pytest.raises(UnavailableError, match=r"otel\.otel_metrics_gauge has no column Value"):
        require_tables("otel", Columns(without(COLUMNS, "Value"), SUM))
    with pytest.raises(UnavailableError, match=r"otel_metrics_sum has TimeUnix UInt64: it is not a table"):
        require_tables("otel", Columns(COLUMNS, {**SUM, "TimeUnix": "UInt64"}))


def test_a_table_with_an_old_column_name_is_refused_with_the_rename_statement() -> None:
    older = {**without(SUM, "AggregationTemporality"), "AggTemp": "Int32"}
    with pytest.raises(UnavailableError, match="RENAME COLUMN AggTemp TO AggregationTemporality"):
        require_tables("otel", Columns(COLUMNS, older))


def test_a_missing_or_hidden_table_is_refused_with_the_rights_it_needs() -> None:
    with pytest.raises(UnavailableError, match=r"GRANT SELECT ON otel\.otel_metrics_sum TO `gua_owner`"):
        require_tables("otel", Columns(COLUMNS, {}))


@pytest.mark.parametrize("name", ["gua", "", "a b", "x; DROP DATABASE gua", "x`", "ü", "x" * 65])
def test_a_database_that_cannot_be_named_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--landing-database"):
        require_tables(name, Columns(COLUMNS, SUM))


def test_every_view_over_our_landing_tables_stands_over_the_others_too() -> None:
    ours = [one for one in SHIPPED if "FROM gua.otel_metrics_" in one.sql and "MATERIALIZED VIEW" in one.sql]
    made = over("otel", SHIPPED)
    assert len(made) == len(ours) > 0
    for here, there in zip(ours, made, strict=True):
        assert "gua.otel_metrics_" not in there.sql
        assert "FROM otel.otel_metrics_" in there.sql
        assert there.object_name == f"{here.object_name}_from_otel"
        assert there.target == here.target


def test_views_that_are_there_are_found_again_and_those_of_others_are_left_alone() -> None:
    found = {
        view.object_name: CatalogEntry(
            engine="MaterializedView", engine_full="", create=view.sql, select=view.select or ""
        )
        for view in [*over("otel", SHIPPED), *over("site", SHIPPED)]
    }
    found["gua.mine"] = CatalogEntry(
        engine="MaterializedView", engine_full="", create="", select="SELECT 1 FROM other.otel_metrics_sum"
    )
    assert attached_databases(found) == ["otel", "site"]
    assert attached(SHIPPED, found) == [*over("otel", SHIPPED), *over("site", SHIPPED)]
    assert attached_databases({}) == []
