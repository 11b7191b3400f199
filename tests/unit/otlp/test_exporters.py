"""What delivery relies on in OpenTelemetry's exporters, of which not all is public.

A failure here means that the pinned packages have moved: adapt otlp/exporters.py, then the range in pyproject.toml.
"""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import requests

from fakes.otlp import Answer, GrpcReceiver, HttpReceiver
from fakes.spooled import spooled
from gua.core.errors import UsageError
from gua.otlp.endpoint import read_settings
from gua.otlp.exporters import grpc_client, http_client
from gua.otlp.send import open_endpoint
from gua.state.compression import decompress

REQUEST = decompress(spooled(1).blob)


def test_the_client_of_the_http_exporter_posts_bytes_once_and_returns_the_response() -> None:
    with HttpReceiver() as receiver, requests.Session() as session:
        receiver.script = [Answer(status=503)]
        environ = {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        client = http_client(read_settings(receiver.url, environ), session)
        result = client.post(REQUEST)
        assert (result.response.status_code, result.error) == (503, None)
        assert [request.body for request in receiver.requests] == [REQUEST]
        client.close()


def test_the_client_of_the_http_exporter_leaves_the_answer_to_be_read() -> None:
    with HttpReceiver() as receiver, requests.Session() as session:
        session.stream = True
        receiver.script = [Answer(body=b"x" * 100)]
        client = http_client(read_settings(receiver.url, {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"}), session)
        assert client.post(REQUEST).response.raw.read(10) == b"x" * 10
        client.close()


def test_the_transport_of_the_http_exporter_puts_tls_into_the_session_and_follows_nothing() -> None:
    from opentelemetry.exporter.http.transport._requests import RequestsHTTPTransport  # noqa: PLC0415 - what is tested

    with requests.Session() as session:
        RequestsHTTPTransport(verify="ca.pem", cert=("client.pem", "client.key"), session=session)
        assert (session.verify, session.cert) == ("ca.pem", ("client.pem", "client.key"))
    assert "allow_redirects=False" in inspect.getsource(RequestsHTTPTransport.request)


def test_the_channel_of_the_grpc_exporter_takes_bytes_as_they_are() -> None:
    with GrpcReceiver() as receiver:
        client = grpc_client(read_settings(receiver.url, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}))
        assert client.export(REQUEST, metadata=(("x-team", "lab"),), timeout=5) == b""
        assert receiver.requests[0].body == REQUEST
        client.close()


@pytest.mark.parametrize(
    ("protocol", "absent"),
    [("http/protobuf", ("google.protobuf", "grpc", "opentelemetry.sdk.metrics")), ("grpc", ("requests", "urllib3"))],
)
def test_only_the_protocol_that_is_spoken_is_loaded(protocol: str, absent: tuple[str, ...]) -> None:
    """An agent over HTTP has 45 MB; each of these would take 5 to 20 of them."""
    code = (
        "import sys; from gua.otlp.send import open_endpoint\n"
        f"before = {{*sys.modules}}; assert not before & {{{absent!r}[0], 'requests', 'grpc'}}, before\n"
        f"open_endpoint('http://127.0.0.1:9', environ={{'OTEL_EXPORTER_OTLP_PROTOCOL': {protocol!r}}}).close()\n"
        f"print(*({{*sys.modules}} & {{*{absent!r}}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "variable", ["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES"]
)
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_variables_of_the_sdk_never_end_in_a_traceback(variable: str, protocol: str) -> None:
    code = (
        "import os; from gua.otlp.send import open_endpoint\n"
        "from gua.core.errors import UsageError\n"
        f"try: open_endpoint('http://127.0.0.1:9', environ={{'OTEL_EXPORTER_OTLP_PROTOCOL': {protocol!r}}}).close()\n"
        "except UsageError as error: print(error)"
    )
    environ = {variable: "nonsense"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environ)
    assert done.stderr == ""
    assert done.stdout == "" or variable in done.stdout


def test_a_certificate_that_vanished_is_told() -> None:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"}
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem"):
        grpc_client(read_settings("https://localhost:4317", environ))
    with pytest.raises(UsageError, match=r"/nowhere/ca\.pem"):
        open_endpoint("https://localhost:4317", environ=environ)
