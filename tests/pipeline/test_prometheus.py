"""A real Prometheus scrapes a real agent, evaluates the shipped rules, and fires their alert after its grace time.

The rules are those of deploy/prometheus, with an hour and five minutes made some seconds; promtool runs them with
their own times in tests/pipeline/test_promql.py.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, MIB, Card, Constant, Load, Process, Scenario, uuid
from fakes.cards import full_tick
from fakes.pages import text_of
from gua.exporter.catalogue import Catalogue
from gua.otlp.encode import encode
from servers.agent import Agent
from servers.clickhouse import ClickHouseServer
from servers.collector import CONFIG, Collector
from servers.process import free_ports, poll
from servers.prometheus import Prometheus
from servers.promtool import RULES
from servers.tap import send
from servers.tools import MissingToolError

IDLE_SECONDS, GRACE_SECONDS = 8, 5
BUSY, HOLDER = 1, 2


@pytest.fixture
def program() -> Iterator[int]:
    """Return the pid of a process that holds a card."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def rules(tmp_path: Path) -> list[Path]:
    """Return the shipped rules in seconds instead of hours."""
    scaled = []
    for file in RULES:
        text = file.read_text(encoding="utf-8")
        assert "> 3600" in text
        assert "for: 5m" in text
        scaled.append(tmp_path / file.name)
        scaled[-1].write_text(text.replace("> 3600", f"> {IDLE_SECONDS}").replace("for: 5m", f"for: {GRACE_SECONDS}s"))
    return scaled


@pytest.fixture
def started() -> Iterator[Callable[[Prometheus], Prometheus]]:
    """Return what runs a Prometheus until the end of the test."""
    running: list[Prometheus] = []

    def start(one: Prometheus) -> Prometheus:
        running.append(one)
        one.run()
        return one

    yield start
    for one in running:
        one.kill()


def world(driver: SimulatedDriver, pid: int, load: Load, *, cards: int = 3) -> None:
    """Give the host a card at work, one that ``pid`` holds with that load, and a free one."""
    driver.write(
        Scenario(
            [
                Card(uuid(BUSY), memory_reserved=500 * MIB, processes=[Process(os.getpid(), 8 * GIB, Constant(80))]),
                Card(uuid(HOLDER), memory_reserved=500 * MIB, processes=[Process(pid, 2 * GIB, load)]),
                Card(uuid(3), memory_reserved=500 * MIB),
            ][:cards]
        )
    )


def make(folder: Path, port: int, rules: list[Path]) -> Prometheus:
    try:
        return Prometheus(folder / "prometheus", f"127.0.0.1:{port}", rule_files=rules)
    except MissingToolError as missing:
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def series(page: str, without: frozenset[str]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of gua's own names on a page, less some labels."""
    return {
        (sample.name, tuple(sorted((name, value) for name, value in sample.labels.items() if name not in without))): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith(("gua_", "hw_"))
    }


@pytest.mark.usefixtures("_built")
def test_names_labels_and_values_are_those_that_a_collector_serves_of_the_same_tick(tmp_path: Path) -> None:
    [port] = free_ports(1)
    settings = {"PROMETHEUS_SCRAPE": f"127.0.0.1:{port}"}
    nowhere = ClickHouseServer(tmp_path / "not-started")
    collector = Collector(tmp_path / "collector", nowhere, settings, config=CONFIG.with_name("prometheus.yaml"))
    tick = full_tick()
    collector.start()
    try:
        send(collector.endpoint, encode(tick))
        url = f"http://127.0.0.1:{port}/metrics"

        def page() -> str:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())

        poll(lambda: "gua_process_info" in page(), "the Collector's page")
        theirs = page()
    finally:
        collector.kill()
    ours = text_of(Catalogue().families(tick))

    # There each series carries the resource, here target_info does; here each carries who holds the card.
    resource = {"host_name", "service_name", "service_version", "service_instance_id", "gua_source", "job", "instance"}
    scope = {"gua_sample_interval", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}
    holder = {"container_id", "k8s_pod_uid", "slurm_job_id", "gua_allocation_owner", "slurm_job_name"}
    own = {
        "gua_gpu_state",
        "gua_gpu_unknown",
        "gua_gpu_active_without_process",
        "gua_process_state",
        "gua_gpu_allocation_use",
        "gua_allocation_source_ok",
    }
    own |= {"gua_gpu_use_time_seconds_total", "gua_gpu_allocation_empty_duration_seconds"}
    left_out = frozenset(resource | scope | holder)
    expected = series(theirs, left_out)
    assert len(expected) > 30
    found = {key: value for key, value in series(ours, left_out).items() if key[0] not in own}
    assert found == pytest.approx(expected)


