"""The HTTP server against callers that no scraper is: garbage, floods, slow readers, heads without an end."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from gpu_usage_audit.core.errors import UnavailableError
from gpu_usage_audit.exporter.address import Address
from gpu_usage_audit.exporter.server import Request, Response, Server

PAGE = b"x" * 3_000_000


@pytest.fixture
def server() -> Iterator[Server]:
    def respond(request: Request) -> Response:
        if request.path == "/fault":
            raise ZeroDivisionError
        return Response(status=200, body=PAGE if request.path == "/big" else b"ok\n")

    one = Server(Address(port=0), respond)
    one.start()
    yield one
    one.close()


def say(server: Server, words: bytes, *, seconds: float = 5) -> bytes:
    """Send bytes and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as caller:
        caller.sendall(words)
        answer = b""
        while received := caller.recv(1 << 20):
            answer += received
        return answer


def get(server: Server, path: str = "/small", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_get_is_answered_with_the_page_and_head_without_it(server: Server) -> None:
    assert get(server, "/big") == (200, PAGE)
    assert get(server, "/big?name=x", "HEAD") == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_what_is_no_scrape_is_refused(server: Server, method: str) -> None:
    assert get(server, method=method)[0] == 405


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
    assert time.monotonic() - began < 2
    assert get(server) == (200, b"ok\n")


def test_a_huge_head_is_refused_and_not_kept(server: Server) -> None:
    head = b"GET /small HTTP/1.1\r\nX: " + b"a" * 200_000
    assert say(server, head).startswith(b"HTTP/1.1 431 ")


def test_a_fault_in_an_answer_is_an_answer(server: Server) -> None:
    assert get(server, "/fault") == (500, b"unexpected ZeroDivisionError\n")
    assert get(server) == (200, b"ok\n")


def test_slow_readers_and_silent_callers_keep_nobody_waiting(server: Server) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(150)]
    try:
        for number, caller in enumerate(slow):
            if number % 2:
                caller.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        began = time.monotonic()
        assert get(server) == (200, b"ok\n")
        assert time.monotonic() - began < 1
        assert threading.active_count() < 10
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
        one.join(60)
    assert got == [(200, len(PAGE))] * 200


def test_more_connections_than_there_is_room_for_push_out_the_oldest(server: Server) -> None:
    many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(450)]
    try:
        assert get(server) == (200, b"ok\n")
        many[0].settimeout(5)
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
