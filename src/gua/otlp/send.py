"""Spooled ticks to an OTLP endpoint, over HTTP or gRPC."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from gua.core.batches import in_batches
from gua.core.errors import DataError, TransientError, UnavailableError
from gua.core.ports import SpooledTick
from gua.otlp.answer import Acceptance
from gua.otlp.endpoint import Settings, check_files, read_settings
from gua.state.compression import decompress
from gua.state.enrollment import Enrollment

PATIENCE_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 30.0

T = TypeVar("T")


class Transport(Protocol):
    """A way to one endpoint. ``close`` may be called from any thread and ends the attempt in progress."""

    max_request_bytes: int
    """How large a request may be before compression."""

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return what is sent for these OTLP requests, as one.

        Messages of one type joined are their merge: one request with the resources of all.
        """
        ...

    def send(self, body: bytes) -> Acceptance:
        """Send once, within the timeout.

        Raises TransientError for what may pass, DataError if this content is refused, and UnavailableError if
        nothing would be taken as long as the settings stay.
        """
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...


class OtlpEndpoint:
    """An OTLP receiver of metrics; a :class:`~gua.core.ports.Landing`.

    Failures that may pass are tried again for ``patience_seconds`` a request; with 0 each request is sent once.
    ``shown`` is the address without secrets.
    """

    def __init__(
        self,
        transport: Transport,
        shown: str,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._transport = transport
        self.shown = shown
        self._patience_seconds = patience_seconds
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._probed = False
        self.rejected_points = 0
        """Points that the endpoint said it left out of requests it otherwise took ("partial success")."""
        self.rejected_reason: str | None = None
        """What the endpoint last said of them, or of a request that it refused."""

    def land(self, batch: Sequence[SpooledTick]) -> Sequence[SpooledTick]:
        """Send the batch, oldest first, in requests that the transport allows; return the ticks refused for good.

        A request that the endpoint refuses is halved until the ticks at fault stand alone. Raises
        :class:`TransientError` when patience is over, :class:`UnavailableError` if the endpoint is the wrong one.
        """
        refused: list[SpooledTick] = []
        self._probed = False
        for part in in_batches(batch, self._transport.max_request_bytes, lambda tick: tick.raw_length):
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
        """Let go of the connection; from another thread it also ends the request in progress, and the waiting."""
        self._closed.set()
        self._transport.close()

    def _send(self, ticks: Sequence[SpooledTick]) -> list[SpooledTick]:
        if not ticks:
            return []
        try:
            self._deliver(decompress(tick.blob) for tick in ticks)  # unpacked again: not all are in memory at once
        except DataError as error:
            self._probe()
            self.rejected_reason = str(error)
            if len(ticks) == 1:
                return [ticks[0]]
            middle = len(ticks) // 2
            return self._send(ticks[:middle]) + self._send(ticks[middle:])
        return []

    def _probe(self) -> None:
        """Make sure that it is the ticks that are refused: an OTLP receiver takes a request without any."""
        if not self._probed:
            try:
                self._deliver(())
            except DataError as error:
                msg = f"{error} even to an empty request: check the URL, it may be no OTLP receiver"
                raise UnavailableError(msg) from error
            self._probed = True

    def _deliver(self, raws: Iterable[bytes]) -> None:
        body = self._transport.pack(raws)
        send_with_retry(lambda: self._attempt(body), patience_seconds=self._patience_seconds, sleep=self._sleep)

    def _attempt(self, body: bytes) -> None:
        if self._closed.is_set():
            msg = f"cannot reach {self.shown} (delivery was stopped)"
            raise UnavailableError(msg)
        taken = self._transport.send(body)
        self.rejected_points += taken.rejected_points
        if taken.rejected_points or taken.reason:
            self.rejected_reason = taken.reason


def open_endpoint(
    url: str | None,
    *,
    environ: Mapping[str, str],
    enrollment: Enrollment | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    sleep: Callable[[float], object] | None = None,
) -> OtlpEndpoint:
    """Return the endpoint at ``url``, or at the one that ``environ`` names; nothing is sent yet.

    ``/v1/metrics`` is appended to an HTTP URL without a path. OTEL_EXPORTER_OTLP_* are honoured from ``environ``
    (PROTOCOL, HEADERS, TIMEOUT in milliseconds, COMPRESSION, CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY, INSECURE),
    each with its METRICS form before it; an ``enrollment`` brings protocol, token and certificate instead. Proxies are
    the environment's, as `requests` and gRPC read them.

    Raises :class:`UsageError` for a setting that cannot be used. Close it after use.
    """
    settings = read_settings(url, environ, enrollment)
    if settings.secure:
        check_files(settings)
    return OtlpEndpoint(_transport(settings), settings.shown, patience_seconds=patience_seconds, sleep=sleep)


def send_with_retry(
    attempt: Callable[[], T],
    *,
    patience_seconds: float,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> T:
    """Return what ``attempt`` returns, calling it again after each :class:`TransientError` while patience lasts.

    Waits are drawn evenly from 0 to a bound that doubles from 0.5 s to 30 s ("full jitter"), or are what the
    server asked for if that is longer. The last error is raised as soon as the next wait would outlast
    ``patience_seconds``, counted from the first failure.
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


def _transport(settings: Settings) -> Transport:
    # Only the one that is spoken is imported: each brings 15 to 25 MB of its own.
    if settings.protocol == "grpc":
        from gua.otlp.over_grpc import GrpcTransport  # noqa: PLC0415 - see above

        return GrpcTransport(settings)
    from gua.otlp.over_http import HttpTransport  # noqa: PLC0415 - see above

    return HttpTransport(settings)
