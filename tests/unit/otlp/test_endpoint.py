from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.errors import UsageError
from gua.otlp import endpoint
from gua.otlp.endpoint import absolute_files, configured_endpoint, read_settings
from gua.otlp.send import open_endpoint

URL = "http://localhost:4318"


def otlp(**variables: str) -> dict[str, str]:
    return {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}


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
    ["", "localhost:4318", "grpc://localhost", "http://", "http://a:b", "http://a:99999", "http://a b", "http://[x",
     "http://a\x1b[2J", "http://a\n"],
)  # fmt: skip
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="http://localhost:4318"):
        endpoint.metrics_url(url)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_password_in_the_url_is_refused_and_not_repeated(protocol: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_settings("https://ada:secret@otel.example:1", otlp(PROTOCOL=protocol))
    assert "secret" not in str(raised.value)


def test_a_query_is_posted_to_but_not_shown() -> None:
    settings = read_settings("https://otel.example/v1/metrics?key=secret", {})
    assert settings.url == "https://otel.example/v1/metrics?key=secret"
    assert settings.shown == "https://otel.example/v1/metrics"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, None),
        (otlp(ENDPOINT=" "), None),
        (otlp(ENDPOINT="http://a:4318"), "http://a:4318/v1/metrics"),
        (otlp(ENDPOINT="http://a:4318/otlp/"), "http://a:4318/otlp/v1/metrics"),
        (otlp(ENDPOINT="http://a/?key=1"), "http://a/v1/metrics?key=1"),
        (otlp(ENDPOINT="http://a:4317", PROTOCOL="grpc"), "http://a:4317"),
        (otlp(ENDPOINT="http://a", METRICS_ENDPOINT="http://b/x"), "http://b/x"),
        (otlp(METRICS_ENDPOINT="http://b:1"), "http://b:1"),
    ],
)
def test_the_environment_names_an_endpoint_as_opentelemetry_says(environ: dict[str, str], url: str | None) -> None:
    assert configured_endpoint(environ) == url


def test_the_endpoint_of_metrics_is_taken_as_it_is() -> None:
    environ = otlp(METRICS_ENDPOINT="http://b:1")
    assert read_settings(None, environ).url == "http://b:1"
    assert read_settings(configured_endpoint(environ), environ).url == "http://b:1"
    assert read_settings("http://c:1", environ).url == "http://c:1/v1/metrics"


def test_without_an_endpoint_there_is_nowhere_to_send() -> None:
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        open_endpoint(None, environ={})


@pytest.mark.parametrize(
    ("url", "variables", "target"),
    [
        ("http://a:4317", {}, "http://a:4317"),
        ("https://a:4317/v1/metrics", {}, "https://a:4317"),
        ("https://a", {}, "https://a:443"),
        ("http://a", {}, "http://a:80"),
        ("http://[::1]:4317", {}, "http://[::1]:4317"),
        ("a:4317", {}, "https://a:4317"),
        ("a:4317", {"INSECURE": "true"}, "http://a:4317"),
        ("a:4317", {"INSECURE": "true", "METRICS_INSECURE": "false"}, "https://a:4317"),
        ("https://a:4317", {"INSECURE": "true"}, "https://a:4317"),
    ],
)
def test_grpc_uses_tls_by_default(url: str, variables: dict[str, str], target: str) -> None:
    assert read_settings(url, otlp(PROTOCOL="grpc", **variables)).shown == target


@pytest.mark.parametrize("url", ["a", "", "a b:1", "ftp://a:1", "a:0"])
def test_what_is_no_address_for_grpc_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        read_settings(url, otlp(PROTOCOL="grpc"))


def test_the_protocol_is_http_unless_the_environment_says_grpc() -> None:
    assert read_settings(URL, {}).protocol == "http/protobuf"
    assert read_settings(URL, otlp(PROTOCOL="grpc")).protocol == "grpc"
    assert read_settings(URL, otlp(PROTOCOL="grpc", METRICS_PROTOCOL="http/protobuf")).protocol == "http/protobuf"


def test_the_port_of_the_other_protocol_gives_a_hint() -> None:
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in read_settings("http://a:4317", {}).hint
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in read_settings("http://a:4318", otlp(PROTOCOL="grpc")).hint
    assert read_settings("http://a:4318", {}).hint == read_settings("http://a:4317", otlp(PROTOCOL="grpc")).hint == ""


def test_the_form_for_metrics_wins() -> None:
    environ = otlp(
        HEADERS="authorization=all", METRICS_HEADERS="X-Team=lab",
        TIMEOUT="1000", METRICS_TIMEOUT="2500",
        COMPRESSION="gzip", METRICS_COMPRESSION="none",
        CERTIFICATE="a.pem", METRICS_CERTIFICATE="b.pem",
    )  # fmt: skip
    settings = read_settings(URL, environ)
    assert settings.headers == {"x-team": "lab"}
    assert (settings.timeout_seconds, settings.compression, str(settings.certificate)) == (2.5, "none", "b.pem")


def test_without_settings_it_is_gzip_and_ten_seconds() -> None:
    settings = read_settings(URL, {})
    assert (settings.headers, settings.timeout_seconds, settings.compression) == ({}, 10.0, "gzip")
    assert (settings.certificate, settings.client_certificate, settings.client_key) == (None, None, None)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a%0a=b"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "nothing"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=%C3%A4"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "9" * 5000),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "3600001"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "thrift"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable) as raised:
        open_endpoint(URL, environ={variable: value})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "deflate"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key-bin=b"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "grpc-timeout=1"),
    ],
)
def test_what_grpc_does_not_have_is_named(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable):
        open_endpoint("http://localhost:4317", environ={variable: value, **otlp(PROTOCOL="grpc")})


def test_the_files_that_variables_name_are_the_same_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
        "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY": "/etc/key.pem",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "",
        "OTEL_EXPORTER_OTLP_HEADERS": "a=b",
    }
    assert absolute_files(named) == {
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ca.pem"),
        "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY": "/etc/key.pem",
    }
