"""``gua idle`` against a running agent."""

from __future__ import annotations

import json
import os
import time

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import GIB, Card, Constant, Process, Scenario, uuid
from servers.agent import Agent


@pytest.fixture
def agent(simulated_driver: SimulatedDriver, tmp_path_factory: pytest.TempPathFactory) -> Agent:
    return Agent(simulated_driver, tmp_path_factory.mktemp("agent"))


def test_gua_idle_distinguishes_idle_cards_and_processes_from_busy_ones(
    agent: Agent, simulated_driver: SimulatedDriver
) -> None:
    idle, busy = os.getpid(), os.getppid()
    simulated_driver.write(
        Scenario(
            [
                Card(uuid(1), processes=[Process(idle, 8 * GIB, Constant(0))]),
                Card(uuid(2), processes=[Process(busy, 8 * GIB, Constant(90))]),
            ]
        )
    )
    assert agent.run("idle").returncode == 3
    agent.start()
    try:
        time.sleep(5)
        codes = {
            name: agent.run("idle", "--for", "2s", *name.split()).returncode
            for name in ("--card 0", "--card 1", f"--pid {idle}", f"--pid {busy}", "--user nobody-here", "")
        }
        long = agent.run("idle", "--for", "1h", "--card", "0", "--json")
    finally:
        agent.stop()
    expected = {"--card 0": 0, "--card 1": 1, f"--pid {idle}": 0, f"--pid {busy}": 1, "--user nobody-here": 3, "": 1}
    assert codes == expected
    # It was not observed for an hour: it may have been idle for longer.
    assert (long.returncode, json.loads(long.stdout)["idle"]) == (3, None)
