"""The local socket, whatever comes over it: real sockets, several users, garbage, many at once and slow ones."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fakes.sockets import bound, connected, listening
from gua.core.errors import DataError, UnavailableError
from gua.local_socket import client, server
from gua.local_socket.client import NoAnswerError, NobodyError, believable, query_status
from gua.local_socket.server import PUBLIC_MODE, Limits, Listen, LocalServer
from gua.state.socket_address import Peer
from servers.process import poll
from servers.user import as_user, other_uid, shared_folder

# Of the tests that are about too long; a busy machine takes as long for what is well.
QUICK = Limits(request_seconds=0.3, answer_seconds=2)
PATIENT = Limits(request_seconds=60, answer_seconds=60)
STATUS = {"schema": "gua.status/1", "running": True}


@dataclass
class Served:
    """A server on a public and a private socket, and its requests."""

    public: Path
    private: Path
    server: LocalServer


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    status: Callable[[], dict[str, Any]] = lambda: STATUS,
    answer: Callable[[socket.socket, Peer], None] | None = None,
    limits: Limits = PATIENT,
) -> Iterator[Served]:
    public, private = folder / "agent.sock", folder / "own.sock"
    listen = [Listen(path=private), Listen(path=public, mode=PUBLIC_MODE)]
    made = LocalServer(listen=listen, status=status, answer=answer, limits=limits)
    made.start()
    try:
        yield Served(public=public, private=private, server=made)
    finally:
        made.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    with shared_folder() as made:
        yield made


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    with serving(folder) as made:
        yield made


def everything(connection: socket.socket) -> bytes:
    """Return what comes until the other end closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


def response_to(path: Path, request: bytes) -> dict[str, Any]:
    """Send bytes and return the one line that comes back."""
    with connected(path) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        line, end, rest = everything(connection).partition(b"\n")
    assert (end, rest) == (b"\n", b"")
    return json.loads(line)


def ask(what: str) -> bytes:
    return json.dumps({"gua": 1, "ask": what}).encode() + b"\n"


def test_status_is_one_line(served: Served) -> None:
    assert response_to(served.public, ask("status")) == STATUS
    assert query_status(served.public) == STATUS


def test_a_request_may_come_in_pieces(served: Served) -> None:
    with connected(served.public) as connection:
        for byte in ask("status"):
            connection.sendall(bytes([byte]))
        assert json.loads(everything(connection)) == STATUS


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b'{"gua":1}\n',
        b'{"gua":2,"ask":"status"}\n',
        b'{"gua":true,"ask":["status"]}\n',
        b'{"gua":1,"ask":{"a":1}}\n',
        b'{"gua":1,"ask":"sql"}\n',
        b"[" * 4000 + b"\n",
        b'{"gua":' + b"9" * 4000 + b"}\n",
        ask("status") + ask("status"),
        b"x" * 4097,
    ],
)
def test_garbage_gets_one_line_and_the_next_user_an_answer(served: Served, garbage: bytes) -> None:
    answer = response_to(served.public, garbage)
    assert set(answer) == {"error", "exit_code", "busy"}
    assert answer["exit_code"] == 3
    assert query_status(served.public) == STATUS


def test_half_a_line_gets_an_error(served: Served) -> None:
    with connected(served.public) as connection:
        connection.sendall(b'{"gua":1,')
        connection.shutdown(socket.SHUT_WR)
        assert "half a line" in json.loads(everything(connection))["error"]


def test_a_line_of_100_mb_is_cut_off_at_once(served: Served) -> None:
    sent = 0
    with connected(served.public) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(1600):
                sent += connection.send(b"x" * 65_536)
        answer = json.loads(everything(connection))
    assert "more than 4096 bytes" in answer["error"]
    assert sent < 4 * 2**20


def test_a_request_that_does_not_come_ends_the_connection(folder: Path) -> None:
    with serving(folder, limits=QUICK) as served, connected(served.public) as connection:
        connection.sendall(b'{"gua":1')
        assert "in time" in json.loads(everything(connection))["error"]


def test_a_client_that_sends_byte_by_byte_is_disconnected_in_time(folder: Path) -> None:
    with serving(folder, limits=QUICK) as served, connected(served.public) as connection:
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - began < 60:
                connection.sendall(b" ")
                time.sleep(0.02)
        assert time.monotonic() - began < 30


