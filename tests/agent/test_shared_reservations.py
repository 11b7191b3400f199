"""Cards reserved by several users of one host, and by what they start: who may do what, and what keeps a card."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import MIB, Card, Process, Scenario
from fakes.sockets import connected
from gua.app.reserving import query_agent, reserve
from servers.agent import GUA, Agent
from servers.fixture import uuid
from servers.process import poll
from servers.second_user import SecondUser, second_user
from servers.user import shared_folder

FREE = [Card(uuid(number), memory_reserved=500 * MIB) for number in (1, 2)]
# Leaves a grandchild with a session of its own without a parent that waits for it, as daemons do.
DAEMON = """
import os, sys, time
stop = os.path.abspath("stop")
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (0, 1, 2): os.dup2(os.open(os.devnull, os.O_RDWR), number)
while not os.path.exists(stop): time.sleep(0.1)
"""
# A launcher of workers, as of distributed training: they have sessions of their own, and none of its descriptors.
LAUNCHER = """
import subprocess, sys
worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
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
    """Return the second user, who queries that agent."""
    environ = {**user.environ, "GUA_SOCKET": str(host.folder / "run" / "agent.sock"), "GUA_HOST_LOCK": host.lock}
    return SecondUser(uid=user.uid, python=user.python, environ=environ)


def reserved(host: Agent) -> int:
    return len(host.reservations())


def is_free(host: Agent) -> None:
    poll(lambda: not reserved(host), "the card to be free")


def test_only_root_can_release_cards_of_another_user(host: Agent, other: SecondUser) -> None:
    if other.uid == os.geteuid():
        pytest.skip("only root can become another user")
    mine = host.must("reserve", "--short")
    theirs = other.run("reserve", "--short", USER="root", LOGNAME="root")
    assert (mine, theirs.stdout) == ("0", "1")
    owners = [each["owner"] for each in host.reservations()]
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
    job = other.start("run", "-g", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600")
    assert job.stdout is not None
    assert job.stdout.readline() == "0,1\n"
    assert host.run("reserve", "--nonblock").returncode == 75
    job.send_signal(signal.SIGTERM)
    job.communicate()
    is_free(host)


def start(host: Agent, *command: str, stdout: int | None = None, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*GUA, "run", "--", *command],
        env=host.environment(),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )


def test_a_daemon_that_forks_twice_keeps_its_card_until_it_ends(host: Agent, tmp_path: Path) -> None:
    assert start(host, sys.executable, "-c", DAEMON, cwd=tmp_path).wait() == 0
    time.sleep(0.5)
    assert reserved(host) == 1
    (tmp_path / "stop").touch()
    is_free(host)


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
    is_free(host)


def test_a_shell_keeps_its_card_from_one_command_to_the_next(host: Agent, tmp_path: Path) -> None:
    shell = start(host, "sh", "-c", "until test -e stop; do sleep 0.2; true; done", cwd=tmp_path)
    poll(lambda: reserved(host), "the card to be reserved")
    time.sleep(1)
    assert reserved(host) == 1
    (tmp_path / "stop").touch()
    assert shell.wait() == 0
    is_free(host)


def test_a_command_run_by_sudo_keeps_its_card(host: Agent) -> None:
    """A lock shows whether a process of another user lives; it needs no right over the process."""
    change = shutil.which("setpriv")
    if os.geteuid() != 0 or change is None:
        pytest.skip("needs root and setpriv")
    job = start(host, change, "--reuid", "54321", "--clear-groups", "sleep", "600")
    poll(lambda: reserved(host), "the card to be reserved")
    time.sleep(1)
    assert reserved(host) == 1
    job.kill()
    job.wait()
    is_free(host)


def test_a_terminal_multiplexer_keeps_the_card_of_what_runs_in_it_and_outlives_it_for_nothing(
    host: Agent, tmp_path: Path
) -> None:
    """Its server inherits the lock, and goes on when its window and the command that started it have ended."""
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    tmux = ["tmux", "-S", "tmux", "-f", os.devnull]  # from the folder: tmux takes 107 bytes
    window = "until test -e stop; do sleep 0.1; done"
    leader = start(host, *tmux, "new-session", "-d", window, ";", "set", "-g", "exit-empty", "off", cwd=tmp_path)
    assert leader.wait() == 0
    try:
        time.sleep(0.5)
        (held,) = host.reservations()  # the leader has ended; the lock lives in the server and its window
        (tmp_path / "stop").touch()

        def windows() -> bytes:
            listed = [*tmux, "list-sessions"]
            return subprocess.run(listed, capture_output=True, check=False, cwd=tmp_path).stdout

        poll(lambda: not windows(), "the window to end")
        time.sleep(0.5)
        # Five minutes more, in test_desk's clock: nothing of its is on the card.
        assert [each["id"] for each in host.reservations()] == [held["id"]]
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True, cwd=tmp_path)
    is_free(host)


