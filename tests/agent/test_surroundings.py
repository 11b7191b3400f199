"""Agents that are started in places, and in ways, that are not made for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from servers.agent import GUA, Agent
from servers.process import poll

COMMAND = Path(sys.executable).with_name("gua")


def start(agent: Agent, *command: str | Path, cwd: Path | None = None) -> None:
    with agent.log.open("ab") as log:
        agent.process = subprocess.Popen(
            [*map(str, command), "daemon", "--foreground", "--interval", "1s"],
            env=agent.environment(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    poll(agent.answers, "the agent to answer")


def test_no_code_is_taken_from_the_directory_in_which_it_is_started(agent: Agent, tmp_path: Path) -> None:
    planted = tmp_path / "somebody's"
    planted.mkdir()
    for name in ("ctypes", "json", "socket", "gua"):
        (planted / f"{name}.py").write_text("raise SystemExit('code of another user')\n")
    start(agent, COMMAND, cwd=planted)
    assert agent.process is not None
    assert "another user" not in agent.tail()
    agent.stop()


def test_under_nohup_it_outlives_the_terminal(agent: Agent) -> None:
    start(agent, "nohup", *GUA)
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    agent.wait_for_ticks(len(agent.ticks()) + 2)
    agent.stop()


def test_otherwise_a_terminal_that_closes_ends_it_well(agent: Agent) -> None:
    start(agent, *GUA)
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    assert agent.process.wait(timeout=60) == 0
    agent.process = None


def test_a_home_with_any_name_works(agent: Agent, tmp_path: Path) -> None:
    home = tmp_path / "a lab's \n #%41 \N{LATIN SMALL LETTER U WITH DIAERESIS} \N{RIGHT-TO-LEFT OVERRIDE}" / ("x" * 120)
    agent.environ = {"GUA_HOME": os.path.relpath(home)}
    started = agent.must("daemon", "--interval", "1s")
    try:
        assert started.startswith("gua agent started: pid ")
        assert agent.status()["running"] is True
        assert agent.must("report").startswith("GPU usage of ")
    finally:
        assert agent.run("stop").returncode == 0
    assert (home / "spool.db").exists()
