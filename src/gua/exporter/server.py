"""HTTP server for scrapers and probes: a thread per client, and limits on how many and for how long.

A slow or silent client costs a thread and a socket until its time is up. At the most clients the oldest one is
disconnected, so that they cannot keep others out.
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
"""From connecting to having read the answer; Prometheus gives up after 10 s by default."""
_LONGEST_HEAD: Final = 8192
_SWEEP_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 0.005
"""Between clients, so that sampling has most of the interpreter's time, however many clients come."""
_SEND_BUFFER_BYTES: Final = 128 * 2**10
"""Without a limit the kernel buffers up to 4 MB for each client that does not read."""
_ABORT: Final = struct.pack("ii", 1, 0)
ARRIVED_AT: Final = "gua.arrived_at"
"""Of the WSGI environment: the address of this host that the request was sent to."""


class PageServer(ThreadingMixIn, WSGIServer):
    """Listens from the start, answers from :meth:`start` to :meth:`close`.

    Raises UnavailableError where the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: Address, app: WSGIApplication) -> None:
        self.clients: dict[Any, float] = {}  # the connections, and since when (monotonic); the oldest comes first
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
        """Bind without looking up the host's name in DNS, which http.server would do."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # clients inherit it
        if self.server_address[0] == "::":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening and disconnect all clients."""
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()
        for client in self.clients.copy():
            _disconnect(client)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Answer a client in a thread of its own, in place of the oldest one where there are too many."""
        while len(clients := self.clients.copy()) >= _MOST_CLIENTS:
            _disconnect(next(iter(clients)))
            time.sleep(_PAUSE_SECONDS)  # until its thread has noticed
        self.clients[request] = time.monotonic()
        super().process_request(request, client_address)
        time.sleep(_PAUSE_SECONDS)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Close the connection of a client."""
        self.clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect the clients whose time is up."""
        late = time.monotonic() - _CLIENT_SECONDS
        for client in [client for client, since in self.clients.copy().items() if since < late]:
            _disconnect(client)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Do nothing: the client hung up, or was disconnected."""


class _Handler(WSGIRequestHandler):
    def handle(self) -> None:
        """Read the head of a request, and answer it."""
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
        """Wait until the client has closed its end: at once, the kernel would drop what it has not read yet."""
        super().finish()
        self.connection.shutdown(socket.SHUT_WR)
        while self.connection.recv(_LONGEST_HEAD):
            pass

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), ARRIVED_AT: self.connection.getsockname()[0]}

    def log_message(self, *_: object) -> None:
        pass


def _disconnect(client: socket.socket) -> None:
    """End a client's connection, which its thread notices; what the client has not read is dropped."""
    with suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        client.shutdown(socket.SHUT_RDWR)


def _family(address: Address) -> tuple[socket.AddressFamily, str]:
    """Return the address family and the numeric host. Raises OSError for a host without an address."""
    if not address.host:
        return (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")  # noqa: S104 - asked for by a port alone
    addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, socket_address = addresses[0]
    return family, str(socket_address[0])
