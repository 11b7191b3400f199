"""Spooled ticks to an OTLP/HTTP endpoint, protobuf and gzip."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import URLError

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from gpu_usage_audit.core.compression import decompress
from gpu_usage_audit.core.errors import DataError, TransientError, UnavailableError
from gpu_usage_audit.core.ports import SpooledTick
from gpu_usage_audit.otlp import endpoint
from gpu_usage_audit.otlp.post import Answer, Post, Request, post_with_urllib
from gpu_usage_audit.otlp.retry import send_with_retry

MAX_REQUEST_BYTES = 4 * 2**20
PATIENCE_SECONDS = 60.0
_MAX_REASON = 200
_RETRYABLE = (408, 429, 500, 502, 503, 504)
# What the endpoint says of this request's content. Every other refusal (404, 401, ...) is about the URL or the
# credentials: no tick is to blame for it, and none may be given up for it.
_REFUSED = (400, 413, 422)


class HttpEndpoint:
    """An OTLP/HTTP receiver of metrics; a :class:`~gpu_usage_audit.core.ports.Landing`.

    ``/v1/metrics`` is appended to ``url`` if it has no path. OTEL_EXPORTER_OTLP_HEADERS and
    OTEL_EXPORTER_OTLP_TIMEOUT (milliseconds), and their METRICS forms, are honoured from ``environ``; proxies as
    urllib does. Failures that may pass are tried again for ``patience_seconds`` a request.

    Raises :class:`UsageError` for a URL, header or timeout that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        environ: Mapping[str, str],
        patience_seconds: float = PATIENCE_SECONDS,
        post: Post | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = endpoint.metrics_url(url)
        self._shown = self._url.partition("?")[0]  # a query may hold a key
        self._headers = {
            **endpoint.headers(environ),
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": "gpu-usage-audit",
        }
        self._timeout_seconds = endpoint.timeout_seconds(environ)
        self._patience_seconds = patience_seconds
        self._post = post or post_with_urllib
        self._sleep = sleep
        self._probed = False
        self.rejected_points = 0
        """Points that the endpoint said it left out of requests it otherwise took ("partial success")."""
        self.rejected_reason: str | None = None
        """What the endpoint last said of them, or of a request that it refused."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Send the batch, oldest first, in requests of at most 4 MiB; return the ticks refused for good.

        A request that the endpoint refuses is halved until the ticks at fault stand alone. Raises
        :class:`TransientError` when patience is over, :class:`UnavailableError` if the endpoint is the wrong one.
        """
        refused: list[SpooledTick] = []
        self._probed = False
        for part in _parts(batch):
            sound: list[tuple[SpooledTick, bytes]] = []
            for tick in part:
                try:
                    sound.append((tick, decompress(tick.blob)))
                except ValueError as error:
                    self.rejected_reason = str(error)
                    refused.append(tick)
            refused += self._send(sound)
        return refused

    def _send(self, ticks: Sequence[tuple[SpooledTick, bytes]]) -> list[SpooledTick]:
        if not ticks:
            return []
        try:
            # Messages of one type joined are their merge: the resources of all ticks in one request.
            self._deliver(b"".join(raw for _, raw in ticks))
        except DataError as error:
            self._probe()
            self.rejected_reason = str(error)
            if len(ticks) == 1:
                return [ticks[0][0]]
            middle = len(ticks) // 2
            return self._send(ticks[:middle]) + self._send(ticks[middle:])
        return []

    def _probe(self) -> None:
        """Make sure that it is the ticks that are refused: an OTLP receiver takes a request without any."""
        if not self._probed:
            try:
                self._deliver(b"")
            except DataError as error:
                msg = f"{error} even to an empty request: check the URL, it may be no OTLP/HTTP receiver"
                raise UnavailableError(msg) from error
            self._probed = True

    def _deliver(self, raw: bytes) -> None:
        body = gzip.compress(raw, compresslevel=5, mtime=0)
        send_with_retry(lambda: self._attempt(body), patience_seconds=self._patience_seconds, sleep=self._sleep)

    def _attempt(self, body: bytes) -> None:
        request = Request(url=self._url, headers=self._headers, body=body, timeout_seconds=self._timeout_seconds)
        try:
            answer = self._post(request)
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error
        if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            self._note_partial_success(answer.body)
            return
        says = f"{self._shown} answered {answer.status} {_phrase(answer)}"
        if answer.status in _RETRYABLE:
            msg = f"{says}: it is overloaded or down, try again later"
            raise TransientError(msg, retry_after_seconds=_retry_after_seconds(answer.retry_after))
        if answer.status in _REFUSED:
            raise DataError(says)
        if answer.status in (401, 403, 407):
            msg = f"{says}: set OTEL_EXPORTER_OTLP_HEADERS to what it asks for (authorization=Bearer%20...)"
            raise UnavailableError(msg)
        msg = f"{says}: check the URL, an OTLP/HTTP receiver listens on port 4318 at /v1/metrics"
        raise UnavailableError(msg)

    def _unreachable(self, error: Exception) -> UnavailableError:
        reason = error.reason if isinstance(error, URLError) else error
        text = str(getattr(reason, "strerror", None) or reason) or type(reason).__name__
        if type(reason).__module__ == "ssl":
            if type(reason).__name__ == "SSLCertVerificationError":
                why = str(getattr(reason, "verify_message", text))
                msg = f"{self._shown}: its certificate is not trusted ({why}): set SSL_CERT_FILE to its authority"
                return UnavailableError(msg)
            msg = f"{self._shown}: TLS failed ({text}): does it speak https?"
            return UnavailableError(msg)
        return TransientError(f"cannot reach {self._shown} ({text}): check that it runs")

    def _note_partial_success(self, body: bytes) -> None:
        try:
            partial = ExportMetricsServiceResponse.FromString(body).partial_success
        except DecodeError:
            return
        self.rejected_points += partial.rejected_data_points
        if partial.rejected_data_points or partial.error_message:
            self.rejected_reason = partial.error_message[:_MAX_REASON]


def _parts(batch: Sequence[SpooledTick]) -> Iterator[list[SpooledTick]]:
    part: list[SpooledTick] = []
    length = 0
    for tick in batch:
        if part and length + tick.raw_length > MAX_REQUEST_BYTES:
            yield part
            part, length = [], 0
        part.append(tick)
        length += tick.raw_length
    if part:
        yield part


def _phrase(answer: Answer) -> str:
    """Return the reason in an OTLP error body (a ``google.rpc.Status``), else the status's own name."""
    try:
        said: str = Status.FromString(answer.body).message
    except DecodeError:
        said = answer.body.decode(errors="replace").strip() if b"<" not in answer.body else ""
    if said:
        return f"({said[:_MAX_REASON]})"
    try:
        return HTTPStatus(answer.status).phrase
    except ValueError:
        return ""


def _retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
