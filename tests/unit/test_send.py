from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from ssl import SSLCertVerificationError
from urllib.error import URLError

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from gpu_usage_audit.core.compression import compress
from gpu_usage_audit.core.errors import TransientError, UnavailableError, UsageError
from gpu_usage_audit.core.ports import SpooledTick
from gpu_usage_audit.core.tick import CardReading, Origin, Source, Tick
from gpu_usage_audit.otlp import endpoint
from gpu_usage_audit.otlp.encode import encode
from gpu_usage_audit.otlp.post import Answer, Request
from gpu_usage_audit.otlp.retry import send_with_retry
from gpu_usage_audit.otlp.send import HttpEndpoint

URL = "http://localhost:4318"
OK = Answer(status=200, retry_after=None, body=b"")


def spooled(number: int, length: int | None = None) -> SpooledTick:
    card = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1)
    raw = encode(
        Tick(
            ts_ms=1_774_413_000_000 + number,
            origin=Origin(host=f"host-{number}", source=Source.IMPORT, interval_ms=1000),
            cards=(card,),
        )
    )
    return SpooledTick(id=number, ts_ms=number, raw_length=length or len(raw), blob=compress(raw))


def hosts_in(request: Request) -> list[int]:
    message = ExportMetricsServiceRequest.FromString(gzip.decompress(request.body))
    return [
        int(pair.value.string_value.removeprefix("host-"))
        for resource_metrics in message.resource_metrics
        for pair in resource_metrics.resource.attributes
        if pair.key == "host.name"
    ]


@dataclass
class Receiver:
    """Takes requests unless they hold a tick in ``bad``; answers from ``script`` first."""

    bad: tuple[int, ...] = ()
    script: list[Answer | Exception] = field(default_factory=list)
    requests: list[list[int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def post(self, request: Request) -> Answer:
        self.requests.append(hosts_in(request))
        if self.script:
            answer = self.script.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if set(self.requests[-1]) & set(self.bad):
            return Answer(status=400, retry_after=None, body=Status(message="broken").SerializeToString())
        return OK

    def endpoint(self, **environ: str) -> HttpEndpoint:
        return HttpEndpoint(URL, environ=environ, patience_seconds=60, post=self.post, sleep=self.waits.append)


def answer(status: int, retry_after: str | None = None, body: bytes = b"") -> Answer:
    return Answer(status=status, retry_after=retry_after, body=body)


def test_a_batch_is_one_request_of_all_its_ticks() -> None:
    receiver = Receiver()
    assert receiver.endpoint().land([spooled(1), spooled(2), spooled(3)]) == []
    assert receiver.requests == [[1, 2, 3]]


def test_a_request_holds_at_most_4_mib_unless_one_tick_is_larger() -> None:
    receiver = Receiver()
    lengths = (3 * 2**20, 2**20, 1, 5 * 2**20)
    receiver.endpoint().land([spooled(number, length) for number, length in enumerate(lengths)])
    assert receiver.requests == [[0, 1], [2], [3]]


def test_only_the_ticks_at_fault_are_refused() -> None:
    receiver = Receiver(bad=(2, 7))
    landing = receiver.endpoint()
    refused = landing.land([spooled(number) for number in range(8)])
    assert [tick.id for tick in refused] == [2, 7]
    assert landing.rejected_reason == "http://localhost:4318/v1/metrics answered 400 (broken)"
    taken = [number for request in receiver.requests if not set(request) & {2, 7} for number in request]
    assert taken == [0, 1, 3, 4, 5, 6]


def test_a_damaged_blob_is_refused_without_asking() -> None:
    receiver = Receiver()
    damaged = SpooledTick(id=2, ts_ms=2, raw_length=10, blob=b"damaged")
    assert receiver.endpoint().land([spooled(1), damaged, spooled(3)]) == [damaged]
    assert receiver.requests == [[1, 3]]


def test_an_endpoint_that_refuses_even_an_empty_request_is_the_wrong_one_and_no_tick_is_given_up() -> None:
    receiver = Receiver(script=[answer(400)] * 3)
    with pytest.raises(UnavailableError, match="even to an empty request"):
        receiver.endpoint().land([spooled(1)])


@pytest.mark.parametrize("failure", [answer(code) for code in (429, 500, 502, 503, 504)] + [ConnectionRefusedError()])
def test_what_may_pass_is_tried_again(failure: Answer | Exception) -> None:
    receiver = Receiver(script=[failure, failure])
    assert receiver.endpoint().land([spooled(1)]) == []
    assert receiver.requests == [[1]] * 3
    assert len(receiver.waits) == 2


def test_the_wait_is_what_the_server_asks_for() -> None:
    receiver = Receiver(script=[answer(429, "7")])
    receiver.endpoint().land([spooled(1)])
    assert receiver.waits == [7.0]


def test_a_server_that_asks_for_more_than_the_patience_is_given_up_at_once() -> None:
    receiver = Receiver(script=[answer(503, "3600")])
    with pytest.raises(TransientError, match="503") as raised:
        receiver.endpoint().land([spooled(1)])
    assert raised.value.retry_after_seconds == 3600
    assert receiver.waits == []


def test_a_retry_after_may_be_a_past_date_or_nonsense() -> None:
    receiver = Receiver(script=[answer(429, "Wed, 21 Oct 2015 07:28:00 GMT"), answer(429, "soon")])
    receiver.endpoint().land([spooled(1)])
    assert all(wait <= 1 for wait in receiver.waits)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (answer(404, body=b"<html>nginx</html>"), r"404 Not Found: check the URL"),
        (answer(307), r"307 Temporary Redirect: check the URL"),
        (answer(401), r"401 Unauthorized: set OTEL_EXPORTER_OTLP_HEADERS"),
        (URLError(SSLCertVerificationError("self-signed")), r"certificate is not trusted"),
    ],
)
def test_a_wrong_endpoint_is_said_in_one_line_and_not_tried_again(failure: Answer | Exception, says: str) -> None:
    receiver = Receiver(script=[failure])
    with pytest.raises(UnavailableError, match=says) as raised:
        receiver.endpoint().land([spooled(1)])
    assert not isinstance(raised.value, TransientError)
    assert "\n" not in str(raised.value)
    assert receiver.requests == [[1]]


