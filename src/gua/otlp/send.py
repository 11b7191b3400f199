"""Export of spooled ticks to an OTLP endpoint, over HTTP or gRPC."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol, TypeVar

from gua.core.batches import in_batches
from gua.core.errors import DataError, TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.otlp.endpoint import Acceptance, check_files, read_settings
from gua.state.compression import decompress
from gua.state.enrollment import Enrollment

PATIENCE_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 30.0

T = TypeVar("T")


class Transport(Protocol):
    """Client of one endpoint. ``close`` may be called from any thread and aborts the request in progress."""

    max_request_bytes: int
    """Maximum size of a request before compression [bytes]."""

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return the body of one request that merges these OTLP requests.

        Concatenated protobuf messages of one type are their merge: one request with all resources.
        """

    def send(self, body: bytes) -> Acceptance:
        """Send once, within the timeout.

        Raises TransientError for a temporary failure, DataError if the content is refused, and UnavailableError if
        every request would fail with these settings.
        """

    def close(self) -> None:
        """Close the connections."""


@dataclass(eq=False)
class OtlpEndpoint:
    """Client of an OTLP metrics endpoint; a :class:`~gua.core.ports.Landing`.

    Retries temporary failures for ``patience_seconds`` per request; 0 means one attempt.
    ``shown`` is the address without secrets.
    """

    transport: Transport
    shown: str
    _: KW_ONLY
    patience_seconds: float = PATIENCE_SECONDS
    sleep: Callable[[float], object] | None = None

    def __post_init__(self) -> None:
        self._closed = threading.Event()
        self._probed = False
        self.rejected_points = 0
        """Points that the endpoint reported as rejected in accepted requests ("partial success")."""
        self.rejected_reason: str | None = None
        """The endpoint's last message about them, or about a refused request."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Send the batch, oldest first, split by the transport's size limit; return permanently refused ticks.

        A refused request is bisected down to the ticks at fault. Raises :class:`TransientError` after
        ``patience_seconds``, :class:`UnavailableError` for a wrong endpoint or wrong settings.
        """
        refused: list[SpooledTick] = []
        self._probed = False
        for part in in_batches(batch, self.transport.max_request_bytes, lambda tick: tick.raw_length):
            sound: list[SpooledTick] = []
            for tick in part:
                try:
                    decompress(tick.blob)
                except ValueError as error:
                    self.rejected_reason = str(error)
                    refused.append(tick)
                else:
                    sound.append(tick)
            refused += self._send(sound)
        return refused

    def close(self) -> None:
        """Close the connection; from another thread, also abort the request in progress and the wait for a retry."""
        self._closed.set()
        self.transport.close()

    def _send(self, ticks: Sequence[SpooledTick]) -> list[SpooledTick]:
        if not ticks:
            return []
        try:
            self._deliver(decompress(tick.blob) for tick in ticks)  # decompressed again to save memory
        except DataError as error:
            if not self._probed:
                try:
                    self._deliver(())
                except DataError as refused:  # an OTLP receiver must accept an empty request
                    msg = f"{refused} even to an empty request: check the URL, it may be no OTLP receiver"
                    raise UnavailableError(msg) from refused
                self._probed = True
            self.rejected_reason = str(error)
            if len(ticks) == 1:
                return [ticks[0]]
            middle = len(ticks) // 2
            return self._send(ticks[:middle]) + self._send(ticks[middle:])
        return []

    def _deliver(self, raws: Iterable[bytes]) -> None:
        body = self.transport.pack(raws)
        sleep = self.sleep or self._closed.wait
        send_with_retry(lambda: self._attempt(body), patience_seconds=self.patience_seconds, sleep=sleep)

    def _attempt(self, body: bytes) -> None:
        if self._closed.is_set():
            raise UnavailableError(f"cannot reach {self.shown} (delivery was stopped)")
        acceptance = self.transport.send(body)
        self.rejected_points += acceptance.rejected_points
        if acceptance.rejected_points or acceptance.reason:
            self.rejected_reason = acceptance.reason


def open_endpoint(
    url: str | None,
    *,
    environ: Mapping[str, str],
    enrollment: Enrollment | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    sleep: Callable[[float], object] | None = None,
) -> OtlpEndpoint:
    """Return a client for ``url``, or for the endpoint in ``environ``; sends nothing yet.

    ``/v1/metrics`` is appended to an HTTP URL without a path. Reads OTEL_EXPORTER_OTLP_* from ``environ`` (PROTOCOL,
    HEADERS, TIMEOUT in milliseconds, COMPRESSION, CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY, INSECURE); their METRICS
    forms take precedence. An ``enrollment`` replaces protocol, token and certificate. Proxies come from the process
    environment, by the rules of `requests` and gRPC.

    Raises :class:`UsageError` for an unusable setting. The caller closes the client.
    """
    settings = read_settings(url, environ, enrollment)
    if settings.secure:
        check_files(settings)
    # Imports only the protocol in use: each takes 15 to 25 MB.
    transport: Transport
    if settings.protocol == "grpc":
        from gua.otlp.over_grpc import GrpcTransport  # noqa: PLC0415 - see above

        transport = GrpcTransport(settings)
    else:
        from gua.otlp.over_http import HttpTransport  # noqa: PLC0415 - see above

        transport = HttpTransport(settings)
    return OtlpEndpoint(transport, settings.shown, patience_seconds=patience_seconds, sleep=sleep)


def send_with_retry(
    attempt: Callable[[], T],
    *,
    patience_seconds: float,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> T:
    """Return the result of ``attempt``, retrying after each :class:`TransientError` within ``patience_seconds``.

    Waits are uniform between 0 and a bound that doubles from 0.5 s to 30 s ("full jitter"). The server's retry delay
    applies if it is longer. Raises the last error as soon as the next wait would exceed ``patience_seconds`` from
    the first failure.
    """
    bound = _FIRST_SECONDS
    deadline: float | None = None
    while True:
        try:
            return attempt()
        except TransientError as error:
            now = monotonic()
            deadline = now + patience_seconds if deadline is None else deadline
            wait = max(bound * jitter(), error.retry_after_seconds or 0.0)
            if now + wait > deadline:
                raise
            sleep(wait)
            bound = min(bound * 2, _LONGEST_SECONDS)
