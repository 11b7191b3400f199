"""Other ways than the project's own Collector: the report at their end is that of the embedded store."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from servers.clickhouse import ClickHouseServer
from servers.collector import CONFIG, Collector
from servers.gua import SUMS, Gua, differences
from servers.process import free_ports, poll
from servers.prometheus import Prometheus
from servers.site import CONFIG as PLAIN
from servers.site import GRANTS, settle
from servers.site import SETTINGS as SITE
from servers.tap import send, tapped

HERE = Path(__file__).parent
AGENT = CONFIG.with_name("agent.yaml")
PROMETHEUS = CONFIG.with_name("prometheus.yaml")
MOMENTS = ("first_seen", "last_seen")
DEMO = ("demo", "--seed", "7", "--ticks", "60", "--gpus", "4")

Start = Callable[..., Collector]
Reported = Callable[..., dict[str, Any]]


@pytest.fixture
def clickhouse(_built: None, tmp_path: Path) -> Iterator[ClickHouseServer]:
    """A server with a user of the site's own, and with gua's owner granted what attaching prints, no more."""
    server = ClickHouseServer(tmp_path / "clickhouse")
    settle(server)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def start(clickhouse: ClickHouseServer, tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as running:

        def started(name: str, config: Path, settings: dict[str, str] | None = None) -> Collector:
            collector = Collector(tmp_path / name, clickhouse, settings, config=config)
            collector.start()
            running.callback(collector.kill)
            return collector

        yield started


def points(server: ClickHouseServer, database: str) -> int:
    """Return how many points are in the landing tables."""
    return sum(
        int(server.query(f"SELECT count() FROM {database}.{table}", user="site"))
        for table in ("otel_metrics_gauge", "otel_metrics_sum")
    )


def deliver(collector: Collector, server: ClickHouseServer, database: str, requests: list[bytes]) -> None:
    """Send the requests and wait until the tables have all of their points."""
    before, accepted = points(server, database), collector.accepted_points()
    for body in requests:
        send(collector.endpoint, body)
    sent = collector.accepted_points() - accepted
    poll(lambda: points(server, database) >= before + sent, f"{sent} points to land; see {collector.log}")


def requests_of(gua: Gua, *command: str | Path) -> list[bytes]:
    """Return what a command sends to an endpoint."""
    with tapped() as (endpoint, requests):
        gua.must(*command, "--endpoint", endpoint)
    return [*requests]


def make_older_tables(server: ClickHouseServer) -> None:
    """Make the tables as the exporter did up to v0.120 and longer: times in nanoseconds."""
    server.query("CREATE DATABASE otel", user="site")
    for kind in ("gauge", "sum"):
        server.query((HERE / "collectors" / f"otel_metrics_{kind}-v0.120.0.sql").read_text("utf-8"), user="site")


def without_moments(identity: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in identity.items() if name not in MOMENTS}


def assert_same_but_for_seconds(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Hold a report from tables of whole seconds to the exact one: ticks and their hours equal, ends a second off."""
    a_second_a_card = len(expected["cards"]) / 3600
    assert found["headline"] == expected["headline"]
    assert [without_moments(one) for one in found["owners"]] == [without_moments(one) for one in expected["owners"]]
    for one, exact in zip(found["owners"], expected["owners"], strict=True):
        for name in MOMENTS:
            assert (one[name] is None) == (exact[name] is None)
            if one[name] is not None:
                off = datetime.fromisoformat(one[name]) - datetime.fromisoformat(exact[name])
                assert abs(off) < timedelta(seconds=1), name
    assert found["overlaps"] == expected["overlaps"] == []
    assert found["coverage"]["gaps"] == expected["coverage"]["gaps"]
    assert found["coverage"]["observed_gpu_hours"] == expected["coverage"]["observed_gpu_hours"]
    for name in ("expected_gpu_hours", "unobserved_gpu_hours"):
        assert found["coverage"][name] == pytest.approx(expected["coverage"][name], abs=a_second_a_card), name
    for card, exact in zip(found["cards"], expected["cards"], strict=True):
        assert card["states"] == exact["states"]


