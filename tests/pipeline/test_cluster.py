"""Two real servers as two shards: hosts are spread over them, and every number is that of one node."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.ports import SpooledTick
from gua.state.compression import compress
from gua.store.database import open_store
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.process import poll
from servers.shards import UNREPLICATED, Shards
from servers.tap import send, split, tapped

# Some of each shard.
HOSTS = ["node-1", "node-2", "node-3", "node-5"]
DEMO = ("--ticks", "60", "--interval", "10m", "--gpus", "2")
SETTINGS = {"active_utilization": 0.6, "held_memory_bytes": 2e10}


@pytest.fixture(scope="module")
def applied_once(_built: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the data of two shards to which the schema was applied: copies start in less time than it is applied."""
    both = Shards(tmp_path_factory.mktemp("applied"))
    try:
        both.start()
        # Hours may be counted at once.
        both.apply_schema({**UNREPLICATED, "SETTLE_SECONDS": "0"})
        for server in both.servers:
            server.stop()
    finally:
        both.kill()
    return [server.data for server in both.servers]


@pytest.fixture
def shards(applied_once: list[Path], tmp_path: Path) -> Iterator[Shards]:
    both = Shards(tmp_path)
    for server, data in zip(both.servers, applied_once, strict=True):
        shutil.copytree(data, server.data, symlinks=True)
    try:
        both.start()
        yield both
    finally:
        both.kill()


@pytest.fixture
def collector(shards: Shards, tmp_path: Path) -> Iterator[Collector]:
    """Return a Collector that knows the first shard only."""
    process = Collector(tmp_path / "collector", shards.servers[0])
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the ticks of every host as OTLP requests, all mixed."""
    gua = Gua(tmp_path_factory.mktemp("senders"))
    made: list[bytes] = []
    for seed, host in enumerate(HOSTS):
        with tapped() as (endpoint, bodies):
            gua.must("demo", "--seed", str(seed), *DEMO, "--endpoint", endpoint)
        made += [tick for body in bodies for tick in of_host(body, host)]
    random.Random(7).shuffle(made)  # noqa: S311 - a fixed order, not a secret
    return made


def of_host(body: bytes, host: str) -> Iterator[bytes]:
    """Yield each tick of a request as another host would have sent it; the simulator names its cards alike on all."""
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for attribute in resource.resource.attributes:
            if attribute.key == "host.name":
                attribute.value.string_value = host
        yield ExportMetricsServiceRequest(resource_metrics=[resource]).SerializeToString()


@pytest.fixture(scope="module")
def landed(requests: list[bytes], tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Path:
    """Return an embedded store in which the same requests have landed."""
    path = tmp_path_factory.mktemp("one-node") / "store"
    with open_store(made_store(path)) as store:
        ticks = [
            SpooledTick(id=number, ts_ms=number, raw_length=len(body), blob=compress(body))
            for number, body in enumerate(requests)
        ]
        assert store.land(ticks) == []
    return path


@pytest.fixture
def one_node(landed: Path, tmp_path: Path) -> str:
    """Return the address of a copy of it."""
    shutil.copytree(landed, tmp_path / "one-node", symlinks=True)
    return f"chdb://{tmp_path / 'one-node'}"


def hosts_on(server: ClickHouseServer, table: str, column: str = "host") -> set[str]:
    """Return the hosts that this server itself keeps rows of."""
    return {*server.query(f"SELECT DISTINCT {column} FROM gua.{table}_local").split()}


@pytest.fixture(scope="module")
def expected(landed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return its report."""
    return Gua(tmp_path_factory.mktemp("reader")).report(f"chdb://{landed}")


def assert_same(gua: Gua, server: ClickHouseServer, expected: dict[str, Any], *options: str) -> None:
    """Insist that the server reports what the other store does."""
    assert not [*differences(gua.report(server.dsn("gua_reader"), *options), expected)]


# Of each public view, by host: rows, and what they add up to.
PUBLIC = {
    "cards": "gpu_fraction",
    "hosts": "cards",
    "card_hours": "gpu_hours",
    "usage_hours": "process_hours",
    "costs": "gpu_hours",
    "allocation_hours": "gpu_hours",
    "card_ticks": "observed_seconds",
    "idle_streaks": "idle_hours",
    "current_cards": "in_state_hours",
    "current_holders": "idle_hours",
}


def assert_public_views_alike(server: ClickHouseServer, one_node: str) -> None:
    """Insist that the user of BI tools reads on this server what the other store has, and of every host."""
    sql = " UNION ALL ".join(
        f"SELECT '{view}' AS view, host, count() AS rows, sum({column}) AS total FROM gua_public.{view} GROUP BY host"
        for view, column in PUBLIC.items()
    )
    with open_store(one_node) as store:
        expected = sorted(tuple(row.values()) for row in store.select(sql))
    for view in PUBLIC:
        assert {host for name, host, _, _ in expected if name == view} == {*HOSTS}, view
    with open_store(server.dsn("gua_bi")) as store:
        found = sorted(tuple(row.values()) for row in store.select(sql))
    # Fractions are added up in any order.
    assert found == [(*names, pytest.approx(total, rel=1e-9)) for *names, total in expected]


