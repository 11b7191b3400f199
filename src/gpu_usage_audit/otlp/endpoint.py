"""Where and how to send: the endpoint's URL and the OTEL_EXPORTER_OTLP_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from gpu_usage_audit.core.errors import UsageError
from gpu_usage_audit.otlp.resource import parse_pairs

_TIMEOUT_SECONDS = 10.0


def metrics_url(url: str) -> str:
    """Return the URL to post to. Raises :class:`UsageError` unless it is http(s) with a host."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if parts.username is not None or parts.password is not None:
            msg = "the endpoint's URL holds a user or password: put them into OTEL_EXPORTER_OTLP_HEADERS instead"
            raise UsageError(msg)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in url):
        msg = f"{url!r} is not an endpoint: give an http(s) URL, as in http://localhost:4318"
        raise UsageError(msg)
    return urlunsplit(parts._replace(path="/v1/metrics")) if parts.path in ("", "/") else url


def headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's headers, OTEL_EXPORTER_OTLP_HEADERS and its METRICS form. Raises :class:`UsageError`."""
    pairs = {
        key: value
        for variable in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS")
        for key, value in parse_pairs(variable, environ).items()
    }
    for key, value in pairs.items():
        if not (key + value).isprintable() or not (key + value).isascii():
            msg = f"OTEL_EXPORTER_OTLP_HEADERS: {key!r} cannot be sent as an HTTP header: correct or unset it"
            raise UsageError(msg)
    return pairs


def timeout_seconds(environ: Mapping[str, str]) -> float:
    """Return OTEL_EXPORTER_OTLP_TIMEOUT, in milliseconds as OpenTelemetry specifies it, or its METRICS form, else 10 s.

    Raises :class:`UsageError`.
    """
    for variable in ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        text = environ.get(variable, "").strip()
        if text:
            if not text.isascii() or not text.isdigit() or int(text) == 0:
                msg = f"{variable} is {text!r}: give a whole number of milliseconds, as in 10000"
                raise UsageError(msg)
            return int(text) / 1000
    return _TIMEOUT_SECONDS