# By gua's metrics, and by those that gpu-idle-exporter has too.
ALERTS = {"GuaMemoryHeldByIdleProcess": "process_pid", "GpuMemoryHeldByIdleProcess": "pid"}


def test_both_alerts_fire_after_their_grace_time_not_before_and_end_with_work(
    agent: Agent, program: int, rules: list[Path], started: Callable[[Prometheus], Prometheus], tmp_path: Path
) -> None:
    [port] = free_ports(1)
    world(agent.driver, program, Constant(50))
    agent.start("--prometheus", f"127.0.0.1:{port}")
    prometheus = started(make(tmp_path, port, rules))
    poll(lambda: prometheus.query("up") and prometheus.target()["health"] == "up", "a scrape")
    assert [prometheus.alerts(alert) for alert in ALERTS] == [[], []]

    began = time.time()
    world(agent.driver, program, Constant(0))
    pending_at: dict[str, float] = {}
    for alert in ALERTS:
        pending = poll(partial(prometheus.alerts, alert), f"{alert} to be pending")
        assert [one["state"] for one in pending] == ["pending"]
        # Reported by Prometheus: on a busy machine it may have been so for a while when it is seen here.
        pending_at[alert] = datetime.fromisoformat(pending[0]["activeAt"]).timestamp()
        assert pending_at[alert] - began > IDLE_SECONDS - 4  # a tick and a scrape are a second each, or two
    for alert, pid_label in ALERTS.items():
        firing = poll(partial(firing_ones, prometheus, alert), f"{alert} to fire")
        assert time.time() - pending_at[alert] > GRACE_SECONDS - 0.5
        [labels] = [one["labels"] for one in firing]
        assert labels[pid_label] == str(program)
        assert all(str(value) for value in labels.values())

    world(agent.driver, program, Constant(50))
    poll(lambda: not any(map(prometheus.alerts, ALERTS)), "the alerts to end")
    agent.stop()


def firing_ones(prometheus: Prometheus, alert: str) -> list[dict[str, Any]]:
    return [one for one in prometheus.alerts(alert) if one["state"] == "firing"]


def test_what_vanishes_is_gone_from_prometheus_with_the_next_scrape_and_a_restart_keeps_the_clock(
    agent: Agent,
    program: int,
    rules: list[Path],
    started: Callable[[Prometheus], Prometheus],
    tmp_path: Path,
) -> None:
    [port] = free_ports(1)
    world(agent.driver, program, Constant(0))
    agent.start("--prometheus", f"127.0.0.1:{port}")
    prometheus = started(make(tmp_path, port, rules))
    idle = f'gua_process_idle_duration_seconds{{process_pid="{program}"}}'
    poll(lambda: max(prometheus.query(idle).values(), default=0) > 6, "6 s of idling")
    before = max(prometheus.query(idle).values())
    agent.stop()
    agent.start("--prometheus", f"127.0.0.1:{port}")
    poll(lambda: max(prometheus.query(idle).values(), default=0) > before, "the clock to go on")

    [series] = poll(lambda: prometheus.query(f'gua_gpu_state{{hw_id="{uuid(3)}"}} == 1'), "the free card")
    assert ("state", "truly-idle") in series
    world(agent.driver, program, Constant(0), cards=2)
    poll(lambda: not prometheus.query(f'{{hw_id="{uuid(3)}"}}'), "the card to be gone")
    assert not prometheus.query(f'{{uuid="{uuid(3)}"}}')
    # On a busy machine a scrape may take longer than the second that it has, and all series are gone until the next.
    poll(lambda: taken_whole(prometheus, port), "a scrape of the whole page")
    agent.stop()


def taken_whole(prometheus: Prometheus, port: int) -> bool:
    """Return whether every sample of the page was taken: none twice, none that Prometheus cannot read."""
    # Alerts join the target with the metrics of its page.
    selectors = ("gua_agent_stale == 0", "hw_gpu_memory_usage_bytes", "hw_gpu_utilization_ratio", "gua_gpu_processes")
    labels = (("__name__", "scrape_samples_scraped"), ("instance", f"127.0.0.1:{port}"), ("job", "gua"))
    there = len(prometheus.query('{__name__=~"gua_.*|hw_.*|gpu_idle_.*|target_info", job="gua"}'))
    return (
        prometheus.target()["lastError"] == ""
        and all(prometheus.query(f"up and on (job, instance) {each}") for each in selectors)
        and prometheus.query("scrape_samples_scraped") == {labels: pytest.approx(there, abs=2)}
    )
