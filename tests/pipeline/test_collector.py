"""The Collector alone: what it takes, what it keeps, what it refuses."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.process import poll

# The exporter's columns, for a table that stands in for the shipped schema.
COLUMNS = """
    ResourceAttributes Map(LowCardinality(String), String), ResourceSchemaUrl String, ScopeName String,
    ScopeVersion String, ScopeAttributes Map(LowCardinality(String), String), ScopeDroppedAttrCount UInt32,
    ScopeSchemaUrl String, ServiceName LowCardinality(String), MetricName LowCardinality(String),
    MetricDescription String, MetricUnit String, Attributes Map(LowCardinality(String), String),
    StartTimeUnix DateTime64(9), TimeUnix DateTime64(9), Value Float64, Flags UInt32,
    Exemplars Nested(FilteredAttributes Map(LowCardinality(String), String), TimeUnix DateTime64(9), Value Float64,
                     SpanId String, TraceId String)
"""
SUM_COLUMNS = f"{COLUMNS}, AggregationTemporality Int32, IsMonotonic Bool"
TIME_NS = 1_774_414_039_043_210_987


def create_landing_tables(server: ClickHouseServer) -> None:
    server.query("CREATE DATABASE gua")
    server.query(f"CREATE TABLE gua.otel_metrics_gauge ({COLUMNS}) ENGINE = MergeTree ORDER BY TimeUnix")
    server.query(f"CREATE TABLE gua.otel_metrics_sum ({SUM_COLUMNS}) ENGINE = MergeTree ORDER BY TimeUnix")


def gauge(value: float) -> dict[str, object]:
    return {
        "name": "hw.power",
        "unit": "W",
        "gauge": {"dataPoints": [{"timeUnixNano": str(TIME_NS), "asDouble": value}]},
    }


HISTOGRAM = {
    "name": "latency",
    "histogram": {
        "aggregationTemporality": 1,
        "dataPoints": [{"timeUnixNano": str(TIME_NS), "count": "1", "bucketCounts": ["1"], "explicitBounds": []}],
    },
}


def post(endpoint: str, metrics: list[dict[str, object]], signal: str = "metrics") -> int:
    """Return the HTTP status of an OTLP/JSON request."""
    body = {"resourceMetrics": [{"scopeMetrics": [{"scope": {"name": "test"}, "metrics": metrics}]}]}
    request = urllib.request.Request(  # noqa: S310 - the test's own Collector
        f"{endpoint}/v1/{signal}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - see above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def gauge_values(server: ClickHouseServer) -> list[str]:
    return server.query("SELECT DISTINCT Value FROM gua.otel_metrics_gauge ORDER BY Value").split()


def test_a_point_lands_with_its_nanoseconds(clickhouse: ClickHouseServer, collector: Collector) -> None:
    create_landing_tables(clickhouse)
    assert post(collector.endpoint, [gauge(71.8)]) == 200
    collector.wait_until_delivered()
    landed = clickhouse.query("SELECT MetricName, toUnixTimestamp64Nano(TimeUnix), Value FROM gua.otel_metrics_gauge")
    assert landed.split("\t") == ["hw.power", str(TIME_NS), "71.8"]


def test_traces_and_logs_are_not_taken(collector: Collector) -> None:
    assert post(collector.endpoint, [], "traces") == 404
    assert post(collector.endpoint, [], "logs") == 404


def test_a_kind_of_metric_without_a_table_does_not_hold_up_the_others(
    clickhouse: ClickHouseServer, collector: Collector
) -> None:
    create_landing_tables(clickhouse)
    assert post(collector.endpoint, [HISTOGRAM, gauge(1)]) == 200
    poll(lambda: gauge_values(clickhouse) == ["1"], "the gauge beside the histogram")


def test_points_accepted_while_the_server_is_down_arrive_after_it_is_back(
    clickhouse: ClickHouseServer, collector: Collector
) -> None:
    create_landing_tables(clickhouse)
    clickhouse.kill()
    for value in range(5):
        assert post(collector.endpoint, [gauge(value)]) == 200
    clickhouse.start()
    poll(lambda: gauge_values(clickhouse) == ["0", "1", "2", "3", "4"], "the kept points")


def test_points_accepted_before_the_collector_is_killed_arrive_after_its_restart(
    clickhouse: ClickHouseServer, collector: Collector
) -> None:
    create_landing_tables(clickhouse)
    clickhouse.kill()
    for value in range(5):
        assert post(collector.endpoint, [gauge(value)]) == 200
    collector.kill()
    clickhouse.start()
    collector.start()
    poll(lambda: gauge_values(clickhouse) == ["0", "1", "2", "3", "4"], "the points out of the queue on disk")


def test_points_wait_for_a_schema_that_is_applied_later(clickhouse: ClickHouseServer, collector: Collector) -> None:
    assert post(collector.endpoint, [gauge(7)]) == 200
    poll(lambda: "Exporting failed" in collector.log.read_text(), "a first failed try")
    create_landing_tables(clickhouse)
    poll(lambda: gauge_values(clickhouse) == ["7"], "the point that had no table")


def test_a_full_queue_refuses_so_that_the_sender_keeps_its_data(
    clickhouse: ClickHouseServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = Collector(tmp_path_factory.mktemp("small"), clickhouse, {"COLLECTOR_QUEUE_BYTES": "2000"})
    small.start()
    try:
        statuses = [post(small.endpoint, [gauge(value)]) for value in range(100)]
    finally:
        small.kill()
    assert statuses[0] == 200
    assert statuses[-1] == 503
