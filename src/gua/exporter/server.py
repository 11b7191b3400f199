"""HTTP for scrapers and probes: one thread, no thread per caller, and nobody can make it wait for him.

Every caller gets the same bytes, of which no copy is made, so that slow readers cost a socket each; those who are
slower than the ticks have to go, lest each keep a page of his own. Only what a scrape needs is understood: GET and
HEAD, and one request a connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import selectors
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gua.core.errors import UnavailableError
from gua.exporter.address import Address
from gua.exporter.response_bodies import ResponseBodies

_MOST_CONNECTIONS: Final = 400
_BACKLOG: Final = 512
_MOST_ACCEPTED_AT_ONCE: Final = 64
_LONGEST_HEAD: Final = 8192
_REQUEST_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_LINGER_SECONDS: Final = 1.0
_SWEEP_SECONDS: Final = 0.5
_SEND_BUFFER_BYTES: Final = 128 * 2**10
"""By itself the kernel takes up to 4 MB of a page for each who does not read it."""
_BUSY_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.02
_REQUEST: Final = re.compile(r"([A-Z]{1,16}) ([^ ]+) HTTP/1\.[01]")
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What was asked: the path without its query, the headers that answers depend on, the address it arrived at."""

    path: str
    accept: str = ""
    accept_encoding: str = ""
    host: str = ""
    arrived_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """What is answered; the body is shared by all who get it."""

    status: int
    body: bytes
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


Respond = Callable[[Request], Response]


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    deadline: float
    head_bytes: bytearray = field(default_factory=bytearray)
    left: list[memoryview] | None = None
    answered: float | None = None


