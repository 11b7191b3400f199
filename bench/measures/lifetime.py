"""Start, stop and the commands that people wait for, against agents on a host of 8 cards x 10 processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from datetime import datetime

from measures.cost import WAYS, environment, options, receiver_of
from measures.figures import middle, show, spread, title
from measures.host import crowded, new_agent

from driver.fixture import SimulatedDriver
from fakes.otlp import Receiver
from gua.local_socket.client import query_status
from servers.agent import GUA, Agent
from servers.process import poll

FIRST_TICK_LIMIT_S, STATUS_LIMIT_S, HELP_LIMIT_S = 0.5, 0.4, 0.3


def starts(times: int) -> None:
    """Show how long after the command the first tick is taken."""
    title("From gua daemon --foreground to the first tick")
    with crowded() as driver:
        for way in WAYS:
            with receiver_of(way) as receiver:
                took = [_first_tick(driver, way, receiver) for _ in range(times)]
            show(f"{way}: first tick", middle(took), "s", FIRST_TICK_LIMIT_S, note=spread(took))


def _first_tick(driver: SimulatedDriver, way: str, receiver: Receiver | None) -> float:
    with new_agent(driver, environment(way)) as agent:
        begun = time.time()
        agent.start(*options(receiver), interval="60s")
        first = query_status(agent.home / "agent.sock", timeout_seconds=60)["last_tick"]["time"]
        agent.stop()
    return datetime.fromisoformat(first).timestamp() - begun


def commands(times: int) -> None:
    """Show how long frequently used commands take."""
    title("Commands (wall)")
    with crowded() as driver, new_agent(driver) as agent:
        _show("gua --help", HELP_LIMIT_S, times, lambda: agent.must("--help"))
        agent.start(interval="30s")
        _show("gua status", STATUS_LIMIT_S, times, lambda: agent.must("status"))
        _show("gua status --json", STATUS_LIMIT_S, times, lambda: agent.must("status", "--json"))
        agent.stop()
        pairs = [_start_and_stop(agent) for _ in range(max(1, times // 2))]
        for name, took in zip(("gua daemon, until it returns", "gua stop"), zip(*pairs, strict=True), strict=True):
            show(name, middle(took), "s", note=spread(took))


def _show(name: str, limit: float, times: int, command: Callable[[], object]) -> None:
    took = [seconds_of(command) for _ in range(times)]
    show(name, middle(took), "s", limit, note=spread(took))


def _start_and_stop(agent: Agent) -> tuple[float, float]:
    # Not through a pipe: the daemon goes on after the command, and holds what it inherited.
    def quiet(*arguments: str) -> None:
        subprocess.run([*GUA, *arguments], env=agent.environment(), stdout=subprocess.DEVNULL, check=True)

    started = seconds_of(lambda: quiet("daemon", "--interval", "30s"))
    poll(lambda: query_status(agent.home / "agent.sock", timeout_seconds=60), "the daemon to answer")
    return started, seconds_of(lambda: quiet("stop"))


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
