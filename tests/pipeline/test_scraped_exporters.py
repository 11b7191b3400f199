"""The same simulated host by gua's agent, and by nvitop-exporter and gua's exporter through a real Prometheus."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, MIB, Card, Constant, Process, Scenario, uuid
from servers.agent import Agent
from servers.process import ServerProcess, free_ports, http_answers
from servers.prometheus import Prometheus
from servers.tools import nvitop

BUSY, HELD, FREE = 1, 2, 3
SECONDS = 15
HIDDEN_SECONDS = 31
"""The newest samples that an import leaves to the next one."""
MARKER = "--secret-of-a-command-line"


@pytest.fixture
def holders(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Return the pids of two processes on cards, with an option that must not be stored."""
    program = tmp_path / "holder.py"
    program.write_text("import time\ntime.sleep(1000)\n")
    command = ["python3", str(program), MARKER]
    with subprocess.Popen(command) as busy, subprocess.Popen(command) as idle:
        yield busy.pid, idle.pid
        busy.kill()
        idle.kill()


class NvitopExporter(ServerProcess):
    """nvitop-exporter on a simulated driver, which reads it each second."""

    def __init__(self, folder: Path, driver: SimulatedDriver) -> None:
        [port] = free_ports(1)
        self.target = f"127.0.0.1:{port}"
        options = [f"--port={port}", "--interval=1", "--bind-address=127.0.0.1"]
        environment = {**os.environ, **driver.environment}
        super().__init__("nvitop-exporter", [str(nvitop() / "nvitop-exporter"), *options], environment, folder)

    def run(self) -> None:
        """Start, and return once it answers."""
        self.start(lambda: http_answers(f"http://{self.target}/metrics"))


@pytest.fixture
def recorded(
    simulated_driver: SimulatedDriver, tmp_path: Path, holders: tuple[int, int]
) -> Iterator[tuple[Agent, Prometheus]]:
    """Yield an agent and a Prometheus that recorded the same seconds."""
    simulated_driver.write(
        Scenario(
            [
                Card(uuid(BUSY), memory_reserved=500 * MIB, processes=[Process(holders[0], 8 * GIB, Constant(80))]),
                Card(uuid(HELD), memory_reserved=500 * MIB, processes=[Process(holders[1], 2 * GIB, Constant(0))]),
                Card(uuid(FREE), memory_reserved=500 * MIB),
            ]
        )
    )
    [port] = free_ports(1)
    exporter = NvitopExporter(tmp_path, simulated_driver)
    agent = Agent(simulated_driver, tmp_path)
    prometheus = Prometheus(tmp_path / "prometheus", exporter.target, f"127.0.0.1:{port}")
    try:
        exporter.run()
        agent.start("--prometheus", f"127.0.0.1:{port}")
        prometheus.run()
        time.sleep(SECONDS)
        agent.stop()
        exporter.stop()
        time.sleep(HIDDEN_SECONDS)
        yield agent, prometheus
    finally:
        agent.stop()
        exporter.kill()
        prometheus.kill()


def states(report: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the share of observed time of each card in each state."""
    return {
        (card["gpu"], name): state["gpu_hours"] / sum(one["gpu_hours"] for one in card["states"].values())
        for card in report["cards"]
        for name, state in card["states"].items()
    }


def test_reports_of_the_agent_and_of_both_exporters_agree(recorded: tuple[Agent, Prometheus], tmp_path: Path) -> None:
    agent, prometheus = recorded
    own = json.loads(agent.must("report", "--json", "--section", "all", "--since", "10m"))

    def audit(exporter: str) -> dict[str, Any]:
        store = tmp_path / exporter
        # Each exporter alone: the other's samples would win or fill holes.
        wanted = json.loads(
            agent.must(
                *("audit", prometheus.url, "--since", "10m", "--store", store, "--exporter", exporter),
                *("--json", "--section", "all"),
            )
        )
        assert isinstance(wanted, dict)
        files = [file.read_bytes() for file in store.rglob("*") if file.is_file()]
        assert not any(MARKER.encode() in content for content in files)
        return wanted

    for exporter in ("nvitop-exporter", "gua"):
        report = audit(exporter)
        assert states(report) == states(own), exporter
        observed = report["coverage"]["observed_gpu_hours"] * 3600 / 3
        assert SECONDS / 3 <= observed <= SECONDS * 1.5, exporter  # a loaded machine misses scrapes
        programs = {(row["owner"], row["program"]) for row in report["owners"]}
        assert programs == {(row["owner"], row["program"]) for row in own["owners"]}, exporter