def test_a_client_that_vanishes_does_no_harm(served: Served) -> None:
    for _ in range(50):
        with connected(served.public) as connection:
            connection.sendall(ask("status"))

    def answered() -> bool:
        with contextlib.suppress(UnavailableError):
            return query_status(served.public) == STATUS
        return False

    poll(answered, "an answer")


def test_one_that_does_not_read_is_left_behind(folder: Path) -> None:
    large = {**STATUS, "text": "x" * 2_000_000}
    with serving(folder, status=lambda: large, limits=QUICK) as made, connected(made.public) as slow:
        slow.sendall(ask("status"))
        left = select.poll()
        left.register(slow, select.POLLRDHUP)
        assert left.poll(60_000), "longer than an answer may take"
        assert len(query_status(made.public)["text"]) == 2_000_000
        assert len(everything(slow)) < 2_000_000


def test_many_concurrent_clients_are_all_answered(served: Served) -> None:
    answers: list[dict[str, Any]] = []

    def one() -> None:
        answers.append(query_status(served.public, timeout_seconds=120))

    crowd = [threading.Thread(target=one) for _ in range(60)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert answers == [STATUS] * 60


def test_one_user_cannot_hold_every_connection(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(PATIENT.connections_per_uid):
            stack.enter_context(connected(served.public))
        refused = response_to(served.public, ask("status"))
        assert (refused["busy"], refused["exit_code"]) == (True, 3)
    assert query_status(served.public) == STATUS


def test_others_cannot_keep_the_agents_user_out(folder: Path) -> None:
    held = Held()
    full = replace(PATIENT, connections=1, reports=0)
    listen = [Listen(path=folder / "s", mode=PUBLIC_MODE)]
    server = LocalServer(listen=listen, status=lambda: STATUS, answer=held, limits=full)
    server.start()
    try:
        with connected(folder / "s"):
            assert query_status(folder / "s") == STATUS
            with connected(folder / "s") as reporting:
                reporting.sendall(ask("report"))
                assert reporting.recv(100) == b'{"ready":true}\n'
    finally:
        held.let_go.set()
        server.close()


def test_a_status_that_cannot_be_made_is_an_error_for_the_user_alone(folder: Path) -> None:
    def broken() -> dict[str, Any]:
        msg = "secret words"
        raise RuntimeError(msg)

    with serving(folder, status=broken) as made:
        for _ in range(3):
            answer = response_to(made.public, ask("status"))
            assert answer["error"] == "the agent could not answer (RuntimeError)"


def test_without_a_store_reports_are_refused(served: Served) -> None:
    assert "no store" in response_to(served.public, ask("report"))["error"]


class Held:
    """An answer to reports that lasts until the test lets go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.peers: list[Peer] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, connection: socket.socket, peer: Peer) -> None:
        self.peers.append(peer)
        connection.sendall(b'{"ready":true}\n')
        while not self.let_go.wait(0.01):
            connection.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1):
                    break
        self.ended.release()


def test_a_user_has_two_reports_at_a_time_and_then_waits(folder: Path) -> None:
    held = Held()
    with serving(folder, answer=held) as made, contextlib.ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(connected(made.public))
            connection.sendall(ask("report"))
            assert connection.recv(100) == b'{"ready":true}\n'
        third = response_to(made.public, ask("report"))
        assert (third["busy"], "other reports" in third["error"]) == (True, True)
        assert query_status(made.public) == STATUS
        stack.close()
        assert held.ended.acquire(timeout=60)
        assert held.ended.acquire(timeout=60)
        with connected(made.public) as connection:
            connection.sendall(ask("report"))
            assert connection.recv(100) == b'{"ready":true}\n'


def test_closing_cuts_reports_and_removes_the_sockets(folder: Path) -> None:
    held = Held()
    with serving(folder, answer=held) as made, connected(made.public) as connection:
        connection.sendall(ask("report"))
        assert connection.recv(100) == b'{"ready":true}\n'
        made.server.close()
        assert everything(connection) == b""
        assert held.ended.acquire(timeout=60)
        assert list(folder.iterdir()) == []
        with pytest.raises(NobodyError):
            query_status(made.public)


def test_another_user_is_answered_on_the_public_socket_alone(served: Served) -> None:
    uid = other_uid()
    assert as_user(uid, lambda: response_to(served.public, ask("status"))) == STATUS
    if uid == os.geteuid():
        return
    with pytest.raises(PermissionError):
        as_user(uid, lambda: response_to(served.private, ask("status")))
    served.private.chmod(0o666)  # the file's mode is not all that keeps it private
    assert "private" in as_user(uid, lambda: response_to(served.private, ask("status")))["error"]
    assert query_status(served.private) == STATUS


def test_another_user_believes_root(served: Served) -> None:
    assert as_user(other_uid(), lambda: query_status(served.public)) == STATUS


def test_an_unauthorized_user_is_refused_with_the_reason(served: Served) -> None:
    if other_uid() == os.geteuid():
        served.private.chmod(0)
    with pytest.raises(UnavailableError, match="its own user and root"):
        as_user(other_uid(), lambda: query_status(served.private))


def test_a_report_request_has_the_uid_of_its_client(folder: Path) -> None:
    held = Held()

    def one() -> bytes:
        with connected(folder / "agent.sock") as connection:
            connection.sendall(ask("report"))
            return connection.recv(100)

    with serving(folder, answer=held):
        assert as_user(other_uid(), one) == b'{"ready":true}\n'
    assert held.peers[0].uid == other_uid()


@pytest.mark.parametrize(("listen_mode", "name"), [(0o600, "own.sock"), (0o666, "agent.sock")])
def test_a_socket_has_its_mode_whatever_the_umask(folder: Path, listen_mode: int, name: str) -> None:
    before = os.umask(0)
    try:
        with serving(folder):
            found = (folder / name).lstat().st_mode
    finally:
        os.umask(before)
    assert (stat.S_ISSOCK(found), stat.S_IMODE(found)) == (True, listen_mode)


def test_no_client_can_connect_before_the_mode_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    chmod = Path.chmod

    def spy(path: Path, mode: int) -> None:
        seen.append(stat.S_IMODE(path.stat().st_mode))
        chmod(path, mode)

    before = os.umask(0)
    monkeypatch.setattr(Path, "chmod", spy)
    try:
        with serving(folder):
            pass
    finally:
        os.umask(before)
    assert seen == [0o600, 0o600]


def test_a_link_that_takes_the_sockets_place_does_not_open_what_it_leads_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = folder / "of the agent's user"
    private.touch(0o600)
    bind = socket.socket.bind

    def bind_and_lose(listener: socket.socket, address: str) -> None:
        bind(listener, address)
        if address.endswith("agent.sock"):
            Path(address).unlink()
            Path(address).symlink_to(private)

    monkeypatch.setattr(socket.socket, "bind", bind_and_lose)
    with pytest.raises(UnavailableError, match=r"cannot listen|in a folder that only you"), serving(folder):
        pass
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def left_over(path: Path) -> None:
    """Leave a socket behind as an agent does that is killed."""
    with bound(path):
        pass


def test_a_socket_of_a_killed_agent_is_replaced(folder: Path) -> None:
    left_over(folder / "agent.sock")
    with pytest.raises(NobodyError):
        query_status(folder / "agent.sock")
    with serving(folder) as made:
        assert query_status(made.public) == STATUS


def test_a_socket_on_which_an_agent_answers_is_not_replaced(served: Served, folder: Path) -> None:
    with pytest.raises(UnavailableError, match="another agent answers"), serving(folder):
        pass
    assert query_status(served.public) == STATUS


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_is_no_socket_is_left_alone(folder: Path, kind: str) -> None:
    path, target = folder / "agent.sock", folder / "target"
    target.write_text("precious")
    if kind == "file":
        path.write_text("precious")
    elif kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir()
    with pytest.raises(UnavailableError, match="no socket"), serving(folder):
        pass
    assert path.is_symlink() is (kind == "link")
    assert target.read_text() == "precious"
    assert not (folder / "own.sock").exists()  # what was begun is undone


def test_somebody_elses_socket_is_left_alone(folder: Path) -> None:
    if os.geteuid() != 0:
        return
    left_over(folder / "agent.sock")
    os.chown(folder / "agent.sock", other_uid(), other_uid())
    with pytest.raises(UnavailableError, match="another user"), serving(folder):
        pass
    assert (folder / "agent.sock").exists()


def test_a_socket_that_became_another_agents_is_not_removed(folder: Path) -> None:
    with serving(folder) as made:
        made.public.unlink()
        left_over(made.public)
    assert made.public.exists()
    assert not made.private.exists()


def test_a_missing_folder_is_an_error_of_one_line(folder: Path) -> None:
    with pytest.raises(UnavailableError, match="make its folder"), serving(folder / "none"):
        pass


def test_a_path_longer_than_an_address_works(folder: Path) -> None:
    deep = folder / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with serving(deep) as made:
        assert query_status(made.public) == STATUS
    assert list(deep.iterdir()) == []
    with pytest.raises(NobodyError):
        query_status(made.public)


def test_the_agent_goes_on_when_descriptors_run_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([OSError(24, "Too many open files")] * 3)
    peer_credentials = server.peer_credentials

    def fail(connection: socket.socket) -> Peer:
        for error in failures:
            raise error
        return peer_credentials(connection)

    monkeypatch.setattr(server, "peer_credentials", fail)
    for _ in range(3):
        with connected(served.public) as connection:
            assert everything(connection) == b""
    assert response_to(served.public, ask("status")) == STATUS


@contextlib.contextmanager
def impostor(path: Path, behave: Callable[[socket.socket], None]) -> Iterator[None]:
    """Listen at a path and treat one connection as given."""
    with listening(path) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(60)


def test_an_agent_that_does_not_answer_is_distinguished_from_no_agent(folder: Path) -> None:
    finished = threading.Event()
    with impostor(folder / "agent.sock", lambda _: finished.wait(60) and None):
        with pytest.raises(NoAnswerError, match="does not answer in time"):
            query_status(folder / "agent.sock", timeout_seconds=0.2)
        finished.set()


@pytest.mark.parametrize(
    "answer",
    [b"", b"\n", b"[]\n", b"{}\n", b'{"running":"yes"}\n', b"half", b"\xff\n", b"[" * 100_000 + b"\n"],
)
def test_an_answer_that_means_nothing_is_refused(folder: Path, answer: bytes) -> None:
    with (
        impostor(folder / "agent.sock", lambda connection: connection.sendall(answer)),
        pytest.raises((DataError, UnavailableError)),
    ):
        query_status(folder / "agent.sock")


def test_an_answer_without_end_is_cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_STATUS_BYTES", 100_000)

    def flood(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x" * 65_536)

    with impostor(folder / "agent.sock", flood), pytest.raises(DataError, match="more than 100000 bytes"):
        query_status(folder / "agent.sock")


def test_an_error_of_the_agent_is_made_harmless(folder: Path) -> None:
    answer = json.dumps({"error": "\x1b[31mred\u202e" + "x" * 9000, "exit_code": 4}).encode() + b"\n"
    with (
        impostor(folder / "agent.sock", lambda connection: connection.sendall(answer)),
        pytest.raises(DataError) as caught,
    ):
        query_status(folder / "agent.sock")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) <= 500


def test_a_stranger_is_not_believed(folder: Path) -> None:
    if os.geteuid() != 0:
        return
    uid = other_uid()
    os.chown(folder, uid, uid)
    ready = threading.Event()

    def pretend() -> None:
        with impostor(folder / "agent.sock", lambda connection: connection.sendall(b'{"running":true}\n')):
            pass

    stranger = threading.Thread(target=lambda: as_user(uid, pretend))
    stranger.start()
    while not (folder / "agent.sock").exists():
        ready.wait(0.01)
    with pytest.raises(UnavailableError, match="not trusted"):
        connect_until_listening(folder / "agent.sock")
    stranger.join(60)


def connect_until_listening(path: Path) -> dict[str, Any]:
    while True:
        try:
            return query_status(path)
        except NobodyError:
            time.sleep(0.01)


def test_an_agents_uid_is_trusted_only_if_root_gave_it_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service, me, mallory = 61_234, 1000, 1001
    owners = {tmp_path: service}
    modes = {tmp_path: 0o755}

    def found(path: Path, **_: object) -> os.stat_result:
        mode = stat.S_IFDIR | modes.get(path, 0o755)
        return os.stat_result((mode, 1, 1, 1, owners.get(path, 0), 0, 0, 0, 0, 0))

    monkeypatch.setattr(Path, "stat", found)
    monkeypatch.setattr(Path, "resolve", lambda path, **_: path)
    monkeypatch.setattr(os, "geteuid", lambda: me)
    path = tmp_path / "agent.sock"

    def believed(uid: int) -> bool:
        return believable(Peer(pid=1, uid=uid, gid=uid), path)

    assert [believed(uid) for uid in (0, me, service, mallory)] == [True, True, True, False]
    modes[tmp_path] = 0o775  # a group may put a socket there
    assert not believed(service)
    modes[tmp_path] = 0o755
    modes[tmp_path.parent] = 0o1777  # anybody may make such a folder
    assert not believed(service)
    modes[tmp_path.parent] = 0o755
    owners[tmp_path.parent] = mallory
    owners[tmp_path] = mallory
    assert [believed(uid) for uid in (0, me, mallory)] == [True, True, False]
