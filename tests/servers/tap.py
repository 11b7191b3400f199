"""An OTLP endpoint that keeps the requests it gets, to send them on in another order and shape."""

from __future__ import annotations

import gzip
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@contextmanager
def tapped() -> Iterator[tuple[str, list[bytes]]]:
    """Yield an endpoint and the list in which the requests sent to it end, unpacked."""
    requests: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(endpoint: str, body: bytes) -> None:
    """Post one request."""
    request = urllib.request.Request(  # noqa: S310 - the tests' own loopback URL
        f"{endpoint}/v1/metrics", body, {"Content-Type": "application/x-protobuf"}
    )
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - see above


def split(body: bytes) -> Iterator[bytes]:
    """Yield one request for every metric of a request, so that a tick arrives in many pieces."""
    whole = ExportMetricsServiceRequest.FromString(body)
    for resource in whole.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                piece = ExportMetricsServiceRequest()
                of_resource = piece.resource_metrics.add(resource=resource.resource, schema_url=resource.schema_url)
                of_scope = of_resource.scope_metrics.add(scope=scope.scope, schema_url=scope.schema_url)
                of_scope.metrics.append(metric)
                yield piece.SerializeToString()