def test_points_that_were_left_out_of_a_taken_request_are_told() -> None:
    body = ExportMetricsServiceResponse()
    body.partial_success.rejected_data_points = 3
    body.partial_success.error_message = "too old"
    landing = Receiver(script=[answer(200, body=body.SerializeToString())]).endpoint()
    assert landing.land([spooled(1)]) == []
    assert (landing.rejected_points, landing.rejected_reason) == (3, "too old")


@pytest.mark.parametrize(
    ("url", "posted"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("https://otel.example/", "https://otel.example/v1/metrics"),
        ("https://otel.example/otlp/v1/metrics", "https://otel.example/otlp/v1/metrics"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
    ],
)
def test_the_path_of_metrics_is_appended_to_a_bare_url(url: str, posted: str) -> None:
    assert endpoint.metrics_url(url) == posted


@pytest.mark.parametrize(
    "url",
    ["", "localhost:4318", "grpc://localhost", "http://", "http://a:b", "http://a:99999", "http://a b", "http://[x"],
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="http://localhost:4318"):
        endpoint.metrics_url(url)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as raised:
        endpoint.metrics_url("https://ada:secret@otel.example")
    assert "secret" not in str(raised.value)


def test_headers_and_timeout_come_from_the_environment() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc", "OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}
    assert endpoint.headers(environ) == {"authorization": "Bearer abc"}
    assert endpoint.timeout_seconds(environ) == 2.5
    assert endpoint.timeout_seconds({}) == 10


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "nothing"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable):
        HttpEndpoint(URL, environ={variable: value})


def test_waits_grow_are_jittered_and_end_with_the_patience() -> None:
    clock = [0.0]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds

    def down() -> None:
        msg = "down"
        raise TransientError(msg)

    with pytest.raises(TransientError):
        send_with_retry(down, patience_seconds=10, sleep=sleep, monotonic=lambda: clock[0], jitter=lambda: 1.0)
    assert waits == [0.5, 1.0, 2.0, 4.0]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers)))
        status, headers = self.server.script.pop(0)
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as serving:
        serving.seen, serving.script = [], []
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_the_request_reaches_a_real_server_and_its_answers_are_understood(server: HTTPServer) -> None:
    server.script += [(503, {"Retry-After": "3"}), (200, {})]
    waits: list[float] = []
    url = f"http://127.0.0.1:{server.server_port}"
    landing = HttpEndpoint(url, environ={"OTEL_EXPORTER_OTLP_HEADERS": "x-team=lab"}, sleep=waits.append)
    assert landing.land([spooled(1)]) == []
    assert waits == [3.0]
    (path, headers) = server.seen[-1]
    assert path == "/v1/metrics"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["Content-Encoding"] == "gzip"
    assert {key.lower(): value for key, value in headers.items()}["x-team"] == "lab"


def test_a_redirect_is_not_followed(server: HTTPServer) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    server.script += [(302, {"Location": url + "/elsewhere"})]
    with pytest.raises(UnavailableError, match="302"):
        HttpEndpoint(url, environ={}).land([spooled(1)])
    assert len(server.seen) == 1


def test_a_closed_port_is_transient_and_named() -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port, nobody answers
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            TransientError, match=r"cannot reach http://127\.0\.0\.1:\d+/v1/metrics \(Connection refused"
        ):
            HttpEndpoint(url, environ={}, patience_seconds=0).land([spooled(1)])
