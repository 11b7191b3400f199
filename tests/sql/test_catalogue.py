"""The metric catalogue and the shipped SQL say the same, and everything in the database explains itself."""

from __future__ import annotations

import re

import pytest

from gua.core import metrics
from gua.core.metrics import CATALOGUE, Metric, MetricKind, StoredColumn, Subject
from gua.store import statements
from sql.cases import internal_views
from sql.engine import Engine

COLUMNS = [(metric, column) for metric in CATALOGUE for column in metric.columns]
TABLES = {
    Subject.CARD: "card_ticks",
    Subject.PROCESS: "process_ticks",
    Subject.ALLOCATION: "allocation_ticks",
    Subject.SOURCE: "allocation_source_ticks",
}
TEMPORALITY = {MetricKind.DELTA: 1, MetricKind.COUNTER: 2, MetricKind.AMOUNT: 2}
ADMITTED = {
    one.creates[1]: one.sql
    for one in statements.load(statements.server_tokens())
    if one.creates and "\nCREATE MATERIALIZED VIEW" in f"\n{one.sql}"
}
INTERNAL = tuple(internal_views())

INTEGER_ATTRIBUTES = ("gua.gpu.index", "process.pid", "process.user.id", "gua.allocation.user.id")
BOOLEAN_ATTRIBUTES = ("gua.gpu.memory.shared",)


def view_of(metric: Metric) -> str:
    kind = "gauge" if metric.kind is MetricKind.GAUGE else "sum"
    return ADMITTED[f"{kind}_to_{TABLES[metric.subject]}"]


def names_admitted(sql: str) -> set[str]:
    """Return the metric names in the view's filter."""
    found = re.search(r"MetricName IN \(([^)]*)\)", sql)
    assert found
    return set(re.findall(r"'([^']*)'", found[1]))


def filled(metric: Metric, column: StoredColumn) -> str:
    """Return the expression of the catalogue's column, as it stands in the view."""
    conditions = [
        f"MetricName = '{metric.name}'",
        *(f"Attributes['{key}'] = '{value}'" for key, value in column.attributes),
        *([f"AggregationTemporality = {TEMPORALITY[metric.kind]}"] if metric.kind in TEMPORALITY else []),
    ]
    value = "Value" if column.scale == 1 else f"Value * {column.scale}"
    return f"if({' AND '.join(conditions)}, accurateCastOrNull(round({value}), '{column.type}'), NULL) AS {column.name}"


def expressions(sql: str) -> list[str]:
    """Return the lines of a view with the expressions that its WITH names in place of the names."""
    lines = [line.strip().rstrip(",") for line in re.sub(r"\n {8,}", " ", sql).splitlines()]
    named = lines[lines.index("WITH") + 1 : lines.index("SELECT")] if "WITH" in lines else []
    for expression, name in (line.rsplit(" AS ", 1) for line in named):
        word = rf"(?<![\w.']){name}(?![\w.'])(?=.* AS )"
        lines = [re.sub(word, expression, line) for line in lines]
    return lines


def title(pair: tuple[Metric, StoredColumn]) -> str:
    return f"{pair[0].subject.value}.{pair[1].name}"


@pytest.mark.parametrize("pair", COLUMNS, ids=title)
def test_a_column_is_filled_from_its_metric_with_its_scale_and_temporality(pair: tuple[Metric, StoredColumn]) -> None:
    metric, column = pair
    sql = view_of(metric)
    assert [line for line in expressions(sql) if line.endswith(f" AS {column.name}")] == [filled(metric, column)]
    assert metric.name in names_admitted(sql)


def test_a_view_admits_what_the_catalogue_sends_there_and_nothing_else() -> None:
    for subject, table in TABLES.items():
        for kind in ("gauge", "sum"):
            declared = {
                metric.name
                for metric in CATALOGUE
                if metric is not metrics.PROCESS_IDLE_DURATION
                and metric.subject is subject
                and (metric.kind is MetricKind.GAUGE) == (kind == "gauge")
            }
            view = ADMITTED.get(f"{kind}_to_{table}")
            assert (names_admitted(view) if view else set()) == declared