def test_a_client_that_is_stopped_between_grant_and_exec_keeps_its_card_until_it_is_killed(host: Agent) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from gua.app.reserving import reserve\n"
        "grant = reserve([Path(sys.argv[1])], {'kind': sys.argv[2], 'count': 1, 'for_ms': 60000}, progress=print)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    )
    client = subprocess.Popen([sys.executable, "-c", code, str(host.home / "agent.sock"), "run"])
    poll(lambda: reserved(host), "the card to be reserved")
    time.sleep(0.5)
    assert reserved(host) == 1
    client.kill()
    client.wait()
    is_free(host)


def test_a_manual_grant_that_the_client_does_not_confirm_is_withdrawn(host: Agent) -> None:
    """The requester is gone, or does not confirm: for a command the lock would show it."""
    for says in (None, b'{"got":false}\n', b"garbage\n"):
        with connected(host.home / "agent.sock") as connection:
            connection.sendall(b'{"gua":1,"ask":"reserve","count":1,"for_ms":60000}\n')
            assert b'"granted"' in connection.recv(4096)
            if says is not None:
                connection.sendall(says)
                assert connection.recv(4096) == b""
        is_free(host)


def test_a_waiting_client_that_disconnects_leaves_the_queue_whatever_it_sent(host: Agent) -> None:
    host.must("reserve", "-g", "2", "--short")
    with connected(host.home / "agent.sock") as connection:
        connection.sendall(b'{"gua":1,"ask":"reserve","count":1}\n')
        assert b'"waiting"' in connection.recv(4096)
        assert len(host.queue()) == 1
        connection.sendall(b"something that nobody asked for\n")
    poll(lambda: not host.queue(), "the queue to be empty")


def test_two_hundred_clients_at_once_are_served_each_once(host: Agent) -> None:
    place = [host.home / "agent.sock"]
    faults: list[str] = []
    on_card: Counter[str] = Counter()
    lock = threading.Lock()

    def reserve_one() -> None:
        try:
            grant = reserve(place, {"kind": "run", "count": 1}, progress=lambda _: None)
            (card,) = grant.reservation["cards"]
            with lock:
                on_card[card] += 1
                if on_card[card] > 1:
                    faults.append(f"{card} was given twice")
            query_agent(place, {"ask": "reservations"})
            with lock:
                on_card[card] -= 1
            query_agent(place, {"ask": "release", "ids": [grant.reservation["id"]]})
            assert grant.lifeline is not None
            os.close(grant.lifeline)
        except Exception as error:  # noqa: BLE001 - any of their errors
            faults.append(repr(error))

    threads = [threading.Thread(target=reserve_one) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    assert (reserved(host), host.queue()) == (0, [])
    assert len(query_agent(place, {"ask": "reservations", "since_ms": 0})["reservations"]) == 200


def test_a_private_agent_of_another_user_is_not_used_for_cards(host: Agent, user: SecondUser) -> None:
    environ = {**user.environ, "GUA_SOCKET": str(host.home / "agent.sock"), "GUA_HOST_LOCK": host.lock}
    private = SecondUser(uid=user.uid, python=user.python, environ=environ)
    done = private.run("run", "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (69, 1) if os.geteuid() == 0 else (0, 1)


def test_a_command_that_is_stopped_keeps_its_card(host: Agent) -> None:
    job = start(host, "sleep", "600")
    poll(lambda: reserved(host), "the card to be reserved")
    job.send_signal(signal.SIGSTOP)
    time.sleep(1)
    assert reserved(host) == 1
    job.kill()
    job.wait()
    is_free(host)


def test_scripts_that_use_small_descriptors_keep_their_card(host: Agent, tmp_path: Path) -> None:
    script = (
        'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>/dev/null"; done; until test -e stop; do sleep 0.1; done & exit 0'
    )
    assert start(host, "sh", "-c", script, cwd=tmp_path).wait() == 0
    time.sleep(0.5)
    assert reserved(host) == 1
    (tmp_path / "stop").touch()
    is_free(host)


def test_invalid_requests_and_idle_connections_do_not_disturb_others(host: Agent, other: SecondUser) -> None:
    held = ExitStack()
    for request in (
        b'{"gua":1,"ask":"reserve"',
        b'{"gua":1,"ask":"reserve","count":1e99}\n',
        b'{"gua":1,"ask":"extend"}\n',
    ):
        held.enter_context(connected(host.folder / "run" / "agent.sock")).sendall(request)
    for count in ("true", "[]", "null", "-3", '"2"'):
        with connected(host.folder / "run" / "agent.sock") as connection:
            connection.sendall(b'{"gua":1,"ask":"reserve","count":%s,"wait_ms":0}\n' % count.encode())
            assert b'"error"' in connection.recv(4096)
    assert other.run("reserve", "--short").stdout == "0"
    held.close()
    assert reserved(host) == 1
