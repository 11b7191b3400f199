"""OTLP/gRPC client: sends each message unchanged and maps the status to gua's errors."""

import os
import re
import threading
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from gua.core.errors import DataError, GuaError, TransientError, UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.otlp.endpoint import Acceptance, Settings, parse_acceptance

USER_AGENT: Final = "gua"
_MAX_DETAILS: Final = 200
# A new connection reaches a server that has moved, or replaces a connection that died silently.
_RECONNECT: Final = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
# Messages of grpc-go, grpc core and grpc-java for requests that are too large, or that they cannot parse.
_TOO_LARGE: Final = re.compile(r"larger than max|exceeds maximum|too large", re.IGNORECASE)
_UNREADABLE: Final = re.compile(r"unmarshal|deserializ|proto: ", re.IGNORECASE)
_UNTRUSTED: Final = re.compile(
    r"certificate.verify.failed|hostname verification|peer name .* not in peer", re.IGNORECASE
)
_CLIENT_CERTIFICATE: Final = re.compile(r"certificate.required|alert handshake failure|bad certificate", re.IGNORECASE)
_HUNG_UP: Final = re.compile(r"socket closed|connection reset|broken pipe", re.IGNORECASE)
_NOT_GRPC: Final = re.compile(r"failed parsing http/2|http1", re.IGNORECASE)
_TLS: Final = re.compile(r"handshake failed|ssl_error_ssl|wrong.version", re.IGNORECASE)


class GrpcTransport:
    """:class:`~gua.otlp.send.Transport` for gRPC; one channel, reopened after a failed connection."""

    # Servers accept messages of up to 4 MiB, framing included; a request may be in memory three times.
    max_request_bytes = 2 * 2**20

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._closed = False
        self._channel: Any = _opened(settings)

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return the requests as one message; the channel compresses it."""
        return b"".join(raws)

    def send(self, body: bytes) -> Acceptance:
        """Send once. Raises the errors of ``Transport.send``."""
        from grpc import RpcError  # noqa: PLC0415 - imported by _opened before

        try:
            call = self._connected().unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
            response: bytes = call(
                body, metadata=tuple(self._settings.headers.items()), timeout=self._settings.timeout_seconds
            )
        except RpcError as error:
            raise self._refusal(error) from error
        except ValueError as error:  # grpc raises it for a call on a channel that close() closed meanwhile
            raise self._stopped() from error
        return parse_acceptance(response)

    def close(self) -> None:
        """Cancel the call in progress and close the channel."""
        self._closed = True
        self._disconnect()

    def _connected(self) -> Any:  # noqa: ANN401 - grpc is untyped
        with self._lock:
            if self._closed:
                raise self._stopped()
            if self._channel is None:
                self._channel = _opened(self._settings)
            return self._channel

    def _disconnect(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _stopped(self) -> TransientError:
        return TransientError(f"cannot reach {self._settings.shown} (delivery was stopped)")

    def _refusal(self, error: Any) -> GuaError:  # noqa: ANN401 - grpc is untyped
        code = error.code().name
        if code in _RECONNECT:
            self._disconnect()
        details = safe(self._settings.without_secrets(str(error.details() or "")))
        refusal = f"{self._settings.shown} answered {code} ({safe(details, _MAX_DETAILS)})"
        hint = self._settings.hint
        if (
            code == "INVALID_ARGUMENT"
            or (code == "RESOURCE_EXHAUSTED" and _TOO_LARGE.search(details))
            or (code == "INTERNAL" and _UNREADABLE.search(details))
        ):
            return DataError(refusal)
        if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            return UnavailableError(f"{refusal}: {self._settings.credentials_remedy}")
        if code in ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "UNIMPLEMENTED"):
            return UnavailableError(f"{refusal}: check the address, an OTLP/gRPC receiver listens on port 4317{hint}")
        if code == "DEADLINE_EXCEEDED":
            msg = f"{self._settings.shown} did not answer within {self._settings.timeout_seconds:g} s"
            return TransientError(f"{msg}: it is slow or down{hint}", retry_after_seconds=_retry_after_seconds(error))
        if code == "UNAVAILABLE":
            return self._unavailable(error, details)
        # Includes RESOURCE_EXHAUSTED without RetryInfo, INTERNAL and UNKNOWN, which OTLP calls not retryable. They do
        # not mean that the ticks are at fault, and a tick that is not retried is lost.
        return TransientError(f"{refusal}: try again later{hint}", retry_after_seconds=_retry_after_seconds(error))

    def _unavailable(self, error: Any, details: str) -> UnavailableError:  # noqa: ANN401 - as above
        shown, hint = self._settings.shown, self._settings.hint
        if self._settings.secure and _UNTRUSTED.search(details):
            return self._settings.untrusted(_last(details))
        needs_certificate = _CLIENT_CERTIFICATE.search(details) is not None
        if self._settings.secure and (needs_certificate or _TLS.search(details)):
            return self._settings.tls_failed(_last(details), client_certificate=needs_certificate)
        if _NOT_GRPC.search(details):
            msg = f"what {shown} answers is not gRPC: check the port{hint or self._settings.other_protocol}"
            return TransientError(msg)
        hint = (self._settings.client_hint if _HUNG_UP.search(details) else "") + hint
        msg = f"cannot reach {shown} ({_last(details)}): check that it runs{hint}"
        return TransientError(msg, retry_after_seconds=_retry_after_seconds(error))


def _opened(settings: Settings) -> Any:  # noqa: ANN401 - grpc is untyped
    """Return a new channel. Raises :class:`UsageError` if a certificate file is unreadable."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # otherwise grpc core repeats the errors on stderr
    import grpc  # noqa: PLC0415 - reads the variable above

    target = urlsplit(settings.url).netloc
    # A local subchannel pool makes a new channel open a new connection.
    options = (("grpc.primary_user_agent", USER_AGENT), ("grpc.use_local_subchannel_pool", 1))
    compression = grpc.Compression.Gzip if settings.compression == "gzip" else grpc.Compression.NoCompression
    if not settings.secure:
        return grpc.insecure_channel(target, options=options, compression=compression)
    certificate = settings.client_certificate
    key = settings.client_key or certificate
    try:
        credentials = grpc.ssl_channel_credentials(
            root_certificates=settings.certificate.read_bytes() if settings.certificate else None,
            private_key=key.read_bytes() if key else None,
            certificate_chain=certificate.read_bytes() if certificate else None,
        )
    except OSError as error:
        raise UsageError(f"cannot read {error.filename} ({error.strerror}): it was there before, restore it") from None
    return grpc.secure_channel(target, credentials, options=options, compression=compression)


def _last(details: str) -> str:
    """Return the end of grpc's error text, which has the reason; its start repeats the address."""
    return details.rpartition("last error: ")[2][-_MAX_DETAILS:]


def _retry_after_seconds(error: Any) -> float | None:  # noqa: ANN401 - as above
    """Return the delay [s] of the RetryInfo in the status details or in its own metadata key; ``None`` without one."""
    trailing, info = dict(error.trailing_metadata() or ()), RetryInfo()
    try:
        if beside := trailing.get("google.rpc.retryinfo-bin"):
            info.ParseFromString(beside)
        else:
            status = Status.FromString(trailing.get("grpc-status-details-bin", b""))
            if not any(detail.Unpack(info) for detail in status.details):
                return None
    except DecodeError:
        return None
    return float(max(info.retry_delay.seconds + info.retry_delay.nanos / 1e9, 0.0))
