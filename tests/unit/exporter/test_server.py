"""The HTTP server against callers that no scraper is: garbage, floods, slow readers, heads without an end."""

from __future__ import annotations

import http.client
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gua.core.errors import UnavailableError
from gua.exporter.address import Address
from gua.exporter.response_bodies import LITTLE_BYTES, NEWEST, ResponseBodies
from gua.exporter.server import Request, Respond, Response, Server
from servers.process import poll

PAGE = b"x" * 3_000_000


@pytest.fixture
def server() -> Iterator[Server]:
    def respond(request: Request) -> Response:
        if request.path == "/fault":
            raise ZeroDivisionError
        return Response(status=200, body=PAGE if request.path == "/big" else b"ok\n")

    with running(respond) as one:
        yield one


@contextmanager
def running(respond: Respond) -> Iterator[Server]:
    one = Server(Address(port=0), respond)
    one.start()
    try:
        yield one
    finally:
        one.close()


def say(server: Server, words: bytes, *, seconds: float = 60) -> bytes:
    """Send bytes and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as caller:
        caller.sendall(words)
        answer = b""
        while received := caller.recv(1 << 20):
            answer += received
        return answer


@contextmanager
def not_reading(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Yield callers who have asked for something big one after the other, and read nothing of it."""
    callers: list[socket.socket] = []
    try:
        for _ in range(count):
            caller = socket.socket()
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            callers.append(caller)
            caller.connect(("127.0.0.1", server.port))
            caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        yield callers
    finally:
        for caller in callers:
            caller.close()


def rest_of(caller: socket.socket) -> int:
    """Return how many bytes a caller still gets until the other end is done."""
    caller.settimeout(60)
    got = 0
    while received := caller.recv(1 << 20):
        got += len(received)
    return got


