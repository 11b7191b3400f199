"""What each protocol brings with it: only itself, and no settings but those of its endpoint."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fakes.otlp import GrpcReceiver, HttpReceiver
from fakes.spooled import spooled
from gua.core.errors import UsageError
from gua.otlp.endpoint import read_settings
from gua.otlp.over_grpc import GrpcTransport
from gua.otlp.send import open_endpoint
from gua.state.compression import decompress

REQUEST = decompress(spooled(1).blob)


@pytest.mark.parametrize(
    ("protocol", "absent"),
    [
        ("http/protobuf", ("grpc",)),
        ("grpc", ("urllib3",)),
    ],
)
def test_only_the_protocol_that_is_spoken_is_loaded(protocol: str, absent: tuple[str, ...]) -> None:
    """An agent over HTTP has 45 MB; each of these would take 5 to 20 of them."""
    code = (
        "import sys; from gua.otlp.send import open_endpoint\n"
        f"before = {{*sys.modules}}; assert not before & {{'urllib3', 'grpc'}}, before\n"
        f"open_endpoint('http://127.0.0.1:9', environ={{'OTEL_EXPORTER_OTLP_PROTOCOL': {protocol!r}}}).close()\n"
        f"print(*({{*sys.modules}} & {{*{absent!r}}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_the_message_of_a_call_over_grpc_is_sent_as_it_is() -> None:
    with GrpcReceiver() as receiver:
        environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_HEADERS": "x-team=lab"}
        transport = GrpcTransport(read_settings(receiver.url, environ))
        transport.send(transport.pack([REQUEST]))
        assert receiver.requests[0].body == REQUEST
        transport.close()


@pytest.mark.parametrize("variable", ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_METRIC_EXPORT_INTERVAL"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_variables_of_the_sdk_do_not_concern_delivery(variable: str, protocol: str) -> None:
    receiver = GrpcReceiver if protocol == "grpc" else HttpReceiver
    with receiver() as received:
        code = (
            "from gua.core.ports import SpooledTick; from gua.otlp.send import open_endpoint\n"
            f"tick = SpooledTick(id=1, ts_ms=1, raw_length={len(REQUEST)}, blob={spooled(1).blob!r})\n"
            f"endpoint = open_endpoint({received.url!r}, environ={{'OTEL_EXPORTER_OTLP_PROTOCOL': {protocol!r}}})\n"
            "assert endpoint.land([tick]) == []\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={variable: "nonsense"}
        )
        assert [request.body for request in received.requests] != []
    assert (done.stdout, done.stderr) == ("", "")


def test_a_vanished_certificate_is_reported() -> None:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"}
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem"):
        GrpcTransport(read_settings("https://localhost:4317", environ))
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem"):
        open_endpoint("https://localhost:4317", environ=environ)
