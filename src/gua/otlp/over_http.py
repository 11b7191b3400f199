"""Requests to an OTLP/HTTP endpoint: each body sent as it is, and its answer told for what it is."""

from __future__ import annotations

import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from http.client import BadStatusLine, RemoteDisconnected
from typing import Final

import urllib3

from gua.core.errors import DataError, GuaError, TransientError, UnavailableError
from gua.core.plaintext import safe
from gua.otlp import answer
from gua.otlp.answer import Acceptance
from gua.otlp.endpoint import Settings
from gua.otlp.http_pool import HttpPool

USER_AGENT: Final = "gua"
_MAX_ANSWER_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 200
_WBITS: Final = {"gzip": 31, "deflate": 15}  # the zlib format is what HTTP calls deflate (RFC 9110, 8.4.1.2)
_LEVEL: Final = 3
_RETRYABLE: Final = (408, 429, 500, 502, 503, 504)
# What the endpoint says of this request's content. Every other refusal (404, 401, ...) is about the URL or the
# credentials: no tick is to blame for it, and none may be given up for it.
_REFUSED: Final = (400, 413, 422)
# The timeout of `urllib3` is one of each read; past the whole request's, it is cut.
_GRACE_SECONDS: Final = 0.25
_HANG_UPS: Final = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class HttpTransport:
    """A :class:`~gua.otlp.send.Transport`; the connection is kept open between requests."""

    max_request_bytes = 4 * 2**20

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = HttpPool(settings)
        self._headers = {
            **settings.headers,
            "content-type": "application/x-protobuf",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **({} if settings.compression == "none" else {"content-encoding": settings.compression}),
        }
        self._late = False

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return the body; compressed piece by piece, so that no more than that is in memory."""
        if self._settings.compression == "none":
            return b"".join(raws)
        packer = zlib.compressobj(_LEVEL, wbits=_WBITS[self._settings.compression])
        return b"".join([*map(packer.compress, raws), packer.flush()])

    def send(self, body: bytes) -> Acceptance:
        """Send once; see the port for what it raises."""
        self._late = False
        deadline = threading.Timer(self._settings.timeout_seconds + _GRACE_SECONDS, self._give_up)
        deadline.daemon = True
        deadline.start()
        try:
            return self._answered(self._post(body))
        finally:
            deadline.cancel()

    def close(self) -> None:
        """End the request in progress and close the connection."""
        self._pool.stop()

    def _give_up(self) -> None:
        self._late = True
        self._pool.cut()

    def _post(self, body: bytes) -> urllib3.BaseHTTPResponse:
        """Return the answer; a second attempt where a connection that was kept open turns out to be closed."""
        deadline = time.monotonic() + self._settings.timeout_seconds
        answered = self._attempt(body, self._settings.timeout_seconds)
        if isinstance(answered, urllib3.exceptions.ProtocolError | urllib3.exceptions.SSLError):
            left = deadline - time.monotonic()
            answered = self._attempt(body, left) if left > 0 else answered
        if isinstance(answered, urllib3.BaseHTTPResponse):
            return answered
        raise self._unreachable(answered)

    def _attempt(self, body: bytes, timeout_seconds: float) -> urllib3.BaseHTTPResponse | Exception:
        try:
            return self._pool.post(self._headers, body, timeout_seconds)
        except Exception as error:  # noqa: BLE001 - urllib3 lets through what ssl and http.client raise
            # Without the frames that it went through: they hold the body.
            return error.with_traceback(None)

    def _answered(self, response: urllib3.BaseHTTPResponse) -> Acceptance:
        try:
            body = response.read(_MAX_ANSWER_BYTES, decode_content=True)
        except Exception as error:  # noqa: BLE001 - urllib3 lets through what ssl and http.client raise
            raise self._unreachable(error) from None
        finally:
            response.close()
        status = response.status
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return answer.taken(body)
        raise self._refusal(status, self._phrase(status, body), response.headers.get("Retry-After"))

    def _refusal(self, status: int, phrase: str, retry_after: str | None) -> GuaError:
        says = f"{self._settings.shown} answered {status} {phrase}"
        if status in _RETRYABLE:
            msg = f"{says}: it is overloaded or down, try again later"
            return TransientError(msg, retry_after_seconds=answer.retry_after_seconds(retry_after))
        if status in _REFUSED:
            return DataError(says)
        if status in (401, 403, 407):
            msg = f"{says}: {self._settings.credentials_remedy}"
            return UnavailableError(msg)
        msg = f"{says}: check the URL, an OTLP/HTTP receiver listens on port 4318 at /v1/metrics{self._settings.hint}"
        return UnavailableError(msg)

    def _unreachable(self, error: Exception) -> UnavailableError:
        shown, hint = self._settings.shown, self._settings.hint
        causes = [*_causes(error)]
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                msg = (
                    f"{shown}: its certificate is not trusted ({cause.verify_message}): "
                    "set OTEL_EXPORTER_OTLP_CERTIFICATE to the certificate of its authority, or correct the host name"
                )
                return UnavailableError(msg)
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
                return UnavailableError(_tls_failed(shown, str(cause.reason or cause), hint))
        if isinstance(error, ValueError) or (isinstance(error, OSError) and error.filename):
            return UnavailableError(
                f"{shown} cannot be used ({self._one_line(error)}): check URL, proxy and certificates"
            )
        if self._late or any(isinstance(cause, TimeoutError | urllib3.exceptions.ReadTimeoutError) for cause in causes):
            msg = f"{shown} did not answer within {self._settings.timeout_seconds:g} s: it is slow or down{hint}"
            return TransientError(msg)
        through = " through its proxy" if isinstance(error, urllib3.exceptions.ProxyError) else ""
        if any(isinstance(cause, BadStatusLine) and not isinstance(cause, RemoteDisconnected) for cause in causes):
            msg = f"what {shown} answers is not HTTP: check the port{hint or self._settings.other_protocol}"
            return TransientError(msg)
        hung_up = any(isinstance(cause, _HANG_UPS) for cause in causes)
        hint = (self._settings.client_hint if hung_up else "") + hint
        return TransientError(f"cannot reach {shown}{through} ({self._one_line(causes[-1])}): check that it runs{hint}")

    def _phrase(self, status: int, body: bytes) -> str:
        """Return the reason in an OTLP error body, else the status's own name."""
        said = answer.reason(body, without=self._settings.without_secrets)
        if said:
            return f"({said})"
        try:
            return HTTPStatus(status).phrase
        except ValueError:
            return "(unknown)"

    def _one_line(self, error: BaseException) -> str:
        said = self._settings.without_secrets(str(getattr(error, "strerror", None) or error))
        return safe(said, _MAX_REASON) or type(error).__name__


def _tls_failed(shown: str, why: str, hint: str) -> str:
    if "CERTIFICATE_REQUIRED" in why or "HANDSHAKE_FAILURE" in why:
        return (
            f"{shown} wants a client certificate ({why}): "
            "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
        )
    return f"{shown}: TLS failed ({why}): does it speak https?{hint}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, outermost first: each layer has its own way to keep the one below."""
    seen: list[BaseException] = []
    below: BaseException | None = error
    while below is not None and below not in seen:
        seen.append(below)
        yield below
        wrapped = [getattr(below, "reason", None), *reversed(below.args), below.__cause__, below.__context__]
        below = next((inner for inner in wrapped if isinstance(inner, BaseException) and inner not in seen), None)
