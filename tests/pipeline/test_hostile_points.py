"""Points that no agent of ours sends, through the Collector: beside a good host's, whose report stays as it is."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.process import poll

DEMO = ("demo", "--seed", "7", "--ticks", "60", "--gpus", "4")
NOON_NS = 1_774_526_400_000_000_000  # 2026-03-26T12:00:00Z, among the ticks of the demo
SECOND_NS = 1_000_000_000
PLAIN = Path(__file__).parent / "collectors" / "plain.yaml"


def resource(metrics: list[dict[str, Any]], *, host: str = "demo-host", scope: str = "gua") -> dict[str, Any]:
    attributes = {"host.name": host, "service.name": "gua", "gua.source": "agent", "gua.sample.interval": "30"}
    return {
        "resource": {"attributes": pairs(attributes)},
        "scopeMetrics": [{"scope": {"name": scope}, "metrics": metrics}],
    }


def pairs(attributes: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]


def delta(name: str, points: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "sum": {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": [*points]}}


def level(name: str, points: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "sum": {"aggregationTemporality": 2, "isMonotonic": False, "dataPoints": [*points]}}


def gauge(name: str, points: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "gauge": {"dataPoints": [*points]}}


def point(
    value: float | str, *, at_ns: int = NOON_NS, seconds: float = 30, flags: int = 0, **attributes: str
) -> dict[str, Any]:
    return {
        "timeUnixNano": str(at_ns),
        "startTimeUnixNano": str(max(0, at_ns - int(seconds * SECOND_NS))),
        "asDouble": value,
        "flags": flags,
        "attributes": pairs({key.replace("_", "."): text for key, text in attributes.items()}),
    }


def post(collector: Collector, resources: list[dict[str, Any]]) -> None:
    request = urllib.request.Request(  # noqa: S310 - the test's own Collector
        f"{collector.endpoint}/v1/metrics",
        json.dumps({"resourceMetrics": resources}).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - see above


def every(value: float | str, **kwargs: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as point() takes them
    """Return a point of each kind that the views know, all with this value."""
    return [
        delta("gua.gpu.sample.duration", [point(value, hw_id="GPU-x", **kwargs)]),
        delta("gua.gpu.time", [point(value, hw_id="GPU-x", **kwargs)]),
        level("hw.gpu.memory.usage", [point(value, hw_id="GPU-x", **kwargs)]),
        gauge("hw.gpu.utilization", [point(value, hw_id="GPU-x", hw_gpu_task="general", **kwargs)]),
        delta("gua.process.sample.duration", [point(value, hw_id="GPU-x", process_pid="7", **kwargs)]),
    ]


HOSTILE: dict[str, list[dict[str, Any]]] = {
    "of another scope": [resource(every(30), scope="another.producer")],
    "of our scope without a card": [
        resource([delta("gua.gpu.sample.duration", [point(30)]), gauge("hw.power", [point(5)])])
    ],
    "of our scope with another's attributes": [
        resource([gauge("gua.gpu.info", [point(1, gpu="0", uuid="GPU-x")]), gauge("hw.power", [point(5, gpu="0")])])
    ],
    "without a host": [resource(every(30), host="")],
    "of 1970": [resource(every(30, at_ns=60 * SECOND_NS))],
    "of no time at all": [resource(every(30, at_ns=0))],
    "of 2106": [resource(every(30, at_ns=4_294_967_295 * SECOND_NS))],
    "of the last moment of a DateTime64": [resource(every(30, at_ns=9_223_372_036_854_775_807))],
    "of a time beyond 64 bits with a sign": [resource(every(30, at_ns=2**64 - 1))],
    "not a number": [resource(every("NaN"))],
    "infinite": [resource([*every("Infinity"), *every("-Infinity")])],
    "negative": [resource(every(-30))],
    "without a recorded value": [resource(every(0, flags=1))],
    "enormous": [resource(every(1e300))],
}


@pytest.fixture
def expected(reported: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Return the report of the good host's ticks alone."""
    return reported(DEMO, options=SUMS)


