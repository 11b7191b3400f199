"""What a landing does with what a receiver answers: the same over HTTP and gRPC."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fakes.otlp import Answer, GrpcReceiver, HttpReceiver, Receiver
from fakes.spooled import spooled
from gua.core.errors import TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.otlp.send import OtlpEndpoint, open_endpoint, send_with_retry

PROTOCOL = {HttpReceiver: "http/protobuf", GrpcReceiver: "grpc"}
BUSY = {HttpReceiver: 503, GrpcReceiver: "UNAVAILABLE"}


@pytest.fixture(params=PROTOCOL, ids=PROTOCOL.values())
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with request.param() as serving:
        yield serving


def opened(receiver: Receiver, *, waits: list[float] | None = None, **environ: str) -> OtlpEndpoint:
    """Return an endpoint with 60 s of patience if ``waits`` are to be kept, else with none."""
    settings = {"OTEL_EXPORTER_OTLP_PROTOCOL": PROTOCOL[type(receiver)], **environ}
    if waits is None:
        return open_endpoint(receiver.url, environ=settings, patience_seconds=0)
    return open_endpoint(receiver.url, environ=settings, sleep=waits.append)


def hosts(receiver: Receiver) -> list[list[int]]:
    return [[int(host.removeprefix("host-")) for host in request.hosts] for request in receiver.requests]


def test_a_batch_is_one_request_of_all_its_ticks(receiver: Receiver) -> None:
    landing = opened(receiver)
    assert landing.land([spooled(1), spooled(2), spooled(3)]) == []
    assert hosts(receiver) == [[1, 2, 3]]
    landing.close()


def test_a_request_is_limited_unless_one_tick_is_larger(receiver: Receiver) -> None:
    mib = {HttpReceiver: 2**20, GrpcReceiver: 2**19}[type(receiver)]
    landing = opened(receiver)
    landing.land([spooled(number, length) for number, length in enumerate((3 * mib, mib, 1, 5 * mib))])
    assert hosts(receiver) == [[0, 1], [2], [3]]
    landing.close()


def test_only_the_ticks_at_fault_are_refused(receiver: Receiver) -> None:
    receiver.bad = {"host-2", "host-7"}
    landing = opened(receiver)
    refused = landing.land([spooled(number) for number in range(8)])
    assert [tick.id for tick in refused] == [2, 7]
    assert str(landing.rejected_reason).startswith(f"{landing.shown} answered ")
    assert "broken" in str(landing.rejected_reason)
    taken = [number for request in hosts(receiver) if not {2, 7} & {*request} for number in request]
    assert taken == [0, 1, 3, 4, 5, 6]
    landing.close()


def test_a_damaged_blob_is_refused_without_a_request(receiver: Receiver) -> None:
    damaged = SpooledTick(id=2, ts_ms=2, raw_length=10, blob=b"damaged")
    landing = opened(receiver)
    assert landing.land([spooled(1), damaged, spooled(3)]) == [damaged]
    assert hosts(receiver) == [[1, 3]]
    landing.close()


def test_an_endpoint_that_refuses_even_an_empty_request_is_the_wrong_one_and_no_tick_is_given_up(
    receiver: Receiver,
) -> None:
    receiver.script = [receiver.refusal] * 2
    landing = opened(receiver)
    with pytest.raises(UnavailableError, match="even to an empty request"):
        landing.land([spooled(1), spooled(2)])
    assert hosts(receiver) == [[1, 2], []]
    landing.close()


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_tried_again(code: int) -> None:
    with HttpReceiver() as receiver:
        receiver.script = [Answer(status=code)] * 2
        waits: list[float] = []
        landing = opened(receiver, waits=waits)
        assert landing.land([spooled(1)]) == []
        assert hosts(receiver) == [[1]] * 3
        assert len(waits) == 2
        landing.close()


@pytest.mark.parametrize(
    "code",
    [
        "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED", "OUT_OF_RANGE", "DATA_LOSS",
        "INTERNAL", "UNKNOWN",
    ],
)  # fmt: skip
def test_a_code_that_may_pass_is_tried_again(code: str) -> None:
    with GrpcReceiver() as receiver:
        receiver.script = [Answer(status=code)] * 2
        waits: list[float] = []
        landing = opened(receiver, waits=waits)
        assert landing.land([spooled(1)]) == []
        assert hosts(receiver) == [[1]] * 3
        assert len(waits) == 2
        landing.close()


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_status_that_is_about_the_content_refuses_the_tick(code: int) -> None:
    with HttpReceiver(refusal_status=code) as receiver:
        receiver.bad = {"host-1"}
        landing = opened(receiver)
        assert [tick.id for tick in landing.land([spooled(1), spooled(2)])] == [1]
        landing.close()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("INVALID_ARGUMENT", ""),
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (5000000 vs. 4194304)"),
        ("INTERNAL", "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data"),
    ],
)
def test_a_code_that_is_about_the_content_refuses_the_tick(code: str, message: str) -> None:
    with GrpcReceiver() as receiver:
        receiver.bad, receiver.refusal = {"host-1"}, Answer(status=code, message=message)
        landing = opened(receiver)
        assert [tick.id for tick in landing.land([spooled(1), spooled(2)])] == [1]
        landing.close()


def test_a_request_that_a_real_grpc_server_finds_too_large_is_halved() -> None:
    with GrpcReceiver(max_message_bytes=1000) as receiver:
        landing = opened(receiver, OTEL_EXPORTER_OTLP_COMPRESSION="none")
        assert landing.land([spooled(number) for number in range(4)]) == []
        assert sorted(number for request in hosts(receiver) for number in request) == [*range(4)]
        assert "larger than max" in str(landing.rejected_reason)
        landing.close()


def test_the_wait_is_the_servers_retry_after(receiver: Receiver) -> None:
    receiver.script = [Answer(status=BUSY[type(receiver)], retry_after=7)]
    waits: list[float] = []
    landing = opened(receiver, waits=waits)
    landing.land([spooled(1)])
    assert waits == [7.0]
    landing.close()


def test_a_retry_after_beyond_the_patience_is_given_up_at_once(receiver: Receiver) -> None:
    receiver.script = [Answer(status=BUSY[type(receiver)], retry_after=3600)]
    waits: list[float] = []
    landing = opened(receiver, waits=waits)
    with pytest.raises(TransientError) as raised:
        landing.land([spooled(1)])
    assert raised.value.retry_after_seconds == 3600
    assert waits == []
    landing.close()


@pytest.mark.parametrize("retry_after", ["Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-1", "1e400", ""])
def test_a_retry_after_may_be_a_past_date_or_nonsense(retry_after: str) -> None:
    with HttpReceiver() as receiver:
        receiver.script = [Answer(status=429, retry_after=retry_after)]
        waits: list[float] = []
        landing = opened(receiver, waits=waits)
        landing.land([spooled(1)])
        assert all(wait <= 1 for wait in waits)
        landing.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(status=404, body=b"<html>nginx</html>"), r"404 Not Found: check the URL"),
        (Answer(status=401), r"401 Unauthorized: set OTEL_EXPORTER_OTLP_HEADERS"),
        (Answer(status=403, message="no\nright"), r"403 \(no right\): set OTEL_EXPORTER_OTLP_HEADERS"),
        (Answer(status=307, headers={"Location": "/elsewhere"}), r"307 Temporary Redirect: check the URL"),
        (Answer(status=302, headers={"Location": "/elsewhere"}), r"302 Found: check the URL"),
        (Answer(status=799), r"799 \(unknown\): check the URL"),
    ],
)
def test_a_wrong_url_is_reported_in_one_line_and_not_retried(answer: Answer, says: str) -> None:
    with HttpReceiver() as receiver:
        receiver.script = [answer]
        landing = opened(receiver, waits=[])
        with pytest.raises(UnavailableError, match=says) as raised:
            landing.land([spooled(1)])
        assert not isinstance(raised.value, TransientError)
        assert "\n" not in str(raised.value)
        assert hosts(receiver) == [[1]]
        landing.close()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("UNAUTHENTICATED", "set OTEL_EXPORTER_OTLP_HEADERS"),
        ("PERMISSION_DENIED", "set OTEL_EXPORTER_OTLP_HEADERS"),
        ("UNIMPLEMENTED", "an OTLP/gRPC receiver listens on port 4317"),
        ("NOT_FOUND", "check the address"),
    ],
)
def test_a_wrong_address_is_reported_in_one_line_and_not_retried(code: str, says: str) -> None:
    with GrpcReceiver() as receiver:
        receiver.script = [Answer(status=code, message="a\nb")]
        landing = opened(receiver, waits=[])
        with pytest.raises(UnavailableError, match=says) as raised:
            landing.land([spooled(1)])
        assert not isinstance(raised.value, TransientError)
        assert "\n" not in str(raised.value)
        assert hosts(receiver) == [[1]]
        landing.close()


def test_points_rejected_from_an_accepted_request_are_counted(receiver: Receiver) -> None:
    receiver.script = [Answer(rejected_points=3, message="too old"), Answer(rejected_points=2, message="too new")]
    landing = opened(receiver)
    assert landing.land([spooled(1)]) == []
    assert (landing.rejected_points, landing.rejected_reason) == (3, "too old")
    landing.land([spooled(1)])
    assert (landing.rejected_points, landing.rejected_reason) == (5, "too new")
    landing.close()


def test_a_closed_port_is_transient_and_named(receiver: Receiver) -> None:
    with socket.socket() as bound:  # bound and not listening: no other process can take the port, no one answers
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": PROTOCOL[type(receiver)]}
        landing = open_endpoint(url, environ=environ, patience_seconds=0)
        with pytest.raises(TransientError, match=rf"cannot reach {url}.* \(.*Connection refused"):
            landing.land([spooled(1)])
        landing.close()


def test_an_unknown_host_name_is_transient_and_named(receiver: Receiver) -> None:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": PROTOCOL[type(receiver)]}
    landing = open_endpoint("http://nobody.invalid:4000", environ=environ, patience_seconds=0)
    with pytest.raises(TransientError, match=r"(cannot reach|did not answer)") as raised:
        landing.land([spooled(1)])
    assert "nobody.invalid" in str(raised.value)
    landing.close()


def test_a_receiver_that_comes_back_is_found_at_the_next_attempt(receiver: Receiver) -> None:
    landing = opened(receiver)
    landing.land([spooled(1)])
    receiver.close()
    with pytest.raises(TransientError):
        landing.land([spooled(2)])
    with type(receiver)(port=receiver.port) as again:
        assert landing.land([spooled(2)]) == []
        assert hosts(again) == [[2]]
    landing.close()


class TestTime:
    def test_a_slow_receiver_is_given_up_after_the_timeout(self, receiver: Receiver) -> None:
        receiver.script = [Answer(delay_seconds=20)]
        landing = opened(receiver, OTEL_EXPORTER_OTLP_TIMEOUT="300")
        began = time.monotonic()
        with pytest.raises(TransientError, match=r"did not answer within 0\.3 s"):
            landing.land([spooled(1)])
        assert time.monotonic() - began < 15
        landing.close()

    def test_a_receiver_that_trickles_its_answer_is_given_up_after_the_timeout(self) -> None:
        with HttpReceiver() as receiver:
            receiver.script = [Answer(body=b"x" * 1000, dribble_seconds=0.1)]
            landing = opened(receiver, OTEL_EXPORTER_OTLP_TIMEOUT="300")
            began = time.monotonic()
            with pytest.raises(TransientError, match=r"did not answer within 0\.3 s"):
                landing.land([spooled(1)])
            assert time.monotonic() - began < 30
            landing.close()

    def test_closing_ends_the_request_in_progress(self, receiver: Receiver) -> None:
        receiver.script = [Answer(delay_seconds=20)]
        landing = opened(receiver)
        raised: list[UnavailableError] = []

        def land() -> None:
            try:
                landing.land([spooled(1)])
            except UnavailableError as error:
                raised.append(error)

        thread = threading.Thread(target=land)
        thread.start()
        while not receiver.requests:
            time.sleep(0.01)
        landing.close()
        thread.join(60)
        assert not thread.is_alive()
        assert len(raised) == 1

    def test_closing_ends_the_waiting(self, receiver: Receiver) -> None:
        receiver.script = [Answer(status=BUSY[type(receiver)], retry_after=50)]
        environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": PROTOCOL[type(receiver)]}
        landing = open_endpoint(receiver.url, environ=environ)
        closer = threading.Timer(0.2, landing.close)
        closer.start()
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="delivery was stopped"):
            landing.land([spooled(1)])
        assert time.monotonic() - began < 30
        closer.join()

    def test_what_is_closed_sends_nothing(self, receiver: Receiver) -> None:
        landing = opened(receiver)
        landing.close()
        landing.close()
        with pytest.raises(UnavailableError, match="delivery was stopped"):
            landing.land([spooled(1)])
        assert receiver.requests == []

    def test_a_transport_that_was_closed_meanwhile_opens_nothing_anew(self, receiver: Receiver) -> None:
        landing = opened(receiver)
        transport = landing.transport
        transport.close()
        with pytest.raises(TransientError, match="delivery was stopped"):
            transport.send(b"")
        assert receiver.requests == []

    def test_waits_grow_are_jittered_and_end_with_the_patience(self) -> None:
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


class TestWire:
    def test_headers_path_and_compression_are_those_of_otlp(self) -> None:
        with HttpReceiver() as receiver:
            landing = opened(receiver, OTEL_EXPORTER_OTLP_HEADERS="X-Team=lab,authorization=Bearer%20abc")
            landing.land([spooled(1)])
            (request,) = receiver.requests
            assert request.path == "/v1/metrics"
            sent = {name: request.headers.get(name) for name in ("x-team", "authorization", "user-agent")}
            assert sent == {"x-team": "lab", "authorization": "Bearer abc", "user-agent": "gua"}
            assert request.headers["content-type"] == "application/x-protobuf"
            assert request.headers["content-encoding"] == "gzip"
            assert request.headers["accept-encoding"] == "identity"  # an answer is read up to a size, as it comes
            landing.close()

    def test_metadata_are_the_headers_over_grpc(self) -> None:
        with GrpcReceiver() as receiver:
            landing = opened(receiver, OTEL_EXPORTER_OTLP_HEADERS="X-Team=lab,authorization=Bearer%20abc")
            landing.land([spooled(1)])
            (request,) = receiver.requests
            assert (request.headers["x-team"], request.headers["authorization"]) == ("lab", "Bearer abc")
            assert request.headers["user-agent"].startswith("gua ")
            landing.close()

    @pytest.mark.parametrize(("compression", "encoding"), [("none", None), ("deflate", "deflate"), ("gzip", "gzip")])
    def test_the_compression_is_the_one_that_was_set(self, compression: str, encoding: str | None) -> None:
        with HttpReceiver() as receiver:
            landing = opened(receiver, OTEL_EXPORTER_OTLP_COMPRESSION=compression)
            landing.land([spooled(1)])
            assert receiver.requests[0].headers.get("content-encoding") == encoding
            assert hosts(receiver) == [[1]]
            landing.close()

    def test_one_connection_serves_many_requests(self) -> None:
        with HttpReceiver() as receiver:
            landing = opened(receiver)
            for number in range(5):
                landing.land([spooled(number)])
            assert len(receiver.requests) == 5
            assert receiver.connections == 1
            landing.close()

    def test_a_password_of_netrc_is_not_sent(
        self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path_factory.mktemp("home") / "netrc"
        netrc.write_text("machine 127.0.0.1 login ada password secret\n")
        monkeypatch.setenv("NETRC", str(netrc))
        with HttpReceiver() as receiver:
            landing = opened(receiver)
            landing.land([spooled(1)])
            assert "authorization" not in receiver.requests[0].headers
            landing.close()

    def test_the_proxy_of_the_environment_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with HttpReceiver() as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", "")
            landing = open_endpoint("http://collector.example:4318", environ={}, patience_seconds=0)
            assert landing.land([spooled(1)]) == []
            assert proxy.requests[0].path == "http://collector.example:4318/v1/metrics"
            landing.close()

    @pytest.mark.parametrize("exempt", ["127.0.0.0/8", "example,127.0.0.1", "*"])
    def test_no_proxy_exempts_a_receiver_from_the_proxy(self, monkeypatch: pytest.MonkeyPatch, exempt: str) -> None:
        monkeypatch.setenv("http_proxy", "127.0.0.1:9")
        monkeypatch.setenv("no_proxy", exempt)
        with HttpReceiver() as receiver:
            landing = open_endpoint(receiver.url, environ={}, patience_seconds=0)
            assert landing.land([spooled(1)]) == []
            landing.close()

    def test_a_receiver_of_the_other_protocol_ends_in_one_line(self, receiver: Receiver) -> None:
        other = {"http/protobuf": "grpc", "grpc": "http/protobuf"}[PROTOCOL[type(receiver)]]
        landing = opened(receiver, OTEL_EXPORTER_OTLP_PROTOCOL=other)
        with pytest.raises(
            UnavailableError, match=rf"is not .*OTEL_EXPORTER_OTLP_PROTOCOL={PROTOCOL[type(receiver)]}"
        ) as raised:
            landing.land([spooled(1)])
        assert "\n" not in str(raised.value)
        landing.close()


def test_a_credential_repeated_by_the_receiver_is_not_printed(receiver: Receiver) -> None:
    refused = {HttpReceiver: 401, GrpcReceiver: "UNAUTHENTICATED"}[type(receiver)]
    receiver.script = [
        Answer(status=refused, message=f"{'x' * 190} no such token: Bearer s3cr3t-t0ken, tenant 12"),
        Answer(status=refused, message="Bearer s3cr3t-t0ken"),
    ]
    headers = "authorization=Bearer%20s3cr3t-t0ken,x-tenant=12"
    landing = opened(receiver, OTEL_EXPORTER_OTLP_HEADERS=headers)
    messages = []
    for _ in range(2):
        with pytest.raises(UnavailableError) as raised:
            landing.land([spooled(1)])
        messages.append(str(raised.value))
    landing.close()
    assert receiver.requests[0].headers["authorization"] == "Bearer s3cr3t-t0ken"
    assert "tenant 12" in messages[0]
    assert "***" in messages[1]
    assert "3cr3t" not in "".join(messages)
