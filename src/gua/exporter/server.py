"""HTTP server for scrapers and probes: one thread per client, at most 32 clients for 15 s each.

Slow or silent clients are then disconnected. At the maximum number of clients a new one replaces the oldest.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from gua.core.errors import UnavailableError
from gua.exporter.address import Address

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_MOST_CLIENTS: Final = 32
_CLIENT_SECONDS: Final = 15.0
"""Maximum time of a connection; the default scrape timeout of Prometheus is 10 s."""
_LONGEST_HEAD: Final = 8192
_SWEEP_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 0.005
"""Pause between clients, so that sampling gets most of the interpreter's time under any load."""
_SEND_BUFFER_BYTES: Final = 128 * 2**10
"""Without a limit the kernel buffers up to 4 MB for each client that does not read."""
_ABORT: Final = struct.pack("ii", 1, 0)
ARRIVED_AT: Final = "gua.arrived_at"
"""Key of the WSGI environment: local address of the connection."""


class PageServer(ThreadingMixIn, WSGIServer):
    """HTTP server that listens at once and answers from :meth:`start` to :meth:`close`.

    Raises UnavailableError if it cannot bind the address.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: Address, app: WSGIApplication) -> None:
        self.clients: dict[Any, float] = {}  # connection to its start on the monotonic clock [s]; oldest first
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_SWEEP_SECONDS,), name="prometheus endpoint", daemon=True
        )
        try:
            self.address_family, host = _family(address)
            super().__init__((host, address.port), _Handler)
        except OSError as error:
            raise UnavailableError(
                f"cannot serve Prometheus at {address} ({error.strerror or error}): "
                "end what listens there, or name another address with --prometheus HOST:PORT"
            ) from None
        self.set_app(app)

    def server_bind(self) -> None:
        """Bind the socket without the reverse DNS lookup of http.server; ``::`` accepts IPv4, too."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # accepted sockets inherit it
        if self.server_address[0] == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def start(self) -> None:
        """Start the thread that answers requests."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening and disconnect all clients."""
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()
        for client in self.clients.copy():
            _disconnect(client)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Answer a client in its own thread; at the maximum number of clients, disconnect the oldest first."""
        while len(clients := self.clients.copy()) >= _MOST_CLIENTS:
            _disconnect(next(iter(clients)))
            time.sleep(_PAUSE_SECONDS)  # its thread removes it from the clients
        self.clients[request] = time.monotonic()
        super().process_request(request, client_address)
        time.sleep(_PAUSE_SECONDS)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Close a client's connection and remove it from the clients."""
        self.clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect clients that have been connected for more than 15 s."""
        late = time.monotonic() - _CLIENT_SECONDS
        for client in [client for client, since in self.clients.copy().items() if since < late]:
            _disconnect(client)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Do nothing: the client closed the connection or was disconnected."""


class _Handler(WSGIRequestHandler):
    def handle(self) -> None:
        """Read a request's head and answer it; status 431 if the head is larger than 8 KiB."""
        head = b""
        while b"\n\r\n" not in head and b"\n\n" not in head:
            received = self.connection.recv(_LONGEST_HEAD)
            if not received:
                return
            head += received
            if len(head) > _LONGEST_HEAD:
                self.requestline = self.request_version = self.command = ""
                self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        self.rfile.close()
        self.rfile = io.BytesIO(head)
        super().handle()

    def finish(self) -> None:
        """Wait until the client closes: closing first would make the kernel drop data that it has not read."""
        super().finish()
        self.connection.shutdown(socket.SHUT_WR)
        while self.connection.recv(_LONGEST_HEAD):
            pass

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), ARRIVED_AT: self.connection.getsockname()[0]}

    def log_message(self, *_: object) -> None:
        pass


def _disconnect(client: socket.socket) -> None:
    """Abort a client's connection and drop unread data; the client's thread then ends."""
    with suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        client.shutdown(socket.SHUT_RDWR)


def _family(address: Address) -> tuple[socket.AddressFamily, str]:
    """Return the address family and the numeric host. Raises OSError for a host without an address."""
    if not address.host:
        return (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")  # noqa: S104 - requested by an address without a host
    addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, socket_address = addresses[0]
    return family, str(socket_address[0])