def counted(server: ClickHouseServer, table: str) -> int:
    return int(server.query(f"SELECT count() FROM gua.{table} FINAL"))


@pytest.mark.usefixtures("applied")
def test_no_hostile_point_changes_a_report_or_holds_up_what_comes_after(
    gua: Gua, clickhouse: ClickHouseServer, collector: Collector, expected: dict[str, Any]
) -> None:
    for resources in HOSTILE.values():
        post(collector, resources)
    gua.must(*DEMO, "--endpoint", collector.endpoint)
    reader = clickhouse.dsn("gua_reader")
    poll(lambda: counted(clickhouse, "card_ticks") >= 240, f"the good host's ticks; see {collector.log}")
    poll(
        lambda: not [*differences(gua.report(reader, *SUMS), expected)], f"the good host's report; see {collector.log}"
    )

    cards = clickhouse.query("SELECT DISTINCT gpu FROM gua.cards WHERE host = 'demo-host'").split()
    assert "GPU-x" not in cards
    for times in ("DISTINCT toDate(ts) FROM gua.card_ticks", "DISTINCT toDate(TimeUnix) FROM gua.otel_metrics_sum"):
        assert {*clickhouse.query(f"SELECT {times}").split()} <= {"2026-03-26", "2026-03-27"}
    assert "Exporting failed" not in collector.log.read_text(encoding="utf-8", errors="replace")


@pytest.mark.usefixtures("applied")
def test_a_host_that_claims_anothers_name_breaks_no_report(
    gua: Gua, clickhouse: ClickHouseServer, collector: Collector
) -> None:
    gua.must(*DEMO, "--endpoint", collector.endpoint)
    # Its own card, and a second opinion of the first host's cards, at times of its own.
    theirs = [point(30, at_ns=NOON_NS + number * 30 * SECOND_NS, hw_id="GPU-x") for number in range(10)]
    post(collector, [resource([delta("gua.gpu.sample.duration", theirs), delta("gua.gpu.time", theirs)])])
    poll(lambda: counted(clickhouse, "card_ticks") == 250, f"the ticks of both; see {collector.log}")

    report = gua.report(
        clickhouse.dsn("gua_reader"), *SUMS, "--since", "2026-03-20T00:00Z", "--until", "2026-03-28T00:00Z"
    )

    assert len(report["cards"]) == 5
    gua.must("report", "--store", clickhouse.dsn("gua_reader"), "--since", "2026-03-20T00:00Z")


@pytest.mark.usefixtures("applied")
def test_points_of_impossible_times_in_tables_without_our_filter_are_counted_by_host(
    gua: Gua, clickhouse: ClickHouseServer, tmp_path: Path, expected: dict[str, Any]
) -> None:
    mine = tmp_path / "no-filter.yaml"
    mine.write_text("processors:\n  filter/landing:\n    metrics:\n      datapoint: []\n", "utf-8")
    collector = Collector(tmp_path / "no-filter", clickhouse, over=[mine])
    collector.start()
    try:
        for what in ("of 1970", "of no time at all", "of 2106", "of the last moment of a DateTime64"):
            post(collector, HOSTILE[what])
        gua.must(*DEMO, "--endpoint", collector.endpoint)
        reader = clickhouse.dsn("gua_reader")
        poll(lambda: counted(clickhouse, "card_ticks") >= 240, f"the good host's ticks; see {collector.log}")
        poll(
            lambda: not [*differences(gua.report(reader, *SUMS), expected)],
            f"the good host's report; see {collector.log}",
        )
    finally:
        collector.kill()

    # A row a day, and midnight may have come between.
    points = "SELECT host, reason, sum(points) FROM gua.refused_points GROUP BY host, reason ORDER BY reason"
    refused = clickhouse.query(points)
    assert refused.splitlines() == ["demo-host\tahead\t10", "demo-host\tbefore-2000\t10"]
