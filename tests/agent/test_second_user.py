"""The agent of the whole host, and a user who has no rights over it."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.fixture import SimulatedDriver
from driver.scenario import Scenario
from fakes.sockets import connected
from servers.agent import Agent
from servers.second_user import SecondUser, second_user
from servers.user import as_user, shared_folder

GARBAGE = [b"", b"\n", b"\x00\xff" * 5_000, b"GET / HTTP/1.1\r\n\r\n", b'{"gua":1,"ask":"report"', b"[" * 4_000 + b"\n"]


@dataclass
class Host:
    """An agent that serves all users, queried by ``user``."""

    agent: Agent
    user: SecondUser
    socket: Path

    @property
    def is_another(self) -> bool:
        """Whether the user is another one: only root can become one."""
        return self.user.uid != os.geteuid()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with shared_folder() as made:
        yield made


@pytest.fixture(scope="module")
def user(folder: Path) -> SecondUser:
    return second_user(folder, {})


@pytest.fixture
def host(
    simulated_driver: SimulatedDriver,
    lab: Scenario,  # noqa: ARG001 - the world
    folder: Path,
    user: SecondUser,
    tmp_path: Path,
) -> Iterator[Host]:
    place = folder / tmp_path.name
    (place / "run").mkdir(parents=True)
    place.chmod(0o755)
    (place / "run").chmod(0o755)
    agent = Agent(simulated_driver, place)
    path = place / "run" / "agent.sock"
    agent.start("--socket", str(path))
    environ = {**user.environ, "GUA_SOCKET": str(path), "GUA_HOST_LOCK": agent.lock}
    yield Host(agent, SecondUser(uid=user.uid, python=user.python, environ=environ), path)
    agent.stop()
    log = agent.tail()
    assert "Traceback" not in log
    assert "unexpected" not in log


def test_status_shows_the_cards_and_who_holds_them(host: Host) -> None:
    host.agent.wait_for_ticks(2)
    shown = host.user.run("status", "--width", "100")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"0 +H100 80GB HBM3 +active ", shown.stdout)
    assert " idle-held " in shown.stdout
    status = json.loads(host.user.run("status", "--json").stdout)
    assert host.agent.process is not None
    assert status["agent"]["pid"] == host.agent.process.pid
    assert [card["state"] for card in status["cards"]] == ["active", "idle-held", "truly-idle"]
    assert status["cards"][1]["holders"][0]["pid"] == os.getpid()


@pytest.mark.engine
def test_two_concurrent_reports_both_show_what_the_agent_observed(host: Host) -> None:
    host.agent.wait_for_ticks(3)
    commands = (["report", "--json"], ["report", "--width", "100"])
    both = [host.user.start(*command) for command in commands]
    printed = [each.communicate(timeout=120) for each in both]
    # A report that waits for the store for a minute is refused, as on a busy machine.
    late = [place for place, (_, errors) in enumerate(printed) if "still: try later" in errors]
    assert len(late) < 2
    for place in late:
        both[place] = host.user.start(*commands[place])
        printed[place] = both[place].communicate(timeout=120)
    assert [(each.returncode, errors) for each, (_, errors) in zip(both, printed, strict=True)] == [(0, ""), (0, "")]
    (report, _), (text, _) = printed
    figures = json.loads(report)["headline"]
    assert figures["card_ticks"] >= 9
    assert figures["states"]["idle-held"]["card_ticks"] == figures["states"]["active"]["card_ticks"] >= 3
    assert text.startswith("GPU usage of ")
    assert re.search(r"idle-held +<?0\.0", text)
    assert list(Path(host.user.environ["HOME"]).iterdir()) == []  # a query leaves nothing behind


def test_garbage_gets_nothing_and_changes_nothing(host: Host) -> None:
    def send() -> list[bytes]:
        answers = []
        for garbage in GARBAGE * 3:
            with connected(host.socket) as connection:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                answers.append(connection.recv(65_536))
        return answers

    before = len(host.agent.ticks())
    for answer in as_user(host.user.uid, send):
        assert not answer or set(json.loads(answer)) == {"error", "exit_code", "busy"}
    host.agent.wait_for_ticks(before + 2)
    assert host.user.run("status").returncode == 0


@pytest.mark.engine
def test_another_user_cannot_read_the_agents_files_or_query_its_private_socket(host: Host) -> None:
    host.agent.wait_for_ticks(2)
    host.agent.must("report", "--section", "headline")  # makes the store
    home = host.agent.home
    paths = [home, *home.rglob("*")]
    assert {path.name for path in paths} >= {"spool.db", "agent.pid", "agent.sock", "store"}
    assert [path for path in paths if path.lstat().st_mode & 0o077 and path.parent in {home.parent, home}] == []
    # Below a folder of mode 0700 other modes grant nothing.
    assert stat.S_IMODE((home / "store").stat().st_mode) == 0o700
    if not host.is_another:
        return

    def tried() -> list[str]:
        found = []
        for path in paths:
            try:
                os.close(os.open(path, os.O_RDONLY))
            except OSError as error:
                found.append(errno.errorcode[error.errno or 0])
            else:
                found.append(f"read {path}")
        try:
            with connected(home / "agent.sock"):
                found.append("connected")
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0])
        return found

    # The folder itself, and so everything in it.
    assert set(as_user(host.user.uid, tried)) == {"EACCES"}
    refused = host.user.run("status", GUA_SOCKET=str(home / "agent.sock"))
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr.startswith(f"gua: may not query the agent at {home / 'agent.sock'}: ")


def test_another_user_cannot_stop_the_agent_and_sees_who_owns_it(host: Host) -> None:
    assert host.agent.process is not None
    pid = host.agent.process.pid
    done = host.user.run("stop")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert f"another one (pid {pid}, user " in done.stderr
    if host.is_another:
        for option, value in (("--state-dir", host.agent.home), ("--pid-file", host.agent.home / "agent.pid")):
            done = host.user.run("stop", option, value)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
            assert "it belongs to another user" in done.stderr
        with pytest.raises(PermissionError):
            as_user(host.user.uid, lambda: os.kill(pid, signal.SIGTERM))
    # Nor start another one, which would count every hour twice.
    done = host.user.run("daemon", "--endpoint", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert f"another agent (pid {pid}, user " in done.stderr
    host.agent.wait_for_ticks(len(host.agent.ticks()) + 1)


@pytest.mark.engine
def test_a_home_of_another_user_or_none_does_not_hide_the_hosts_agent(host: Host) -> None:
    """``sudo -E`` and ``su -m`` keep HOME; a user id without an entry has none."""
    strangers = host.agent.home.parent / "strangers"
    strangers.mkdir(mode=0o700)
    (strangers / ".gua").mkdir(mode=0o700)
    environ = {name: value for name, value in host.user.environ.items() if name not in {"HOME", "GUA_SOCKET"}}
    for home in ({"HOME": str(strangers)}, {}):
        client = SecondUser(uid=host.user.uid, python=host.user.python, environ={**environ, **home})
        for command in ("status", "report"):
            done = client.run(command, "--socket", host.socket)
            assert (done.returncode, done.stderr) == (0, "")
