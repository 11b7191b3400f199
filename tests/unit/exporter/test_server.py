"""The HTTP server against clients that no scraper is: garbage, floods, slow readers, heads without an end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gua.core.errors import UnavailableError
from gua.exporter import server as limits
from gua.exporter.address import Address
from gua.exporter.server import ARRIVED_AT, PageServer
from servers.process import poll

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PAGE = b"x" * 3_000_000


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    body = PAGE if environ["PATH_INFO"] == "/big" else b"ok\n"
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


@pytest.fixture
def server() -> Iterator[PageServer]:
    with running(app) as one:
        yield one


@contextmanager
def running(served: WSGIApplication, host: str = "127.0.0.1") -> Iterator[PageServer]:
    one = PageServer(Address(host=host, port=0), served)
    one.start()
    try:
        yield one
    finally:
        one.close()


def say(server: PageServer, words: bytes, *, seconds: float = 60) -> bytes:
    """Send bytes and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=seconds) as caller:
        caller.sendall(words)
        answer = b""
        while received := caller.recv(1 << 20):
            answer += received
        return answer


@contextmanager
def not_reading(server: PageServer, count: int) -> Iterator[list[socket.socket]]:
    """Yield clients that have requested something big one after the other, and read nothing of it."""
    callers: list[socket.socket] = []
    try:
        for _ in range(count):
            caller = socket.socket()
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            callers.append(caller)
            caller.connect(("127.0.0.1", server.server_port))
            caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        yield callers
    finally:
        for caller in callers:
            caller.close()


def rest_of(caller: socket.socket) -> int:
    """Return how many bytes a client still gets until the other end is done."""
    caller.settimeout(60)
    got = 0
    while received := caller.recv(1 << 20):
        got += len(received)
    return got


def get(server: PageServer, path: str = "/small", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=180)
    connection.request(method, path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_get_is_answered_with_the_page_and_head_without_it(server: PageServer) -> None:
    assert get(server, "/big") == (200, PAGE)
    assert get(server, "/big?name=x", "HEAD") == (200, b"")
    assert say(server, b"HEAD /big HTTP/1.1\r\n\r\n").endswith(b"Content-Length: 3000000\r\n\r\n")


@pytest.mark.parametrize(
    ("bound", "to", "arrived_at"),
    [
        ("127.0.0.1", "127.0.0.2", None),
        ("0.0.0.0", "127.0.0.2", "127.0.0.2"),  # noqa: S104 - tested
        ("::", "::1", "::1"),
        ("", "127.0.0.1", "::ffff:127.0.0.1"),
        ("localhost", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_request_has_its_arrival_address_and_host_name(bound: str, to: str, arrived_at: str | None) -> None:
    requests: list[dict[str, Any]] = []

    def noting(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        requests.append(environ)
        return app(environ, start_response)

    with running(noting, bound) as server:
        try:
            with socket.create_connection((to, server.server_port), timeout=5) as caller:
                caller.sendall(b"GET / HTTP/1.1\r\nHOST:  Evil.Example:80 \r\n\r\n")
                assert caller.recv(16).split()[1] == b"200"
            assert [(one["HTTP_HOST"], one[ARRIVED_AT]) for one in requests] == [("Evil.Example:80", arrived_at)]
        except ConnectionRefusedError:
            assert arrived_at is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"get / http/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
    ],
)
def test_garbage_is_refused(server: PageServer, garbage: bytes) -> None:
    answer = say(server, garbage)
    assert b"400" in answer or b"505" in answer
    assert get(server) == (200, b"ok\n")


def test_what_is_no_request_is_disconnected_in_time(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_CLIENT_SECONDS", 0.2)
    assert not say(server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64)


def test_a_huge_head_is_refused_and_not_kept(server: PageServer) -> None:
    head = b"GET /small HTTP/1.1\r\nX: " + b"a" * 200_000
    assert b" 431 " in say(server, head).splitlines()[0]
    assert say(server, b"HEAD /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 431 ")


def test_a_head_without_an_end_is_cut_off(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_CLIENT_SECONDS", 1)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\n")

        def is_cut_off() -> bool:
            try:
                caller.sendall(b"a")
            except OSError:
                return True
            return False

        poll(is_cut_off, "the client to be disconnected")
    poll(lambda: not server.clients, "its thread to end")


def test_a_client_that_does_not_read_is_disconnected(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_CLIENT_SECONDS", 1)
    with not_reading(server, 20) as callers:
        poll(lambda: len(server.clients) == 20, "an answer to each")
        poll(lambda: not server.clients, "all to be disconnected", seconds=30)
        with pytest.raises(ConnectionResetError):
            rest_of(callers[0])
    assert get(server) == (200, b"ok\n")


@pytest.mark.parametrize("is_half_closed", [True, False])
def test_a_response_on_its_way_reaches_a_client_that_reads_later(server: PageServer, *, is_half_closed: bool) -> None:
    with not_reading(server, 1) as callers:
        if is_half_closed:
            callers[0].shutdown(socket.SHUT_WR)
        time.sleep(2)
        assert rest_of(callers[0]) > len(PAGE)


def test_slow_and_silent_clients_delay_no_other_client(server: PageServer) -> None:
    threads_before = threading.active_count()
    slow = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(150)]
    try:
        for number, caller in enumerate(slow):
            if number % 2:
                with contextlib.suppress(OSError):  # pushed out already
                    caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        began = time.monotonic()
        assert get(server) == (200, b"ok\n")
        assert time.monotonic() - began < 10
        assert threading.active_count() - threads_before <= 32
        slow[0].settimeout(60)
        assert not slow[0].recv(1)
    finally:
        for caller in slow:
            caller.close()


def test_twenty_at_once_all_get_the_page(server: PageServer) -> None:
    got: list[tuple[int, int]] = []

    def scrape() -> None:
        status, body = get(server, "/big")
        got.append((status, len(body)))

    scrapers = [threading.Thread(target=scrape) for _ in range(20)]
    for one in scrapers:
        one.start()
    for one in scrapers:
        one.join(180)
    assert got == [(200, len(PAGE))] * 20


def test_a_client_that_hangs_up_after_its_request_does_no_harm(server: PageServer) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.server_port)) as caller:
            caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
    assert get(server) == (200, b"ok\n")
    poll(lambda: not server.clients, "their threads to end")


def test_closing_disconnects_everybody() -> None:
    with running(app) as server:
        caller = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)
        poll(lambda: server.clients, "the client to be served")
    with caller:
        assert not caller.recv(1)


def test_a_port_that_is_in_use_is_named_with_what_to_do(server: PageServer) -> None:
    with pytest.raises(UnavailableError, match=rf"127.0.0.1:{server.server_port} .*in use.*--prometheus HOST:PORT"):
        PageServer(Address(port=server.server_port), app)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(UnavailableError, match=rf"cannot serve Prometheus at {host}:9835"):
        PageServer(Address(host=host), app)