def get(server: Server, path: str = "/small", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=180)
    connection.request(method, path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_get_is_answered_with_the_page_and_head_without_it(server: Server) -> None:
    assert get(server, "/big") == (200, PAGE)
    assert get(server, "/big?name=x", "HEAD") == (200, b"")


@pytest.mark.parametrize(
    ("bound", "to", "arrived_at"),
    [("127.0.0.1", "127.0.0.2", None), ("0.0.0.0", "127.0.0.2", "127.0.0.2"), ("::", "::1", "::1")],  # noqa: S104 - tested
)
def test_a_request_tells_where_it_arrived_and_by_what_name(bound: str, to: str, arrived_at: str | None) -> None:
    asked: list[Request] = []

    def respond(request: Request) -> Response:
        asked.append(request)
        return Response(status=200, body=b"ok\n")

    server = Server(Address(host=bound, port=0), respond)
    server.start()
    try:
        with socket.create_connection((to, server.port), timeout=5) as caller:
            caller.sendall(b"GET / HTTP/1.1\r\nHOST:  Evil.Example:80 \r\n\r\n")
            assert caller.recv(16).split()[1] == b"200"
        assert [(one.host, one.arrived_at) for one in asked] == [("Evil.Example:80", arrived_at)]
    except ConnectionRefusedError:
        assert arrived_at is None
    finally:
        server.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_what_is_no_scrape_is_refused_with_what_may_be_asked(server: Server, method: str) -> None:
    answer = say(server, f"{method} / HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"GET\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"get / http/1.1\r\n\r\n",
        b"A" * 30,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_garbage_is_told_at_once_that_it_is_none(server: Server, garbage: bytes) -> None:
    began = time.monotonic()
    assert say(server, garbage).startswith(b"HTTP/1.1 400 ")
    assert time.monotonic() - began < 5
    assert get(server) == (200, b"ok\n")


def test_a_huge_head_is_refused_and_not_kept(server: Server) -> None:
    head = b"GET /small HTTP/1.1\r\nX: " + b"a" * 200_000
    assert say(server, head).startswith(b"HTTP/1.1 431 ")


def test_a_fault_in_an_answer_is_an_answer(server: Server) -> None:
    assert get(server, "/fault") == (500, b"unexpected ZeroDivisionError\n")
    assert get(server) == (200, b"ok\n")


@pytest.mark.parametrize(("path", "status"), [("/big", 200), ("/fault", 500), ("/" + "a" * 9000, 431)])
def test_no_answer_to_head_has_a_body(server: Server, path: str, status: int) -> None:
    answer = say(server, f"HEAD {path} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer


class Ticking:
    """Answers each caller with another page, as if there were a tick before each; keeps all of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pages: list[bytes] = []

    def respond(self, _: Request) -> Response:
        self.pages.append(bytes([len(self.pages) % 256]) * self.size)
        return Response(status=200, body=self.pages[-1])

    def held(self) -> int:
        """Return how many pages somebody else holds, too."""
        alone = [bytes(self.size)]
        return sum(sys.getrefcount(self.pages[at]) > sys.getrefcount(alone[0]) for at in range(len(self.pages)))


def test_who_does_not_read_cannot_make_us_keep_a_page_of_each_tick() -> None:
    ticking = Ticking(4 * 2**20)
    with running(ticking.respond) as server, not_reading(server, 40) as callers:
        poll(lambda: len(ticking.pages) == 40, "an answer to each")
        poll(lambda: ticking.held() <= NEWEST, "the oldest pages to be given up", seconds=15)
        with pytest.raises(ConnectionResetError):  # else the kernel would keep what is left for him
            rest_of(callers[0])
        assert get(server)[0] == 200


def test_the_kernel_takes_little_of_a_page_that_nobody_reads() -> None:
    ticking = Ticking(800_000)
    with running(ticking.respond) as server, not_reading(server, 1) as callers:
        poll(lambda: ticking.pages, "an answer")
        time.sleep(0.5)
        assert ticking.held() == 1
        assert rest_of(callers[0]) > ticking.size


@pytest.mark.parametrize("is_half_closed", [True, False])
def test_an_answer_that_is_on_its_way_reaches_who_reads_it_later(*, is_half_closed: bool) -> None:
    ticking = Ticking(100_000)
    with running(ticking.respond) as server, not_reading(server, 1) as callers:
        if is_half_closed:
            callers[0].shutdown(socket.SHUT_WR)
        poll(lambda: ticking.pages and not ticking.held(), "all of it to be sent")
        time.sleep(2)
        assert rest_of(callers[0]) > ticking.size


@pytest.mark.parametrize(
    ("size", "count", "dropped"),
    [(4 * 2**20, NEWEST, 0), (4 * 2**20, NEWEST + 1, 1), (2**20, 8, 0), (2**20, 9, 1), (LITTLE_BYTES, 1000, 0)],
)
def test_the_slow_keep_the_newest_pages_and_all_while_that_is_little(size: int, count: int, dropped: int) -> None:
    unread = ResponseBodies[str]()
    pages = [bytes(size) for _ in range(count)]
    for number, page in enumerate(pages):
        unread.begun(f"{number}a", page)
        unread.begun(f"{number}b", page)
    assert sorted(unread.too_old()) == [f"{number}{who}" for number in range(dropped) for who in "ab"]
    unread.ended("0a")
    unread.ended("0b")
    unread.ended("nobody")
    assert unread.too_old() == []


def test_slow_readers_and_silent_callers_keep_nobody_waiting(server: Server) -> None:
    threads_before = threading.active_count()
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(150)]
    try:
        for number, caller in enumerate(slow):
            if number % 2:
                caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        began = time.monotonic()
        assert get(server) == (200, b"ok\n")
        assert time.monotonic() - began < 5
        assert threading.active_count() - threads_before < 10
    finally:
        for caller in slow:
            caller.close()


def test_two_hundred_at_once_all_get_the_page(server: Server) -> None:
    got: list[tuple[int, int]] = []

    def scrape() -> None:
        status, body = get(server, "/big")
        got.append((status, len(body)))

    scrapers = [threading.Thread(target=scrape) for _ in range(200)]
    for one in scrapers:
        one.start()
    for one in scrapers:
        one.join(180)
    assert got == [(200, len(PAGE))] * 200


def test_more_connections_than_there_is_room_for_push_out_the_oldest(server: Server) -> None:
    many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(450)]
    try:
        assert get(server) == (200, b"ok\n")
        many[0].settimeout(60)
        assert many[0].recv(1) == b""
    finally:
        for caller in many:
            caller.close()


def test_who_asks_and_hangs_up_does_no_harm(server: Server) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
    assert get(server) == (200, b"ok\n")


def test_a_port_that_is_in_use_is_named_with_what_to_do(server: Server) -> None:
    with pytest.raises(UnavailableError, match=rf"127.0.0.1:{server.port} .*in use.*--prometheus HOST:PORT"):
        Server(Address(port=server.port), lambda _: Response(status=200, body=b""))


def test_a_host_that_is_not_ours_is_named(server: Server) -> None:
    del server
    with pytest.raises(UnavailableError, match=r"cannot serve Prometheus at 192\.0\.2\.1:9835"):
        Server(Address(host="192.0.2.1"), lambda _: Response(status=200, body=b""))
