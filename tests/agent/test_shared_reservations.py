"""Cards reserved by several users of one host, and by what they start: who may do what, and what keeps a card."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Process, Scenario
from servers.agent import GUA, Agent
from servers.fixture import uuid
from servers.process import poll
from servers.second_user import SecondUser, second_user
from servers.user import shared_folder

FREE = [Card(uuid(number), memory_reserved=500 * MIB) for number in (1, 2)]
# Leaves a grandchild with a session of its own that nobody waits for, as daemons do.
DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (0, 1, 2): os.dup2(os.open(os.devnull, os.O_RDWR), number)
time.sleep(float(sys.argv[1]))
"""
# A launcher of workers, as of distributed training: they have sessions of their own, and none of its descriptors.
LAUNCHER = """
import subprocess, sys
worker = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(worker.pid, flush=True)
sys.exit(worker.wait())
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with shared_folder() as made:
        yield made


@pytest.fixture(scope="module")
def user(folder: Path) -> SecondUser:
    return second_user(folder, {})


@pytest.fixture
def host(simulated_driver: SimulatedDriver, folder: Path, tmp_path: Path) -> Iterator[Agent]:
    """Return an agent that answers all users, of a host with two free cards."""
    simulated_driver.write(Scenario(FREE))
    place = folder / tmp_path.name
    (place / "run").mkdir(parents=True)
    place.chmod(0o755)
    (place / "run").chmod(0o755)
    agent = Agent(simulated_driver, place)
    agent.start("--socket", str(place / "run" / "agent.sock"))
    yield agent
    agent.stop()
    log = agent.tail()
    assert "Traceback" not in log
    assert "unexpected" not in log


@pytest.fixture
def other(host: Agent, user: SecondUser) -> SecondUser:
    """Return the second user, who asks that agent."""
    environ = {**user.environ, "GUA_SOCKET": str(host.folder / "run" / "agent.sock"), "GUA_HOST_LOCK": host.lock}
    return SecondUser(uid=user.uid, python=user.python, environ=environ)


def reserved(host: Agent) -> int:
    return len(host.status()["reservations"])


def is_free_within(host: Agent, seconds: float) -> None:
    poll(lambda: not reserved(host), "the card to be free", seconds=seconds)


def test_nobody_gives_back_what_is_anothers_but_root(host: Agent, other: SecondUser) -> None:
    if other.uid == os.geteuid():
        pytest.skip("only root can become another user")
    mine = host.must("reserve", "--short")
    theirs = other.run("reserve", "--short", USER="root", LOGNAME="root")
    assert (mine, theirs.stdout) == ("0", "1")
    owners = [each["owner"] for each in host.status()["reservations"]]
    assert owners[0] != owners[1]  # who they are comes from the socket, whatever their environment says
    for arguments in (["release", "-G", "0"], ["extend", "-G", "0", "--for", "9h"]):
        refused = other.run(*arguments, USER="root")
        assert refused.returncode == 77
        assert refused.stderr.startswith(
            f"gua: GPU 0 is reserved by {owners[0]}: only they, root and the group gua-admin"
        )
    assert other.run("release").stdout.startswith("released GPU 1")
    assert other.run("reserve", "--short").stdout == "1"
    assert host.must("release", "-G", "1").startswith("released GPU 1")
    assert reserved(host) == 1


def test_the_command_of_another_user_keeps_its_card_and_only_as_long(host: Agent, other: SecondUser) -> None:
    job = other.start("run", "-g", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 60")
    assert job.stdout is not None
    assert job.stdout.readline() == "0,1\n"
    assert host.run("reserve", "--nonblock").returncode == 75
    job.send_signal(signal.SIGTERM)
    job.communicate()
    is_free_within(host, 1)


def start(host: Agent, *command: str, stdout: int | None = None, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*GUA, "run", "--", *command],
        env=host.environment(),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )


def test_a_daemon_that_forks_twice_keeps_its_card_until_it_ends(host: Agent) -> None:
    assert start(host, sys.executable, "-c", DAEMON, "2").wait() == 0
    time.sleep(0.5)
    assert reserved(host) == 1
    is_free_within(host, 3)


def test_workers_without_its_descriptors_keep_the_card_while_they_are_on_it(
    host: Agent, simulated_driver: SimulatedDriver
) -> None:
    launcher = start(host, sys.executable, "-c", LAUNCHER, stdout=subprocess.PIPE)
    assert launcher.stdout is not None
    worker = int(launcher.stdout.readline())
    simulated_driver.write(Scenario([replace(FREE[0], processes=[Process(worker)]), FREE[1]]))
    launcher.kill()
    launcher.wait()
    time.sleep(1)
    assert reserved(host) == 1
    os.kill(worker, signal.SIGKILL)
    simulated_driver.write(Scenario(FREE))
    is_free_within(host, 4)


def test_a_shell_keeps_its_card_from_one_command_to_the_next(host: Agent, tmp_path: Path) -> None:
    shell = start(host, "sh", "-c", "until test -e stop; do sleep 0.2; true; done", cwd=tmp_path)
    poll(lambda: reserved(host), "the card to be reserved")
    time.sleep(1)
    assert reserved(host) == 1
    (tmp_path / "stop").touch()
    assert shell.wait() == 0
    is_free_within(host, 1)


def test_a_command_run_by_sudo_keeps_its_card(host: Agent) -> None:
    """Whether a process of another user lives is asked of a lock, which needs no right over it."""
    change = shutil.which("setpriv")
    if os.geteuid() != 0 or change is None:
        pytest.skip("needs root and setpriv")
    job = start(host, change, "--reuid", "54321", "--clear-groups", "sleep", "60")
    poll(lambda: reserved(host), "the card to be reserved")
    time.sleep(1)
    assert reserved(host) == 1
    job.kill()
    job.wait()
    is_free_within(host, 1)


def test_a_command_that_is_stopped_keeps_its_card(host: Agent) -> None:
    job = start(host, "sleep", "60")
    poll(lambda: reserved(host), "the card to be reserved")
    job.send_signal(signal.SIGSTOP)
    time.sleep(1)
    assert reserved(host) == 1
    job.kill()
    job.wait()
    is_free_within(host, 1)


def test_scripts_that_use_small_descriptors_keep_their_card(host: Agent) -> None:
    script = 'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>/dev/null"; done; sleep 2 & exit 0'
    assert start(host, "sh", "-c", script).wait() == 0
    time.sleep(0.5)
    assert reserved(host) == 1
    is_free_within(host, 3)


def test_garbage_and_held_connections_disturb_nobody(host: Agent, other: SecondUser) -> None:
    import socket  # noqa: PLC0415 - only for this

    held = []
    for request in (
        b'{"gua":1,"ask":"reserve"',
        b'{"gua":1,"ask":"reserve","count":1e99}\n',
        b'{"gua":1,"ask":"extend"}\n',
    ):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(host.folder / "run" / "agent.sock"))
        connection.sendall(request)
        held.append(connection)
    for count in ("true", "[]", "null", "-3", '"2"'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(host.folder / "run" / "agent.sock"))
            connection.sendall(b'{"gua":1,"ask":"reserve","count":%s,"wait_ms":0}\n' % count.encode())
            assert b'"error"' in connection.recv(4096)
    assert other.run("reserve", "--short").stdout == "0"
    for connection in held:
        connection.close()
    assert reserved(host) == 1