class TestTablesThatTheExporterMade:
    @pytest.mark.parametrize("form", ["older", "newer"])
    def test_points_before_and_after_attaching_give_the_same_report(
        self, gua: Gua, clickhouse: ClickHouseServer, start: Start, reported: Reported, form: str
    ) -> None:
        if form == "older":
            make_older_tables(clickhouse)
        plain = start("plain", PLAIN, SITE)
        requests = requests_of(gua, *DEMO)
        deliver(plain, clickhouse, "otel", requests[: len(requests) * 2 // 3])

        printed = gua.must("schema", "apply", "--store", clickhouse.dsn(), "--landing-database", "otel")
        # The last third of what is there again: a Collector that was not sure repeats itself.
        deliver(plain, clickhouse, "otel", requests[len(requests) // 3 :])

        assert ("whole seconds" in printed) == (form == "newer")
        assert [line.strip() for line in printed.splitlines() if "GRANT" in line] == [
            f"{one} TO `gua_owner`" for one in GRANTS
        ]
        found, expected = gua.report(clickhouse.dsn("gua_reader"), *SUMS), reported(DEMO, options=SUMS)
        if form == "newer":
            assert_same_but_for_seconds(found, expected)
        else:
            assert not [*differences(found, expected)]

    def test_recordings_in_whole_seconds_lose_no_tick_and_no_second(
        self, gua: Gua, clickhouse: ClickHouseServer, start: Start, reported: Reported, recordings: list[Path]
    ) -> None:
        plain = start("plain", PLAIN, SITE)
        deliver(plain, clickhouse, "otel", requests_of(gua, "import", "nvidia-smi", *recordings))
        gua.must("schema", "apply", "--store", clickhouse.dsn(), "--landing-database", "otel")

        assert_same_but_for_seconds(
            gua.report(clickhouse.dsn("gua_reader"), *SUMS),
            reported(("import", "nvidia-smi", *recordings), options=SUMS),
        )

    def test_attaching_again_and_applying_again_change_nothing(
        self, gua: Gua, clickhouse: ClickHouseServer, start: Start, reported: Reported
    ) -> None:
        make_older_tables(clickhouse)
        plain = start("plain", PLAIN, SITE)
        deliver(plain, clickhouse, "otel", requests_of(gua, *DEMO))
        attach = ("schema", "apply", "--store", clickhouse.dsn(), "--landing-database", "otel")
        first = gua.must(*attach)
        second = gua.must(*attach)
        gua.must("schema", "apply", "--store", clickhouse.dsn())

        assert "points of 0 days" in second, (first, second)
        gua.must("schema", "check", "--store", clickhouse.dsn())
        assert not [*differences(gua.report(clickhouse.dsn("gua_reader"), *SUMS), reported(DEMO, options=SUMS))]

    def test_a_backfill_that_was_cut_off_goes_on_where_it_was(
        self, gua: Gua, clickhouse: ClickHouseServer, start: Start, reported: Reported
    ) -> None:
        make_older_tables(clickhouse)
        plain = start("plain", PLAIN, SITE)
        days = ("demo", "--seed", "7", "--days", "2", "--gpus", "1", "--interval", "10m")
        deliver(plain, clickhouse, "otel", requests_of(gua, *days))
        attach = ("schema", "apply", "--store", clickhouse.dsn(), "--landing-database", "otel")
        gua.must(*attach)
        newest, *_ = clickhouse.query("SELECT max(day) FROM gua.backfilled_days").split()
        for table in ("card_ticks", "process_ticks"):
            clickhouse.query(
                f"ALTER TABLE gua.{table} DELETE WHERE toDate(ts) < '{newest}' SETTINGS mutations_sync = 2"
            )
        clickhouse.query(f"ALTER TABLE gua.backfilled_days DELETE WHERE day < '{newest}' SETTINGS mutations_sync = 2")
        printed = gua.must(*attach)

        assert "of 0 days" not in printed
        assert not [*differences(gua.report(clickhouse.dsn("gua_reader"), *SUMS), reported(days, options=SUMS))]

    def test_missing_or_unreadable_tables_give_an_error_with_the_rights_they_need(
        self, gua: Gua, clickhouse: ClickHouseServer
    ) -> None:
        done = gua.run("schema", "apply", "--store", clickhouse.dsn(), "--landing-database", "other")
        assert done.returncode == 3, done.stderr
        (line,) = done.stderr.splitlines()
        assert "GRANT SELECT ON other.otel_metrics_gauge TO `gua_owner`" in line


class TestAgentAndGateway:
    def test_points_pass_both_and_give_the_same_report(
        self, gua: Gua, clickhouse: ClickHouseServer, collector: Collector, start: Start, reported: Reported
    ) -> None:
        gua.must("schema", "apply", "--store", clickhouse.dsn())
        agent = start("agent", AGENT, gateway(collector))
        gua.must(*DEMO, "--endpoint", agent.endpoint)
        agent.wait_until_delivered()
        collector.wait_until_delivered()

        assert not [*differences(gua.report(clickhouse.dsn("gua_reader"), *SUMS), reported(DEMO, options=SUMS))]

    def test_nothing_is_lost_while_the_gateway_is_away_and_the_agents_collector_is_killed(
        self, gua: Gua, clickhouse: ClickHouseServer, collector: Collector, start: Start, reported: Reported
    ) -> None:
        gua.must("schema", "apply", "--store", clickhouse.dsn())
        agent = start("agent", AGENT, gateway(collector))
        collector.kill()
        gua.must(*DEMO, "--endpoint", agent.endpoint)
        agent.kill()
        agent.start()
        collector.start()
        expected = reported(DEMO, options=SUMS)
        reader = clickhouse.dsn("gua_reader")

        def whole() -> bool:
            # With a non-zero exit there is no tick yet.
            done = gua.run("report", "--json", "--store", reader, *SUMS)
            return done.returncode == 0 and not [*differences(json.loads(done.stdout), expected)]

        poll(whole, f"the points out of the agent's queue; see {agent.log}")


def gateway(collector: Collector) -> dict[str, str]:
    return {"GATEWAY_ENDPOINT": collector.grpc_endpoint.removeprefix("http://"), "GATEWAY_INSECURE": "true"}


class TestPrometheus:
    """otel-collector/prometheus.yaml: no ClickHouse anywhere."""

    @pytest.fixture
    def page(self, tmp_path: Path) -> Iterator[Callable[..., Page]]:
        """Return what a Collector shows after it got the ticks of a request each, once or more."""
        with contextlib.ExitStack() as running:

            def shown(ticks: list[bytes], **settings: str) -> Page:
                (port,) = free_ports(1)
                settings = {"PROMETHEUS_SCRAPE": f"127.0.0.1:{port}", **settings}
                nowhere = ClickHouseServer(tmp_path / "not-started")
                collector = Collector(tmp_path / "prometheus", nowhere, settings, config=PROMETHEUS)
                collector.start()
                running.callback(collector.kill)
                for body in ticks:
                    send(collector.endpoint, body)
                return Page(scraped(port), collector, f"127.0.0.1:{port}")

            yield shown

    def test_counters_hold_the_sum_of_all_ticks_and_gauges_the_newest(
        self, gua: Gua, reported: Reported, page: Callable[..., Page], tmp_path: Path
    ) -> None:
        ticks = [tick for request in requests_of(gua, *DEMO) for tick in by_tick(request)]
        expected = reported(DEMO, options=SUMS)

        found = page(ticks)

        hours = {
            card["gpu"]: sum(state["gpu_hours"] for state in card["states"].values()) for card in expected["cards"]
        }
        for name in ("gua_gpu_time_seconds_total", "gua_gpu_sample_duration_seconds_total"):
            seconds = found.by_card(name)
            assert seconds.keys() == hours.keys()
            assert {gpu: value / 3600 for gpu, value in seconds.items()} == pytest.approx(hours)
        for name in (
            "hw_gpu_utilization_ratio",
            "hw_gpu_memory_usage_bytes",
            "hw_gpu_memory_limit_bytes",
            "hw_power_watts",
        ):
            assert found.by_card(name).keys() == hours.keys(), name
        assert {labels["host_name"] for labels, _ in found.series("gua_gpu_info")} == {"demo-host"}
        owners = {labels["process_owner"] for labels, _ in found.series("gua_process_gpu_time_seconds_total")}
        assert owners == {each["owner"] for each in expected["owners"] if each["kind"] == "listed"} - {None}
        self._is_in_prometheus(found, tmp_path, hours)

    def _is_in_prometheus(self, page: Page, folder: Path, hours: dict[str, float]) -> None:
        """Have a real one scrape the page; it gives the same sums for the question of the page on Prometheus."""
        if shutil.which("prometheus") is None and not (os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI")):
            return
        prometheus = Prometheus(folder / "server", page.target)
        prometheus.run()
        try:
            expression = "sum by (host_name, hw_id) (gua_gpu_time_seconds_total) / 3600"
            found = poll(lambda: prometheus.query(expression), "Prometheus to scrape")
        finally:
            prometheus.kill()
        in_hours = {dict(labels)["hw_id"]: value for labels, value in found.items()}
        assert in_hours == pytest.approx(hours)

    def test_a_tick_that_is_sent_again_is_counted_once(self, gua: Gua, page: Callable[..., Page]) -> None:
        ticks = [tick for request in requests_of(gua, *DEMO) for tick in by_tick(request)]
        once = page(ticks).by_card("gua_gpu_time_seconds_total")
        again = page([*ticks[:40], *ticks[20:], *ticks]).by_card("gua_gpu_time_seconds_total")
        assert again == pytest.approx(once)

    def test_streams_beyond_the_limit_are_left_out_and_counted(self, gua: Gua, page: Callable[..., Page]) -> None:
        ticks = [tick for request in requests_of(gua, *DEMO) for tick in by_tick(request)]
        found = page(ticks[:10], PROMETHEUS_STREAMS="5")
        assert found.collector.own_metric("otelcol_deltatocumulative_streams_tracked") == 5
        sums = [name for name in found.names() if re.fullmatch(r"gua_(gpu|process)_\w+_total", name)]
        assert sum(len(found.series(name)) for name in sums) == 5


class Page:
    """The series that Prometheus would scrape."""

    def __init__(self, text: str, collector: Collector, target: str) -> None:
        self.collector = collector
        self.target = target
        self._text = text

    def names(self) -> list[str]:
        return re.findall(r"(?m)^# TYPE (\S+) ", self._text)

    def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [
            (dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
            for labels, value in re.findall(rf"(?m)^{name}\{{(.*)\}} (\S+)$", self._text)
        ]

    def by_card(self, name: str) -> dict[str, float]:
        return {labels["hw_id"]: value for labels, value in self.series(name)}


def scraped(port: int) -> str:
    """Return the page once two readings of it are alike and not empty."""
    readings = [""]

    def settled() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            readings.append(answer.read().decode())
        return bool(readings[-1]) and readings[-1] == readings[-2]

    poll(settled, "the page for Prometheus")
    return readings[-1]


def by_tick(request: bytes) -> Iterator[bytes]:
    """Yield a request for each tick of a request."""
    whole = ExportMetricsServiceRequest.FromString(request)
    for resource in whole.resource_metrics:
        yield ExportMetricsServiceRequest(resource_metrics=[resource]).SerializeToString()
