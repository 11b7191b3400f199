"""What is left of a command's process group when its time is over, and who is not of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.process import poll

BEGIN = """
import os, sys
from gua.app.reserving import watch
watch(float(sys.argv[1]), term_after=float(sys.argv[2]), kill_after=float(sys.argv[3]))
os.execvp("timeout", ["timeout", "--signal=INT", "--kill-after=30s", sys.argv[1], "sh", "-c", sys.argv[4]])
"""


@pytest.fixture
def begun() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.kill()
        one.communicate()


def begin(
    begun: list[subprocess.Popen[bytes]], script: str, *, limit: float = 1.0, term: float = 1.0, kill: float = 2.0
) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-c", BEGIN, str(limit), str(term), str(kill), script]
    begun.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL))
    return begun[-1]


def members(group: int) -> dict[int, str]:
    """Return the living members of a process group by pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (folder / "stat").read_text()
            state, _, its_group = stat[stat.rfind(")") + 2 :].split()[:3]
            if folder.name.isdecimal() and int(its_group) == group and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


def test_what_ignores_sigint_and_outlives_the_command_is_ended_by_sigterm(
    begun: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    # A job in the background of a shell ignores SIGINT, and says when it gets SIGTERM.
    job = f"(trap 'echo asked > {tmp_path}/term; exit' TERM; while :; do sleep 0.05; done) & wait"
    command = begin(begun, job, kill=30)
    assert command.wait(timeout=20) == 124
    poll(lambda: not members(command.pid), "the group to be gone", seconds=20)
    assert (tmp_path / "term").read_text() == "asked\n"


def test_a_command_that_ignores_both_signals_is_killed(begun: list[subprocess.Popen[bytes]]) -> None:
    command = begin(begun, "trap '' INT TERM; (while :; do sleep 0.05; done) & while :; do sleep 0.05; done")
    poll(lambda: len(members(command.pid)) > 3, "the command to run")
    assert command.wait(timeout=30) in {-signal.SIGKILL, 137}
    poll(lambda: not members(command.pid), "the group to be gone", seconds=20)


def test_what_a_command_left_in_its_group_is_ended_when_the_time_is_over(
    begun: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    left = f"sh -c 'trap \"echo asked > {tmp_path}/int; exit\" INT; while :; do sleep 0.05; done' & exit 3"
    # A shell without job control has its background jobs ignore SIGINT: python undoes that.
    undo = "import os, signal, sys; signal.signal(2, 0); os.execvp(sys.argv[1], sys.argv[1:])"
    reset = f"{sys.executable} -c '{undo}' sh -c "
    script = left.replace("sh -c ", reset, 1)
    command = begin(begun, script, limit=3, term=30, kill=40)
    assert command.wait(timeout=20) == 3
    assert members(command.pid)
    poll(lambda: not members(command.pid), "what was left to be gone", seconds=20)
    assert (tmp_path / "int").read_text() == "asked\n"


def test_nothing_remains_once_the_command_has_ended_and_its_output_closes_with_it(
    begun: list[subprocess.Popen[bytes]],
) -> None:
    command = begin(begun, "echo out; sleep 0.3; exit 7", limit=600)
    # Whoever reads its output sees the end of it with the command: nothing else holds that open.
    out, _ = command.communicate(timeout=20)
    assert (command.returncode, out) == (7, b"out\n")
    poll(lambda: not members(command.pid), "the watching process to end")


def test_strangers_of_the_callers_group_are_not_meant(begun: list[subprocess.Popen[bytes]]) -> None:
    stranger = subprocess.Popen(["sleep", "60"])  # of the same group as who starts the command
    begun.append(stranger)
    apart = "setsid sleep 60 & echo $! ; exit 0"
    command = begin(begun, f"trap '' INT; {apart.removesuffix('; exit 0')}; while :; do sleep 0.05; done")
    assert command.wait(timeout=20) in {124, -signal.SIGKILL, 137}
    poll(lambda: not members(command.pid), "the group to be gone", seconds=20)
    assert stranger.poll() is None
    assert os.getpgrp() != command.pid
    assert command.stdout is not None
    left = int(command.stdout.readline())
    os.kill(left, 0)  # what left the group goes on
    os.kill(left, signal.SIGKILL)
