"""Prometheus endpoint of an agent: takes ticks from the sampling loop, renders pages, answers HTTP requests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterable
from io import BytesIO
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder, gzip_accepted

from gua.core.idleness import IdleCounters
from gua.core.ports import Clock, Moment
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import ProcessList
from gua.exporter import gpu_idle_exporter
from gua.exporter.address import HostNames, Serving
from gua.exporter.catalogue import Catalogue, add, new_family, target_info
from gua.exporter.server import ARRIVED_AT, PageServer

LATE_INTERVALS: Final = 2
STALE_MS: Final = 30_000
HUNG_MS: Final = 30_000
"""The loop iterates every 5 s, and one reading may wait as long for a driver call that hangs."""
START_MS: Final = 90_000
"""Grace period for the first tick: without persistence mode the driver starts slowly, and a restart repeats that."""
DRIVER: Final = "driver"
_UNREADABLE: Final = "the cards cannot be read"
_LONGEST_REASON: Final = 300
_MOST_ERRORS: Final = 8


class ServingHealth:
    """Health of the sampling loop. Its thread writes, others read without a lock: each attribute is replaced whole."""

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._born = self._alive = Moment.of(clock)
        self._ticked: Moment | None = None
        self._failing: str | None = None
        self._skipped: str | None = None

    def served(self, tick: Tick) -> None:
        """Record a tick; it counts as a failure if no card could be read."""
        failing = _failing(tick)
        self._failing = None if failing is None else f"{_UNREADABLE}: {failing}"
        self._skipped = None
        self._ticked = Moment.of(self._clock)

    def skipped(self, reason: str, message: str, count: int = 1) -> None:  # noqa: ARG002 - the loop's interface
        """Record ticks that could not be made, with the reason."""
        self._skipped = message
        if reason == DRIVER:
            self._failing = f"{_UNREADABLE}: {message}"

    def alive(self) -> None:
        """Record an iteration of the loop."""
        self._alive = Moment.of(self._clock)

    def trouble(self) -> str | None:
        """Return the problem in one line of at most 300 characters, ``None`` if sampling works."""
        failing, skipped, ticked = self._failing, self._skipped, self._ticked
        why = f": {skipped}" if skipped else ""
        if failing is not None:
            message = failing
        elif ticked is None:
            age_ms = self._age_ms(self._born)
            if age_ms <= max(START_MS, LATE_INTERVALS * self._interval_ms):
                return None
            message = f"no tick for {age_ms / 1000:.0f} s since the start{why}"
        elif (age_ms := self._age_ms(ticked)) > LATE_INTERVALS * self._interval_ms:
            due = f"one is due every {self._interval_ms / 1000:g} s"
            message = f"the last tick is {age_ms / 1000:.0f} s old, {due}{why}"
        elif (hung_ms := self._age_ms(self._alive)) > HUNG_MS:
            message = f"the loop that samples has not moved for {hung_ms / 1000:.0f} s{why}"
        else:
            return None
        return " ".join(message.split())[:_LONGEST_REASON]

    def _age_ms(self, then: Moment) -> int:
        return then.age_ms(Moment.of(self._clock))


def _failing(tick: Tick) -> str | None:
    """Return why no card of a tick could be read; ``None`` if one was read, or the driver has no cards.

    Without a driver the agent still lists the cards that it has seen, with unknown state.
    """
    if any(_is_read(card) for card in tick.cards) or not (tick.cards or tick.errors):
        return None
    if tick.cards and all(card.failed for card in tick.cards):
        return "every card is lost or needs a reset"
    codes = [f"{error.call} {error.code}" for error in tick.errors]
    return ", ".join(list(dict.fromkeys(codes))[:_MOST_ERRORS]) or "the driver reported nothing about any card"


def _is_read(card: CardReading) -> bool:
    """Return whether a reading has any measured value. ``failed`` is no evidence: it may just be unknown."""
    memory = (card.memory_used_bytes, card.memory_limit_bytes)
    use = (card.utilization, card.utilization_encoder, card.utilization_decoder)
    others = (card.power_watts, card.temperature_celsius, card.energy_total_mj)
    return card.process_list is ProcessList.KNOWN or {*memory, *use, *others} != {None}


if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_NOT_CALLED_SO: Final = b"this agent is not called so: name it with --prometheus-name or GUA_PROMETHEUS_NAME\n"
_INDEX: Final = b"gua: /metrics for Prometheus, /healthz whether sampling works, /readyz whether there was a tick\n"
_OPENMETRICS: Final = "application/openmetrics-text"
_ENCODERS: Final = {False: choose_encoder(""), True: choose_encoder(_OPENMETRICS)}
"""Encoder and content type by format: OpenMetrics or not. Clients cannot choose another version."""
_PLAIN: Final = ("Content-Type", "text/plain; charset=utf-8")
_ALWAYS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Server", "gua"))
_REMEMBERED_TICKS: Final = 10
_FASTEST: Final = 1
_BLOCK_BYTES: Final = 2**17


class Page:
    """Metric families of a tick. Each format is rendered once, when it is first requested."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = [family for family in families if family.samples]
        self._rendered: dict[bool, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def collect(self) -> list[Family]:
        """Return the families with samples; prometheus-client's encoders call this method."""
        return self._families

    def packed(self, *, is_openmetrics: bool) -> tuple[bytes, int]:
        """Return the page in a format, compressed with gzip, and its uncompressed length in bytes."""
        with self._lock:
            if is_openmetrics not in self._rendered:
                text = _ENCODERS[is_openmetrics][0](self)
                self._rendered[is_openmetrics] = gzip.compress(text, _FASTEST, mtime=0), len(text)
            return self._rendered[is_openmetrics]


class _Answer(NamedTuple):
    status: str
    body: Iterable[bytes]
    length: int
    headers: tuple[tuple[str, str], ...]


def _plain(status: str, body: bytes, *headers: tuple[str, str]) -> _Answer:
    return _Answer(status, (body,), len(body), (_PLAIN, *headers))


_NOT_ALLOWED: Final = _plain("405 Method Not Allowed", b"only GET and HEAD are answered here\n", ("Allow", "GET, HEAD"))


class PrometheusEndpoint(ServingHealth):
    """WSGI application for /metrics, /healthz and /readyz. It receives the events of the sampling loop.

    ``clocks`` returns the idle counters after the last tick. Formats requested within the last 10 ticks are rendered
    in the loop's thread after each tick, others on the next request.
    """

    def __init__(self, serving: Serving, *, clock: Clock, origin: Origin, clocks: Callable[[], IdleCounters]) -> None:
        self._constant = serving.constant
        self._clocks = clocks
        self._catalogue = Catalogue()
        super().__init__(clock, origin.interval_ms)
        self._empty = self._page = Page([target_info(origin), _is_stale(1)])
        self._requested: dict[bool, int] = {}  # key: OpenMetrics or not; value: ticks since the last request
        self._names = HostNames([serving.address.host, gethostname(), origin.host, *serving.names])
        self._server = PageServer(serving.address, self)

    @property
    def port(self) -> int:
        """The TCP port of the listening socket."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:  # noqa: ARG002 - the loop's interface
        """Serve this tick from now on. Never raises: an error here must not lose the tick for other destinations."""
        try:
            families = self._catalogue.families(tick)
            if self._constant is not None:
                families += gpu_idle_exporter.families(tick, self._clocks(), self._constant)
            tick_time = new_family("gua_agent_tick_timestamp_seconds", "Unix time of the last tick.")
            add(tick_time, {}, tick.ts_ms / 1000)
            page = Page([*families, tick_time, _is_stale(0)])
            for is_openmetrics, ticks_ago in self._requested.copy().items():
                self._requested[is_openmetrics] = ticks_ago + 1
                if ticks_ago < _REMEMBERED_TICKS:
                    page.packed(is_openmetrics=is_openmetrics)
            self._page = page
            self._empty = Page([target_info(tick.origin), tick_time, _is_stale(1)])
            self.served(tick)
        except Exception as error:  # noqa: BLE001 - must not raise
            self._failing = f"the page could not be made: unexpected {type(error).__name__}: {error}"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a WSGI request; HEAD gets no body. Never raises: unexpected errors become status 500."""
        try:
            is_read = environ["REQUEST_METHOD"] in {"GET", "HEAD"}
            answer = self._answer(environ) if is_read else _NOT_ALLOWED
        except Exception as error:  # noqa: BLE001 - a traceback for each scrape would fill the log
            answer = _plain("500 Internal Server Error", f"unexpected {type(error).__name__}\n".encode())
        start_response(answer.status, [*answer.headers, ("Content-Length", str(answer.length)), *_ALWAYS])
        return () if environ["REQUEST_METHOD"] == "HEAD" else answer.body

    def _answer(self, environ: dict[str, Any]) -> _Answer:
        if not self._names.admit(environ.get("HTTP_HOST", ""), arrived_at=environ[ARRIVED_AT]):
            return _plain("421 Misdirected Request", _NOT_CALLED_SO)
        match environ["PATH_INFO"]:
            case "/metrics":
                return self._metrics(environ.get("HTTP_ACCEPT", ""), environ.get("HTTP_ACCEPT_ENCODING", ""))
            case "/healthz":
                return _probe(self.trouble())
            case "/readyz":
                return _probe(None if self._ticked is not None else "there was no tick yet")
            case "/":
                return _plain("200 OK", _INDEX)
        return _plain("404 Not Found", _INDEX)

    def _metrics(self, accept: str, accept_encoding: str) -> _Answer:
        try:
            is_openmetrics = choose_encoder(accept)[1].startswith(_OPENMETRICS)
        except TypeError:  # the requested version is not a number
            is_openmetrics = False
        self._requested[is_openmetrics] = 0
        ticked, longest_ms = self._ticked, max(STALE_MS, LATE_INTERVALS * self._interval_ms)
        is_stale = ticked is None or self._age_ms(ticked) > longest_ms  # the cards' current state is unknown
        page = self._empty if is_stale else self._page
        packed, length = page.packed(is_openmetrics=is_openmetrics)
        headers = (("Content-Type", _ENCODERS[is_openmetrics][1]), ("Vary", "Accept, Accept-Encoding"))
        if gzip_accepted(accept_encoding):
            return _Answer("200 OK", (packed,), len(packed), (*headers, ("Content-Encoding", "gzip")))
        unpacked = gzip.GzipFile(fileobj=BytesIO(packed))
        # Decompressed in blocks: a slow client then occupies only the memory of the compressed page.
        return _Answer("200 OK", iter(lambda: unpacked.read(_BLOCK_BYTES), b""), length, headers)


def _probe(trouble: str | None) -> _Answer:
    return _plain("200 OK" if trouble is None else "503 Service Unavailable", f"{trouble or 'ok'}\n".encode())


def _is_stale(value: int) -> Family:
    family = new_family("gua_agent_stale", "1 while there is no tick, or none young enough to serve; 0 otherwise.")
    add(family, {}, value)
    return family
