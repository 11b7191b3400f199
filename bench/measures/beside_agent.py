"""Time to wait for a user with a running agent: reports first land what the agent has spooled since the last one."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measures.child import Ran, ran
from measures.figures import middle, show, spread, title
from measures.fleet_report import GUA
from measures.host import crowded, new_agent

from servers.agent import Agent

# Beside the same store where nothing waits. Landing a tick takes as long as 200 do.
REPORT_LIMIT, PRICES_LIMIT = 1.5, 1.15
_INTERVAL_S = 2


def with_agent(store: Path, *, days: int, times: int) -> None:
    """Show commands of an agent's user, by turns with the same where nothing waits; the store is copied."""
    title("The same store with an agent that spools a tick every two seconds")
    with agent_with(store) as agent:
        for name, limit, command in (
            ("gua report", REPORT_LIMIT, ("report", "--since", f"{days}d")),
            ("gua prices list", PRICES_LIMIT, ("prices", "list")),
        ):
            alone, waiting = _by_turns(agent, command, times)
            for label, every in ((name, waiting), ("  where nothing waits", alone)):
                cpu = f"{middle([one.cpu_s for one in every]):.2f} s CPU"
                show(label, middle([one.wall_s for one in every]), "s", note=f"{cpu}, {_spread(every)}")
            ratio = middle([one.cpu_s for one in waiting]) / middle([one.cpu_s for one in alone])
            show("  CPU of it", ratio, "", limit)


@contextmanager
def agent_with(store: Path) -> Iterator[Agent]:
    """Yield a running agent that has a copy of a store, and spools a tick every two seconds."""
    with crowded() as driver, new_agent(driver) as agent:
        agent.home.mkdir(0o700)
        shutil.copytree(store, agent.home / "store", symlinks=True)
        agent.start(interval=f"{_INTERVAL_S}s")
        yield agent
        agent.stop()


def typed(agent: Agent, *command: str, output: Path) -> Ran:
    """Run a command as the agent's user types it, once something waits."""
    time.sleep(_INTERVAL_S)
    return ran(GUA, *command, output=output, environ=agent.environment())


def _by_turns(agent: Agent, command: tuple[str, ...], times: int) -> tuple[list[Ran], list[Ran]]:
    """Return what a command took of the store alone, and as the agent's user types it."""
    other = {**agent.environment(), "GUA_HOME": str(agent.folder / "elsewhere")}
    alone, waiting = [], []
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        for _ in range(times + 1):
            waiting.append(typed(agent, *command, output=output))
            alone.append(ran(GUA, *command, "--store", agent.home / "store", output=output, environ=other))
    return alone[1:], waiting[1:]


def _spread(every: list[Ran]) -> str:
    return spread([one.wall_s for one in every])
