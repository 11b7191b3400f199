"""Programs with the SDK on the simulated driver: exporters, Collector, server and report, beside an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, Card, Constant, Process, Scenario
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import Gua
from servers.process import poll

BIN = Path(sys.executable).parent
# It ends when its input does. It has a GPU context by the scenario, which names its pid.
AUTOMATIC = "import sys; sys.stdin.read()"
BY_HAND = """
import sys
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(OTLPMetricExporter())])
from gua.instrumentation import GpuInstrumentor
GpuInstrumentor().instrument(meter_provider=provider)
sys.stdin.read()
"""
HOURS = ("active", "idle-held", "truly-idle", "unknown")


def uuid(number: int) -> str:
    return f"GPU-00000000-0000-0000-0000-00000000000{number}"


def world(own: int, other: int) -> Scenario:
    """Return cards that are active by the program, held idle by it, held idle by another process, and free."""
    return Scenario(
        [
            Card(uuid(0), processes=[Process(own, 4 * GIB, Constant(80))], full_watts=700),
            Card(uuid(1), processes=[Process(own, 2 * GIB)]),
            Card(uuid(2), processes=[Process(other, 8 * GIB)]),
            Card(uuid(3)),
        ]
    )


@contextmanager
def program(
    driver: SimulatedDriver, *command: str | Path, name: str, log: Path, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with a host name of its own; it ends in peace."""
    resource = f"host.name={name},gua.source=program,gua.sample.interval=1"
    settings = {
        "OTEL_RESOURCE_ATTRIBUTES": resource,
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        **variables,
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("GUA_", "OTEL_"))}
    environment = {**inherited, **driver.environment, **settings}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        code = process.wait(timeout=60)
        assert code == 0, log.read_text()


def hosts(report: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the cards of a report by host and UUID."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for card in report["cards"]:
        found.setdefault(card["host"], {})[card["gpu"]] = card
    return found


def test_programs_by_hand_and_automatic_report_what_the_agent_reports(
    simulated_driver: SimulatedDriver, applied: ClickHouseServer, collector: Collector, tmp_path: Path
) -> None:
    agent = Gua(tmp_path / "home", GUA_HOST_NAME="agent", **simulated_driver.environment)
    other = subprocess.Popen(["sleep", "600"])
    automatic = [BIN / "opentelemetry-instrument", sys.executable, "-c", AUTOMATIC]
    with ExitStack() as programs:
        programs.callback(other.wait)
        programs.callback(other.kill)
        http = programs.enter_context(
            program(
                simulated_driver,
                *automatic,
                name="automatic",
                log=tmp_path / "automatic.log",
                OTEL_METRICS_EXPORTER="otlp",
                OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
                OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            )
        )
        programs.enter_context(
            program(
                simulated_driver,
                sys.executable,
                "-c",
                BY_HAND,
                name="by-hand",
                log=tmp_path / "by-hand.log",
                OTEL_EXPORTER_OTLP_ENDPOINT=collector.grpc_endpoint,
            )
        )
        simulated_driver.write(world(http.pid, other.pid))
        agent.must("daemon", "--interval", "1s", "--endpoint", collector.endpoint)
        programs.callback(agent.must, "stop")

        def seconds(host: str) -> float:
            query = f"SELECT ifNull(sum(duration_ms), 0) / 4000 FROM gua.card_ticks FINAL WHERE host = '{host}'"
            return float(applied.query(query))

        for host in ("agent", "automatic", "by-hand"):
            poll(lambda host=host: seconds(host) >= 8, f"eight seconds of {host}", seconds=120)
    collector.wait_until_delivered()

    report = agent.report(applied.dsn("gua_reader"))

    found = hosts(report)
    assert sorted(found) == ["agent", "automatic", "by-hand"]
    for host, cards in found.items():
        states = {key: max(HOURS, key=lambda state: cards[key]["states"][state]["card_ticks"]) for key in cards}
        assert states == {uuid(0): "active", uuid(1): "idle-held", uuid(2): "idle-held", uuid(3): "truly-idle"}, host
    assert not report["overlaps"], report["overlaps"]
    query = """
        SELECT host, gpu, any(process_list), max(process_count_compute), avg(utilization), avg(memory_used_bytes),
               avg(power_mw), sum(energy_mj) / sum(duration_ms)
        FROM gua.card_ticks FINAL WHERE duration_ms > 0 GROUP BY host, gpu ORDER BY gpu, host
    """
    rows = [line.split("\t") for line in applied.query(query).splitlines()]
    known = {host: [row[1:4] for row in rows if row[0] == host] for host in found}
    assert len(known["agent"]) == 4
    assert known["automatic"] == known["by-hand"] == known["agent"]
    means = {host: [float(value) for row in rows if row[0] == host for value in row[4:]] for host in found}
    # The three sample at other moments.
    for host in ("automatic", "by-hand"):
        assert means[host] == pytest.approx(means["agent"], rel=0.05, abs=1), host
    pids = "SELECT DISTINCT gpu, pid, owner, program, type FROM gua.process_ticks FINAL WHERE host = {} ORDER BY gpu"
    of_agent = applied.query(pids.format("'agent'")).splitlines()
    assert [line for line in of_agent if f"\t{http.pid}\t" in line] == applied.query(
        pids.format("'automatic'")
    ).splitlines()
    assert applied.query(pids.format("'by-hand'")) == ""
    assert "WARNING" not in (tmp_path / "automatic.log").read_text()


def test_the_console_exporter_prints_the_metrics(simulated_driver: SimulatedDriver, tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    command = [BIN / "opentelemetry-instrument", sys.executable, "-c", AUTOMATIC]
    with program(simulated_driver, *command, name="host", log=log, OTEL_METRICS_EXPORTER="console") as process:
        simulated_driver.write(world(process.pid, 1))
        poll(lambda: log.read_text().count("gua.process.gpu.memory.usage") > 1, "two exports with processes")
    decoder, text, names = json.JSONDecoder(), log.read_text().lstrip(), set[str]()
    while text:
        exported, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        for scope in exported["resource_metrics"][0]["scope_metrics"]:
            assert scope["scope"]["name"] == "gua"
            names |= {metric["name"] for metric in scope["metrics"]}
    assert {"hw.gpu.utilization", "hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.power", "hw.energy"} <= names
    assert {"hw.temperature", "gua.process.gpu.utilization", "gua.process.info"} <= names


@pytest.mark.parametrize("exporter", ["console", "otlp"])
def test_a_program_without_a_driver_gets_one_warning(tmp_path: Path, exporter: str) -> None:
    log = tmp_path / "none.log"
    done = subprocess.run(
        [BIN / "opentelemetry-instrument", sys.executable, "-c", "print('done')"],
        env={**os.environ, "OTEL_METRICS_EXPORTER": exporter, "OTEL_TRACES_EXPORTER": "none"}
        | {"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    log.write_text(done.stderr)
    assert done.returncode == 0
    assert "done" in done.stdout
    assert done.stderr.count("gua: no GPU metrics: cannot read the GPUs") == 1
