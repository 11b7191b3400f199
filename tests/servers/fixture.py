"""The fixtures ``lab``, ``new_agent`` and ``agent``: agents on a simulated host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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
def new_agent(
    simulated_driver: SimulatedDriver,
    lab: Scenario,  # noqa: ARG001 - the world
    tmp_path: Path,
) -> Iterator[Callable[[str], Agent]]:
    """Return what makes an agent of a name that is not started yet; each is killed after the test."""
    made: list[Agent] = []

    def make(name: str) -> Agent:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Agent(simulated_driver, folder))
        return made[-1]

    yield make
    for agent in made:
        if agent.process is not None:
            agent.kill()


@pytest.fixture
def agent(new_agent: Callable[[str], Agent]) -> Agent:
    """Return an agent that is not started yet; it is killed after the test."""
    return new_agent("agent")
