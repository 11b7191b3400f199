"""OTLP receivers on 127.0.0.1, over HTTP and gRPC: they answer as scripted and keep what they were sent."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer of a receiver.

    ``status`` is an HTTP status, or the name of a gRPC status code (``"UNAVAILABLE"``). ``retry_after`` is a header's
    value, or the seconds of a RetryInfo. Over HTTP ``body`` and ``headers`` are sent as they are; ``dribble_seconds``
    is how long each of the body's bytes takes.
    """

    status: int | str = 200
    message: str = ""
    retry_after: str | float | None = None
    delay_seconds: float = 0.0
    rejected_points: int = 0
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    dribble_seconds: float = 0.0

    def response(self) -> bytes:
        """Return the message of an answer: what was rejected, or a ``google.rpc.Status``."""
        if self.body is not None:
            return self.body
        if self.status in {200, "OK"}:
            taken = ExportMetricsServiceResponse()
            if self.rejected_points or self.message:
                taken.partial_success.rejected_data_points = self.rejected_points
                taken.partial_success.error_message = self.message
            return bytes(taken.SerializeToString())
        return bytes(Status(message=self.message).SerializeToString())


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """One request: its headers in lower case, and its message without compression."""

    headers: Mapping[str, str]
    body: bytes
    path: str = ""

    @property
    def hosts(self) -> list[str]:
        """The ``host.name`` of each tick in it."""
        return [
            pair.value.string_value
            for resource_metrics in ExportMetricsServiceRequest.FromString(self.body).resource_metrics
            for pair in resource_metrics.resource.attributes
            if pair.key == "host.name"
        ]


@dataclass(kw_only=True)
class Tls:
    """The files of a receiver that speaks TLS; ``clients`` is the authority of the certificates that it demands."""

    certificate: Path
    key: Path
    clients: Path | None = None


class Receiver:
    """What both have in common; a context manager that serves.

    ``script`` is answered from first, then every request is taken, unless it holds a tick of a host in ``bad``: that
    is answered with ``refusal``.
    """

    scheme: str
    port: int
    refusal: Answer

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.bad: set[str] = set()
        self.requests: list[Received] = []
        self.connections = 0
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def answer_to(self, received: Received) -> Answer:
        """Keep a request and return what to answer, once it is time to."""
        self.requests.append(received)
        if self.script:
            answer = self.script.pop(0)
            self.stopping.wait(answer.delay_seconds)
            return answer
        return self.refusal if self.bad and self.bad & {*received.hosts} else Answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        raise NotImplementedError


class HttpReceiver(Receiver):
    """OTLP over HTTP/1.1; ``connections`` counts those that were opened."""

    def __init__(self, *, tls: Tls | None = None, port: int = 0, refusal_status: int = 400) -> None:
        super().__init__()
        self.refusal = Answer(status=refusal_status, message="broken")
        self.scheme = "https" if tls else "http"
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.receiver = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            if tls.clients:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(tls.clients)
            self._server.tls = context
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: HttpReceiver
    tls: ssl.SSLContext | None = None

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.opened: weakref.WeakSet[Any] = weakref.WeakSet()

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the signature is socketserver's
        self.receiver.connections += 1
        self.opened.add(request)
        # In the connection's own thread, so that a client that never shakes hands holds up no other.
        taken = self.tls.wrap_socket(request, server_side=True) if self.tls else request
        super().finish_request(taken, client_address)
        if self.tls:
            taken.close()

    def hang_up(self) -> None:
        """End what is left of the connections; a process that ends does, too."""
        for opened in tuple(self.opened):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Stay silent: clients that are refused are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {key.lower(): value for key, value in self.headers.items()}
        unpack = _UNPACK.get(headers.get("content-encoding", ""), bytes)
        receiver = self.server.receiver
        answer = receiver.answer_to(Received(headers=headers, body=unpack(body), path=self.path))
        response = answer.response()
        self.send_response(int(answer.status))
        for key, value in answer.headers.items():
            self.send_header(key, value)
        if answer.retry_after is not None:
            self.send_header("Retry-After", str(answer.retry_after))
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        if not answer.dribble_seconds:
            self.wfile.write(response)
            return
        for byte in response:
            self.wfile.write(bytes((byte,)))
            if receiver.stopping.wait(answer.dribble_seconds):
                return

    def log_message(self, *_arguments: object) -> None:
        """Stay silent."""


class GrpcReceiver(Receiver):
    """OTLP over gRPC; takes messages of up to ``max_message_bytes``, 4 MiB as receivers do."""

    def __init__(self, *, tls: Tls | None = None, port: int = 0, max_message_bytes: int = 4 * 2**20) -> None:
        import grpc  # noqa: PLC0415 - heavy, and not needed over HTTP

        super().__init__()
        self._grpc = grpc
        self.refusal = Answer(status="INVALID_ARGUMENT", message="broken")
        self.scheme = "https" if tls else "http"
        options = (("grpc.max_receive_message_length", max_message_bytes), ("grpc.so_reuseport", 0))
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4), options=options)
        handler = grpc.unary_unary_rpc_method_handler(self._export)
        service = "opentelemetry.proto.collector.metrics.v1.MetricsService"
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        address = f"127.0.0.1:{port}"
        if tls:
            credentials = grpc.ssl_server_credentials(
                [(tls.key.read_bytes(), tls.certificate.read_bytes())],
                root_certificates=tls.clients.read_bytes() if tls.clients else None,
                require_client_auth=tls.clients is not None,
            )
            self.port = self._server.add_secure_port(address, credentials)
        else:
            self.port = self._server.add_insecure_port(address)
        self._server.start()

    def _export(self, body: bytes, context: Any) -> bytes:  # noqa: ANN401 - grpc has no types
        headers = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        answer = self.answer_to(Received(headers=headers, body=body))
        code = self._grpc.StatusCode[str(answer.status)] if isinstance(answer.status, str) else None
        if answer.retry_after is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", _details(answer)),))
        if code not in {None, self._grpc.StatusCode.OK}:
            context.abort(code, answer.message)
        return answer.response()

    def close(self) -> None:
        self.stopping.set()
        self._server.stop(0).wait()


def _details(answer: Answer) -> bytes:
    from google.rpc.error_details_pb2 import RetryInfo  # noqa: PLC0415 - only where an answer has one

    info = RetryInfo()
    info.retry_delay.FromMilliseconds(round(float(answer.retry_after or 0) * 1000))
    status = Status(message=answer.message)
    status.details.add().Pack(info)
    return bytes(status.SerializeToString())
