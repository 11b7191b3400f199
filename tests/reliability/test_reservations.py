"""Reservations while clients, commands and the agent are killed at random.

At full size: .venv/bin/python -m pytest -s tests/reliability/test_reservations.py --chaos 600 --kills 200
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Scenario
from fakes.host import show
from servers.agent import Agent
from servers.fixture import uuid
from soak.reservations import CARDS, Chaos

pytestmark = pytest.mark.reliability


def test_no_card_is_given_twice_and_none_is_lost_whoever_is_killed(
    simulated_driver: SimulatedDriver, new_agent: Callable[[str], Agent], request: pytest.FixtureRequest
) -> None:
    agent = new_agent("killed")
    simulated_driver.write(Scenario([Card(uuid(number + 1), memory_reserved=500 * MIB) for number in range(CARDS)]))
    agent.start()
    seconds, kills = request.config.getoption("--chaos"), request.config.getoption("--kills")
    account = Chaos(agent, seed=1).run(seconds, kills)
    agent.stop()
    show(account.text())
    assert account.told == []
    assert min(account.kills.values()) >= kills