class Server:
    """Listens from the start; answers once :meth:`start` was called, until :meth:`close`.

    Raises UnavailableError where the address cannot be used.
    """

    def __init__(self, address: Address, respond: Respond) -> None:
        self._respond = respond
        self._listener = _listening(address)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._unread = ResponseBodies[_Connection]()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="prometheus endpoint", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens at."""
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and hang up on everybody."""
        self._is_closing = True
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join(2)
        for listener in (self._listener, self._woken):
            listener.close()

    def _run(self) -> None:
        swept = time.monotonic()
        while not self._is_closing:
            events = self._selector.select(_SWEEP_SECONDS)
            began = time.thread_time()
            for key, _ in events:
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Connection):
                    self._serve(key.data)
            if (now := time.monotonic()) - swept >= _SWEEP_SECONDS:
                swept = now
                self._sweep(now)
            busy = time.thread_time() - began
            if busy > _BUSY_SECONDS:
                # However many ask, half of the interpreter's time is left for sampling.
                time.sleep(min(busy, _LONGEST_PAUSE_SECONDS))
        for connection in self._connections.values():
            connection.socket.close()
        self._selector.close()

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, or the caller has gone
                self._drop_oldest()
                time.sleep(_LONGEST_PAUSE_SECONDS)
                return
            if len(self._connections) >= _MOST_CONNECTIONS:
                self._drop_oldest()
            accepted.setblocking(False)  # noqa: FBT003 - as in the socket module
            connection = _Connection(accepted, time.monotonic() + _REQUEST_SECONDS)
            self._connections[accepted.fileno()] = connection
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection) -> None:
        try:
            if connection.answered is not None:
                self._discard(connection)
            elif connection.left is None:
                self._read(connection)
            else:
                self._write(connection)
        except (BlockingIOError, InterruptedError):
            return
        except Exception:  # noqa: BLE001 - one caller must not end the thread that answers all
            self._drop(connection)

    def _read(self, connection: _Connection) -> None:
        received = connection.socket.recv(_LONGEST_HEAD)
        if not received:
            self._drop(connection)
            return
        connection.head_bytes += received
        head, end, _ = bytes(connection.head_bytes).replace(b"\r\n", b"\n").partition(b"\n\n")
        if len(head) > _LONGEST_HEAD:
            self._begin(connection, _words(431, f"the request's head is longer than {_LONGEST_HEAD} bytes"))
        elif end:
            self._begin(connection, self._answer(head.decode("latin-1"), connection.socket.getsockname()[0]))
        elif not _may_be_http(connection.head_bytes):
            self._begin(connection, _words(400, "this is no HTTP request"))

    def _answer(self, head: str, arrived_at: str) -> Response:
        first, *lines = head.split("\n")
        request_line = _REQUEST.fullmatch(first)
        if request_line is None:
            return _words(400, "this is no HTTP/1 request")
        method, target = request_line.groups()
        if method not in {"GET", "HEAD"}:
            return _words(405, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        named = list(_headers(lines))
        headers = dict(named)
        if sum(name == "host" for name, _ in named) > 1:
            return _words(400, "a request has one Host")
        request = Request(
            path=target.partition("?")[0],
            accept=headers.get("accept", ""),
            accept_encoding=headers.get("accept-encoding", ""),
            host=headers.get("host", ""),
            arrived_at=arrived_at,
        )
        try:
            return self._respond(request)
        except Exception as error:  # noqa: BLE001 - a fault in one answer must not end the thread that gives all
            return _words(500, f"unexpected {type(error).__name__}")

    def _begin(self, connection: _Connection, response: Response) -> None:
        """Begin to answer: whatever the answer is, HEAD gets none of its body."""
        lines = [
            f"HTTP/1.1 {response.status} {_REASONS[response.status]}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
            *(f"{name}: {value}" for name, value in response.headers),
        ]
        connection.left = [memoryview("\r\n".join([*lines, "", ""]).encode("latin-1"))]
        if response.body and not connection.head_bytes.startswith(b"HEAD "):
            connection.left.append(memoryview(response.body))
            self._unread.begun(connection, response.body)
        connection.deadline = time.monotonic() + _ANSWER_SECONDS
        self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
        for late in self._unread.too_old():
            self._drop(late)
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        left = connection.left or []
        sent = connection.socket.sendmsg(left)
        while left and sent >= len(left[0]):
            sent -= len(left.pop(0))
        if left:
            left[0] = left[0][sent:]
            return
        self._unread.ended(connection)
        # Closed at once, bytes that he still sends would make the kernel reset the connection, and he lose the answer.
        connection.socket.shutdown(socket.SHUT_WR)
        connection.answered = time.monotonic()
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _discard(self, connection: _Connection) -> None:
        if connection.socket.recv(65536):
            return
        if _is_read(connection.socket):
            self._drop(connection)
        else:  # he has nothing more to say, and may still read
            self._selector.unregister(connection.socket)

    def _sweep(self, now: float) -> None:
        for connection in list(self._connections.values()):
            is_over = (
                connection.answered is not None
                and now - connection.answered > _LINGER_SECONDS
                and _is_read(connection.socket)
            )
            if is_over or connection.deadline < now:
                self._drop(connection)

    def _drop_oldest(self) -> None:
        if self._connections:
            self._drop(next(iter(self._connections.values())))

    def _drop(self, connection: _Connection) -> None:
        descriptor = connection.socket.fileno()
        if self._connections.pop(descriptor, None) is None:
            return
        self._unread.ended(connection)
        connection.left = None  # events that are still to be looked at hold the connection
        with contextlib.suppress(OSError, KeyError, ValueError):
            self._selector.unregister(connection.socket)
        with contextlib.suppress(OSError):
            if not _is_read(connection.socket):
                # Closed as usual, the kernel would keep what he has not read, and go on offering it for minutes.
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()


def _is_read(connection: socket.socket) -> bool:
    """Return whether all that was sent has arrived: https://man7.org/linux/man-pages/man7/tcp.7.html, SIOCOUTQ."""
    try:
        (left,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return True
    return bool(left == 0)


def _words(status: int, text: str, *headers: tuple[str, str]) -> Response:
    return Response(status=status, body=f"{text}\n".encode(), headers=headers)


def _headers(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip().lower(), value.strip()


def _may_be_http(head_bytes: bytearray) -> bool:
    """Return whether a request may begin so: what cannot is told at once, not after its time is up."""
    method, space, _ = bytes(head_bytes[:20]).partition(b" ")
    return method.isalpha() and method.isupper() and (bool(space) or len(head_bytes) <= 16)


def _listening(address: Address) -> socket.socket:
    try:
        family, host = _family(address)
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # of all that are accepted
            if family == socket.AF_INET6 and not address.host:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((host, address.port))
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        msg = (
            f"cannot serve Prometheus at {address} ({error.strerror or error}): "
            "end what listens there, or name another address with --prometheus HOST:PORT"
        )
        raise UnavailableError(msg) from None
    listener.setblocking(False)  # noqa: FBT003 - as in the socket module
    return listener


def _family(address: Address) -> tuple[socket.AddressFamily, str]:
    """Return the address family and the numeric host."""
    if not address.host:
        return (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")  # noqa: S104 - asked for by a port alone
    addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, socket_address = addresses[0]
    return family, str(socket_address[0])
