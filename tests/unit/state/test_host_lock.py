from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid

import pytest

from gua.core.errors import UnavailableError, UsageError
from gua.state.host_lock import HostLock
from gua.state.socket_address import Peer, user_name

HOLD = """
import sys
from gua.state.host_lock import HostLock
lock = HostLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name() -> str:
    return f"gua-test-{uuid.uuid4()}"


def no_real_sleep(_seconds: float) -> None:
    """Go on at once."""


def test_one_agent_has_the_host_until_it_releases_it(name: str) -> None:
    first, second = HostLock(name), HostLock(name)
    assert second.holder() is None
    first.acquire()
    assert second.holder() == Peer(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())
    with pytest.raises(UnavailableError):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_the_second_lock_is_refused_with_the_agents_pid_and_user_and_kill_9_frees_it(name: str) -> None:
    agent = subprocess.Popen([sys.executable, "-c", HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"held\n"
    with pytest.raises(UnavailableError) as refused:
        HostLock(name).acquire()
    assert str(refused.value) == (
        f"another agent (pid {agent.pid}, user {user_name(os.getuid())}) samples this host: "
        "leave sampling to it (gua status shows it), or stop it with gua stop"
    )
    agent.kill()
    agent.wait()
    lock = HostLock(name)
    lock.acquire()
    lock.release()


def test_a_command_that_the_agent_started_does_not_hold_the_host(name: str) -> None:
    lock = HostLock(name)
    lock.acquire()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    lock.release()
    again = HostLock(name)
    again.acquire()
    assert child.poll() is None
    again.release()
    child.communicate()


def test_a_thousand_queries_do_not_exhaust_the_answers(name: str) -> None:
    lock = HostLock(name)
    lock.acquire()
    for _ in range(10):
        for _ in range(100):
            assert HostLock(name).holder() is not None
        lock.forget_callers()
    lock.release()
    lock.forget_callers()


def test_a_name_that_was_taken_without_listening_is_refused_all_the_same(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(f"\0{name}")
        with pytest.raises(UnavailableError, match="does not say who it is"):
            HostLock(name).acquire(sleep=no_real_sleep)


def test_a_holder_that_ends_meanwhile_makes_room(name: str) -> None:
    squatter = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    squatter.bind(f"\0{name}")
    lock = HostLock(name)
    lock.acquire(sleep=lambda _seconds: squatter.close())
    lock.release()


def test_tests_have_hosts_of_their_own(name: str) -> None:
    host, other = HostLock.of({"GUA_HOST_LOCK": name}), HostLock.of({"GUA_HOST_LOCK": f"{name}-b"})
    host.acquire()
    other.acquire()
    assert HostLock(name).holder() is not None
    host.release()
    other.release()


@pytest.mark.parametrize("bad", ["x" * 101, "ä" * 51, "a\nb", "\x1b[2J"])
def test_a_name_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="GUA_HOST_LOCK"):
        HostLock.of({"GUA_HOST_LOCK": bad})


def test_a_holder_is_described_even_if_little_is_known_of_it() -> None:
    assert str(Peer(pid=0, uid=54321, gid=0)) == "in another PID namespace, user uid 54321"
    assert str(Peer(pid=7, uid=0, gid=0)) == "pid 7, user root"
    assert user_name(2**40) == f"uid {2**40}"


def test_callers_without_end_hold_up_no_tick(name: str) -> None:
    class Crowded(socket.socket):
        """A listening socket before which the next caller always stands already."""

        accepted = 0

        def accept(self) -> tuple[socket.socket, object]:
            self.accepted += 1
            assert self.accepted < 1_000
            return socket.socketpair()[0], None

    lock = HostLock(name)
    with Crowded() as crowded:
        lock._socket = crowded  # noqa: SLF001 - in the place of the one that acquire() opens
        lock.forget_callers()
    assert 0 < crowded.accepted < 1_000
