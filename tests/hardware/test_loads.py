"""On a real card: what the agent makes of a card that is idle, held, at work, and at work in bursts.

Run with ``make test TESTS=gpu``; takes five minutes. Needs an unused card, or one named by its UUID in
GUA_TEST_GPU. Prints what the agent saw beside what nvidia-smi says (``pytest -s``).

All phases passed on an H100 80GB with driver 580.159.04. The judgement (phases.py), the load (load.py) and the course
(watch.py) are also tested on the simulated driver, by tests/unit/nvml/test_hardware.py and test_hardware_record.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from driver.fixture import SimulatedDriver
from gua.procfs.reader import ProcFs
from hardware import smi
from hardware.phases import PHASES, Phase, faults, table
from hardware.watch import RealDriver, free_card, loaded, watch
from servers.agent import Agent

pytestmark = pytest.mark.gpu
SECONDS = 60.0


@pytest.fixture(scope="module")
def card() -> str:
    """Return the UUID of an unused card."""
    return free_card()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(cast("SimulatedDriver", RealDriver()), tmp_path)  # all that it takes of a driver is its environment
    yield made
    if made.process is not None:
        made.kill()


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_phase_of_load_is_measured_as_expected(phase: Phase, card: str, agent: Agent) -> None:
    sees_processes = ProcFs().in_initial_pid_namespace()
    if not sees_processes:
        warnings.warn("outside of the host's PID namespace: holders were not compared", stacklevel=1)
    with loaded(phase, card) as holder:
        seen = watch(agent, card, seconds=SECONDS, holder=holder, sees_processes=sees_processes)
    print(f"\n{table(phase, seen)}")  # noqa: T201 - for people, with pytest -s and where it fails
    assert faults(phase, seen) == []


def test_the_cards_that_are_compared_are_all_there(card: str) -> None:
    assert card in {row["uuid"] for row in smi.ask("gpu", ["uuid"])}
