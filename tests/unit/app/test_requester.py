"""Who requests cards: users by their uid in the kernel, containers by their cgroup."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.sockets import connected, listening
from gua.app.requester import Requester, Requesters
from gua.core.allocation import Allocation, belongs
from gua.core.errors import TransientError
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType
from gua.procfs.reader import ProcFs
from gua.reservations.model import Kind, Reservation
from gua.state.socket_address import Peer, peer_credentials

CONTAINER = "4f0e" * 16
OTHER = "77aa" * 16
IN = f"0::/system.slice/docker-{CONTAINER}.scope\n"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair(socket.AF_UNIX)
    yield here, there
    here.close()
    there.close()


def saved(tmp_path: Path, pid: int, cgroup: str, own: str = "0::/init.scope\n") -> ProcFs:
    """Return a saved /proc with this process in a cgroup, and the test, as the agent, in another."""
    texts = {pid: cgroup, os.getpid(): own} if pid != os.getpid() else {pid: cgroup}
    for each, text in texts.items():
        folder = tmp_path / str(each)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(Path("/proc/self/stat").read_text())
        (folder / "status").write_text("Name:\tpython\nUid:\t0\t0\t0\t0\n")
        (folder / "cgroup").write_text(text)
    return ProcFs(tmp_path)


def who(connection: socket.socket, procfs: ProcFs, pid: int, uid: int) -> Requester:
    return Requesters(procfs, lambda uid: f"user{uid}").identify(connection, Peer(pid=pid, uid=uid, gid=uid))


@pytest.fixture
def child(tmp_path: Path) -> Iterator[tuple[int, socket.socket]]:
    """Return a process that connected, and the agent's end of its connection."""
    with listening(tmp_path / "socket") as listener:
        pid = os.fork()
        if pid == 0:
            with connected(tmp_path / "socket") as caller:
                caller.recv(1)
            os._exit(0)
        connection, _ = listener.accept()
    assert peer_credentials(connection).pid == pid
    yield pid, connection
    connection.close()
    os.waitpid(pid, 0)


def test_root_of_a_container_is_the_container_and_no_administrator(
    child: tuple[int, socket.socket], tmp_path: Path
) -> None:
    pid, connection = child
    asker = who(connection, saved(tmp_path, pid, IN), pid, 0)
    assert (asker.owner, asker.container, asker.is_admin) == (f"container:{CONTAINER[:12]}", CONTAINER, False)


def test_a_user_of_the_host_in_a_container_is_that_user(child: tuple[int, socket.socket], tmp_path: Path) -> None:
    """As with docker run --user, or where user ids are mapped, as rootless Podman does: the kernel names the host's."""
    pid, connection = child
    asker = who(connection, saved(tmp_path, pid, IN), pid, 1000)
    assert (asker.owner, asker.container, asker.is_admin) == ("user1000", None, False)


def test_root_of_the_host_may_end_others_reservations(child: tuple[int, socket.socket], tmp_path: Path) -> None:
    pid, connection = child
    asker = who(connection, saved(tmp_path, pid, "0::/user.slice/session-1.scope\n"), pid, 0)
    assert (asker.owner, asker.container, asker.is_admin) == ("user0", None, True)


def test_a_container_that_is_the_shared_host_itself_has_users_like_any_host(
    child: tuple[int, socket.socket], tmp_path: Path
) -> None:
    pid, connection = child
    asker = who(connection, saved(tmp_path, pid, IN, own=IN), pid, 0)
    assert (asker.owner, asker.container, asker.is_admin) == ("user0", None, True)


def test_of_a_process_that_cannot_be_seen_nothing_is_believed_but_the_user_id(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    asker = who(pair[0], saved(tmp_path, os.getpid(), "0::/\n"), 0, 0)
    assert (asker.owner, asker.start_ticks, asker.is_admin) == ("user0", None, False)


def test_a_requester_that_has_ended_gets_a_transient_error(child: tuple[int, socket.socket], tmp_path: Path) -> None:
    """Its pid may be another's by now, who may be in no container."""
    pid, connection = child
    procfs = saved(tmp_path, pid, IN)
    connection.send(b"x")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(TransientError, match="has ended"):
        who(connection, procfs, pid, 0)


def test_a_container_has_its_own_reservations_and_no_other_s(child: tuple[int, socket.socket], tmp_path: Path) -> None:
    pid, connection = child
    asker = who(connection, saved(tmp_path, pid, IN), pid, 0)

    def of(container: str | None) -> Reservation:
        return Reservation(
            id="a", uid=0, owner="x", kind=Kind.RUN, cards=("a",), requested_ms=0, since_ms=0, container=container
        )

    assert [asker.has(of(container)) for container in (CONTAINER, OTHER, None)] == [True, False, False]


def test_processes_belong_to_the_reservation_of_their_container() -> None:
    allocation = Allocation(
        source="gua", id="a", cards=frozenset(), since_ms=0, uid=0, owner="container:4f0e", container_id=CONTAINER
    )

    def process(uid: int | None, container: str | None) -> ProcessReading:
        return ProcessReading(pid=1, type=ProcessType.COMPUTE, uid=uid, container_id=container)

    assert belongs(process(0, CONTAINER), allocation) is True
    assert belongs(process(1000, CONTAINER), allocation) is True  # a user within it
    assert belongs(process(0, None), allocation) is False  # root of the host
    assert belongs(process(0, OTHER), allocation) is False
    assert belongs(process(None, None), allocation) is None
