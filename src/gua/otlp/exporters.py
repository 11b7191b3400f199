"""The parts of OpenTelemetry's exporters that delivery goes through; the only place that knows names not public.

The spool holds requests that are encoded already, while an exporter's ``export()`` encodes, hides the status that
tells an outage from a refusal, and drops after 10 s. So the parts below it are used: the client of the HTTP exporter
(without the SDK around it, which would cost the agent 7 MB), and the channel of the gRPC exporter. pyproject.toml
pins the minor version, tests/unit/otlp/test_exporters.py says what is relied on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gua.core.errors import UsageError
from gua.otlp.endpoint import Settings

if TYPE_CHECKING:
    import requests

USER_AGENT = "gua"


@dataclass(frozen=True, slots=True)
class HttpClient:
    """``post`` sends one body within the timeout and returns the exporter's result, whatever became of it.

    The result has ``response`` (a ``requests.Response`` or ``None``) and ``error`` (an exception or ``None``).
    """

    post: Callable[[bytes], Any]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class GrpcClient:
    """``export`` calls with bytes, metadata and timeout, and returns the answer's bytes or raises ``grpc.RpcError``."""

    export: Callable[..., bytes]
    close: Callable[[], None]


def http_client(settings: Settings, session: requests.Session) -> HttpClient:
    """Return the HTTP exporter's client over ``session``, which it gives its TLS settings."""
    from opentelemetry.exporter.http.transport._requests import RequestsHTTPTransport  # noqa: PLC0415 - above
    from opentelemetry.exporter.otlp.common import http  # noqa: PLC0415 - only for those who send over HTTP

    certificate, key = settings.client_certificate, settings.client_key
    pair = (str(certificate), str(key)) if certificate and key else str(certificate) if certificate else None
    client = http._OTLPHTTPClient(  # noqa: SLF001 - see above
        transport=RequestsHTTPTransport(
            verify=str(settings.certificate) if settings.certificate else True, cert=pair, session=session
        ),
        endpoint=settings.url,
        kind="metrics",
        timeout=settings.timeout_seconds,
        compression=http.Compression.from_str(settings.compression),
        headers={
            **settings.headers,
            "content-type": "application/x-protobuf",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
        },
    )
    # One attempt, and a second one where a connection that was kept open turns out to be closed.
    return HttpClient(
        post=lambda body: client._submit(body, settings.timeout_seconds),  # noqa: SLF001 - see above
        close=client.shutdown,
    )


def grpc_client(settings: Settings) -> GrpcClient:
    """Return a client on a new channel of the gRPC exporter. Raises :class:`UsageError` if that cannot be made."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else its core writes to stderr what the errors say, too
    import grpc  # noqa: PLC0415 - only for those who send over gRPC

    try:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - as above

        # Of its own pool, so that a new channel is a new connection.
        options: Any = (("grpc.primary_user_agent", USER_AGENT), ("grpc.use_local_subchannel_pool", 1))
        exporter = OTLPMetricExporter(
            endpoint=urlsplit(settings.url).netloc,
            insecure=not settings.secure,
            credentials=_credentials(settings) if settings.secure else None,
            timeout=settings.timeout_seconds,
            compression=grpc.Compression.Gzip if settings.compression == "gzip" else grpc.Compression.NoCompression,
            channel_options=options,
            retryable_error_codes=(grpc.StatusCode.UNAVAILABLE,),  # not used, but else read from the environment
        )
    except ValueError as error:  # the SDK reads OTEL_* of its own as it is imported
        msg = f"OpenTelemetry cannot use its settings: {error}: correct or unset that variable"
        raise UsageError(msg) from None
    channel: Any = exporter._channel  # noqa: SLF001 - see above
    # No serializer: the bytes go as they are.
    export = channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
    return GrpcClient(export=export, close=exporter.shutdown)


def _credentials(settings: Settings) -> Any:  # noqa: ANN401 - grpc has no types
    import grpc  # noqa: PLC0415 - as above

    certificate = settings.client_certificate
    key = settings.client_key or certificate
    try:
        return grpc.ssl_channel_credentials(
            root_certificates=settings.certificate.read_bytes() if settings.certificate else None,
            private_key=key.read_bytes() if key else None,
            certificate_chain=certificate.read_bytes() if certificate else None,
        )
    except OSError as error:
        msg = f"cannot read {error.filename} ({error.strerror}): it was there before, restore it"
        raise UsageError(msg) from None
