"""An agent on the simulated driver for the tests here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import IDLE, MIB, Card, Constant, Process, Scenario, uuid
from servers.agent import Agent


@pytest.fixture
def lab(simulated_driver: SimulatedDriver) -> Scenario:
    """Return a host with a card at work, one that is held, and a free one; it is the driver's world already."""
    scenario = Scenario(
        [
            Card(uuid(1), memory_reserved=500 * MIB, load=Constant(80), processes=[Process(os.getpid())]),
            Card(uuid(2), memory_reserved=500 * MIB, processes=[Process(os.getpid(), memory=900 * MIB, load=IDLE)]),
            Card(uuid(3), memory_reserved=500 * MIB),
        ]
    )
    simulated_driver.write(scenario)
    return scenario


@pytest.fixture
def agent(simulated_driver: SimulatedDriver, lab: Scenario, tmp_path: Path) -> Iterator[Agent]:  # noqa: ARG001 - the world
    """Return an agent that is not started yet; it is ended after the test."""
    made = Agent(simulated_driver, tmp_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()