def test_every_view_over_the_landing_tables_filters_alike() -> None:
    for name, sql in ADMITTED.items():
        if "FROM gua.otel_metrics_" not in sql:  # it reads what another one admitted
            continue
        assert f"ScopeName = '{metrics.SCOPE}'" in sql, name
        if name.endswith("_to_refused_points"):
            continue
        for condition in (
            "ResourceAttributes['host.name'] != ''",
            *(("Attributes['hw.id'] != ''",) if not name.endswith(("_to_agents", "_source_ticks")) else ()),
            "isFinite(Value)",
            "bitAnd(Flags, 1) = 0",
            "TimeUnix >= toDateTime64('2000-01-01 00:00:00', 3, 'UTC')",
            "TimeUnix <= now() + toIntervalDay(1)",
        ):
            assert condition in sql, name


def test_a_views_owner_runs_it_so_that_a_writer_needs_no_right_on_the_ticks() -> None:
    for name, sql in ADMITTED.items():
        assert "SQL SECURITY DEFINER" in sql, name


def test_integer_and_boolean_attributes_keep_their_zero() -> None:
    for name in ("otlp_requests_to_gauge", "otlp_requests_to_sum"):
        for group in (INTEGER_ATTRIBUTES, BOOLEAN_ATTRIBUTES):
            listed = ", ".join(f"'{key}'" for key in group)
            assert f"kv.key IN ({listed})" in ADMITTED[name], name


def test_the_ticks_have_every_column_of_the_catalogue_in_its_type(engine: Engine) -> None:
    found = {
        (row["table"], row["name"]): row["type"]
        for row in engine.select("SELECT table, name, type FROM system.columns WHERE database = 'gua'")
    }
    for metric, column in COLUMNS:
        expected = f"SimpleAggregateFunction(anyLast, Nullable({column.type}))"
        assert found[TABLES[metric.subject], column.name] == expected, metric.name


def test_no_column_of_the_ticks_is_outside_key_and_aggregate(engine: Engine) -> None:
    # An engine from 26.7 on refuses such a table.
    plain = engine.select(
        "SELECT table, name FROM system.columns WHERE database = 'gua' "
        f"AND table IN {tuple(TABLES.values())} AND NOT is_in_sorting_key "
        "AND NOT startsWith(type, 'SimpleAggregateFunction(anyLast, ')"
    )
    assert plain == []


def test_every_table_and_view_says_what_one_row_is(engine: Engine) -> None:
    silent = engine.select("SELECT name FROM system.tables WHERE database = 'gua' AND comment = ''")
    assert silent == []
    assert engine.select("SELECT name FROM system.databases WHERE name LIKE 'gua%' AND comment = ''") == []


def test_every_column_of_what_people_read_says_what_it_is(engine: Engine) -> None:
    # The columns of a materialized view are its target's; those of otlp_requests are otlp.proto's. Internal
    # views list none.
    silent = engine.select(
        "SELECT c.table AS table, c.name AS name FROM system.columns AS c "
        "JOIN system.tables AS t ON t.database = c.database AND t.name = c.table "
        "WHERE c.database = 'gua' AND c.comment = '' AND t.engine != 'MaterializedView' AND t.name != 'otlp_requests' "
        f"AND t.name NOT IN {INTERNAL}"
    )
    assert silent == []


def test_no_view_shows_a_type_that_other_tools_do_not_know(engine: Engine) -> None:
    strange = engine.select(
        "SELECT c.table AS table, c.name AS name, c.type AS type FROM system.columns AS c "
        "JOIN system.tables AS t ON t.database = c.database AND t.name = c.table "
        "WHERE c.database = 'gua' AND t.engine = 'View' AND (type LIKE '%Aggregate%' OR type LIKE '%Enum%') "
        f"AND t.name NOT IN {INTERNAL}"
    )
    assert strange == []