def test_hosts_are_spread_over_the_shards_and_the_report_is_that_of_one_node(
    gua: Gua,
    shards: Shards,
    collector: Collector,
    one_node: str,
    expected: dict[str, Any],
    requests: list[bytes],
) -> None:
    pieces = [piece for body in requests[-5:] for piece in split(body)]
    # All of it, a part twice, and a part in pieces.
    for body in [*requests, *requests[:40], *pieces]:
        send(collector.endpoint, body)
    collector.wait_until_delivered()

    first, second = (hosts_on(server, "card_ticks") for server in shards.servers)
    assert first
    assert second
    assert first | second == {*HOSTS}
    assert first & second == set()
    for table in ("process_ticks", "card_info", "card_seen"):
        assert [hosts_on(server, table) for server in shards.servers] == [first, second], table
    for table in ("otel_metrics_gauge", "otel_metrics_sum"):
        column = "ResourceAttributes['host.name']"
        assert [hosts_on(server, table, column) for server in shards.servers] == [first, second], table

    states = expected["headline"]["states"]
    assert all(states[state]["card_ticks"] > 0 for state in ("active", "idle-held", "truly-idle")), states
    assert_same(gua, shards.servers[0], gua.report(one_node, *SUMS), *SUMS)
    some = ("--host", min(first), "--host", min(second), *SUMS)
    assert_same(gua, shards.servers[0], gua.report(one_node, *some), *some)

    # Each shard counts the hours of its own hosts.
    for server, hosts in zip(shards.servers, (first, second), strict=True):
        gua.must("rollup", "--store", server.dsn())
        assert hosts_on(server, "hourly_cards") == hosts
    assert_same(gua, shards.servers[1], expected)
    assert_public_views_alike(shards.servers[0], one_node)

    # A setting that is changed on one server holds for the hosts of both.
    with open_store(one_node) as store:
        store.insert_json("settings", [{"key": key, "value": value} for key, value in SETTINGS.items()])
    with open_store(shards.servers[1].dsn()) as store:
        store.insert_json("settings", [{"key": key, "value": value} for key, value in SETTINGS.items()])
    changed = gua.report(one_node, *SUMS)
    assert changed["headline"]["states"] != states
    assert_same(gua, shards.servers[0], changed, *SUMS)


def test_ticks_that_gua_itself_lands_are_spread_too(
    gua: Gua, shards: Shards, recordings: list[Path], tmp_path: Path
) -> None:
    embedded = f"chdb://{tmp_path / 'embedded'}"
    for host, recording in zip(HOSTS, recordings, strict=False):
        for store in (embedded, shards.servers[0].dsn()):
            gua.must("import", "nvidia-smi", recording, "--host", host, "--store", store)

    first, second = (hosts_on(server, "card_ticks") for server in shards.servers)

    assert first
    assert second
    assert first | second == {*HOSTS[: len(recordings)]}
    assert first & second == set()
    assert_same(gua, shards.servers[1], gua.report(embedded, *SUMS), *SUMS)


def test_while_a_shard_is_down_nothing_is_lost_and_no_report_leaves_its_hosts_out(
    gua: Gua, shards: Shards, collector: Collector, landed: Path, requests: list[bytes]
) -> None:
    expected = gua.report(f"chdb://{landed}", *SUMS)
    middle = len(requests) // 2
    for body in requests[:middle]:
        send(collector.endpoint, body)
    collector.wait_until_delivered()
    shards.servers[1].kill()
    for body in requests[middle:]:
        send(collector.endpoint, body)
    poll(lambda: "Exporting failed" in collector.log.read_text(), "a first failed try")

    refused = gua.run("report", "--json", "--store", shards.servers[0].dsn("gua_reader"))

    assert refused.returncode == 3, refused.stdout
    assert refused.stdout == ""
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    shards.servers[1].start()
    collector.wait_until_delivered()
    assert_same(gua, shards.servers[1], expected, *SUMS)


def test_the_writer_may_add_points_on_both_shards_and_read_none(shards: Shards) -> None:
    for server in shards.servers:
        for host in HOSTS:
            row = json.dumps({"ResourceAttributes": {"host.name": host}, "TimeUnix": "2026-03-25 12:00:00.000"})
            server.query(f"INSERT INTO gua.otel_metrics_gauge FORMAT JSONEachRow {row}", user="gua_writer")
        for table in ("otel_metrics_gauge", "otel_metrics_gauge_local", "card_ticks", "card_ticks_local"):
            with pytest.raises(AssertionError, match="Not enough privileges"):
                server.query(f"SELECT * FROM gua.{table}", user="gua_writer")
        with pytest.raises(AssertionError, match="Not enough privileges"):
            server.query("INSERT INTO gua.card_ticks_local (host) VALUES ('node-1')", user="gua_writer")
    counts = [int(server.query("SELECT count() FROM gua.otel_metrics_gauge_local")) for server in shards.servers]
    assert sum(counts) == 2 * len(HOSTS)
    assert min(counts) > 0


def test_the_reader_reads_every_view_of_both_shards_and_no_raw_points(shards: Shards) -> None:
    raw = {"otel_metrics_gauge", "otel_metrics_gauge_local", "otel_metrics_sum", "otel_metrics_sum_local"}
    for server in shards.servers:
        names = server.query("SELECT name FROM system.tables WHERE database = 'gua' AND engine != 'MaterializedView'")
        readable = {*names.split()} - raw - {"otlp_requests"}
        assert "agent_ticks" in readable
        if server is not shards.servers[0]:  # its views are the same, its rows are its own
            readable = {name for name in readable if name.endswith("_local")}
            assert len(readable) > 5
        for name in sorted(readable):
            server.query(f"SELECT * FROM gua.{name} LIMIT 1", user="gua_reader")
        for name in raw:
            with pytest.raises(AssertionError, match="Not enough privileges"):
                server.query(f"SELECT Value FROM gua.{name}", user="gua_reader")
