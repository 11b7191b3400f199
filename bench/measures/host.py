"""The host that is measured: 8 cards x 10 processes, real ones that sleep, on the simulated driver."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from driver.build import build
from driver.fixture import SimulatedDriver
from driver.scenario import GIB, MIB, Scenario, crowd, replace_text
from servers.agent import Agent

BENCH = Path(__file__).resolve().parents[1]
TESTS = BENCH.parent / "tests"
CARDS, PROCESSES = 8, 80


@contextmanager
def sleeping(count: int = PROCESSES) -> Iterator[list[int]]:
    """Start processes that do nothing, and yield their pids."""
    with ExitStack() as held:
        started = [held.enter_context(subprocess.Popen(["sleep", "1000000"])) for _ in range(count)]
        for process in started:
            held.callback(process.kill)
        yield [process.pid for process in started]


@contextmanager
def simulated(scenario: Scenario) -> Iterator[SimulatedDriver]:
    """Yield a driver of its own in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        driver = SimulatedDriver(library=build(), scenario=Path(folder) / "driver.scenario")
        replace_text(driver.scenario, scenario.text())
        yield driver


@contextmanager
def crowded(*, cards: int = CARDS, processes: int = PROCESSES) -> Iterator[SimulatedDriver]:
    """Yield the driver of a host, by default with 8 cards x 10 processes; ``processes`` are those of all cards."""
    step = GIB // 2 if processes <= PROCESSES else 10 * MIB
    with sleeping(processes) as pids, simulated(crowd(pids, cards=cards, step=step)) as driver:
        yield driver


@contextmanager
def new_agent(driver: SimulatedDriver, environ: Mapping[str, str] | None = None) -> Iterator[Agent]:
    """Yield an agent that is not started yet, with a home of its own that goes away with it."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="gua-bench-")))
        agent = Agent(driver, folder, environ=environ or {})
        held.callback(_end, agent)
        yield agent


def _end(agent: Agent) -> None:
    if agent.process is not None:
        agent.kill()


def pid_of(agent: Agent) -> int:
    if agent.process is None:
        msg = "the agent does not run"
        raise ValueError(msg)
    return agent.process.pid


def child(module: str, *arguments: object, environ: Mapping[str, str]) -> str:
    """Run a module of this folder on a driver and return what it printed; its errors are shown."""
    done = subprocess.run(
        [sys.executable, "-m", f"measures.{module}", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{BENCH}{os.pathsep}{TESTS}", **environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout
