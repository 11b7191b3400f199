"""The Prometheus endpoint of an agent: takes ticks from the loop, renders their page, answers requests."""

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
from gua.core.ports import Clock
from gua.core.tick import Origin, Tick
from gua.exporter import gpu_idle_exporter
from gua.exporter.address import HostNames, Serving
from gua.exporter.catalogue import Catalogue, target_info
from gua.exporter.families import add, new_family
from gua.exporter.health import ServingHealth
from gua.exporter.server import ARRIVED_AT, PageServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_NOT_CALLED_SO: Final = b"this agent is not called so: name it with --prometheus-name or GUA_PROMETHEUS_NAME\n"
_INDEX: Final = b"gua: /metrics for Prometheus, /healthz whether sampling works, /readyz whether there was a tick\n"
_OPENMETRICS: Final = "application/openmetrics-text"
_ENCODERS: Final = {False: choose_encoder(""), True: choose_encoder(_OPENMETRICS)}
"""By whether it is OpenMetrics: what renders a page, and its content type. No client chooses another version."""
_PLAIN: Final = ("Content-Type", "text/plain; charset=utf-8")
_ALWAYS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Server", "gua"))
_REMEMBERED_TICKS: Final = 10
_FASTEST: Final = 1
_BLOCK_BYTES: Final = 2**14


class Page:
    """The families of a tick, and each format of them, which is rendered once, when it is first requested."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = [family for family in families if family.samples]
        self._rendered: dict[bool, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def collect(self) -> list[Family]:
        """Return the families, as prometheus-client's encoders ask a collector for them."""
        return self._families

    def packed(self, *, is_openmetrics: bool) -> tuple[bytes, int]:
        """Return the page in a format, packed with gzip, and its length in bytes before that."""
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


class PrometheusEndpoint:
    """What the loop tells its watcher is told here, too; ``clocks`` returns the idle clocks after the last tick.

    A WSGI application. The page is rendered in the loop's thread once the tick is safe, in the formats that were
    requested lately, else when it is first requested.
    """

    def __init__(self, serving: Serving, *, clock: Clock, origin: Origin, clocks: Callable[[], IdleCounters]) -> None:
        self._constant = serving.constant
        self._clocks = clocks
        self._catalogue = Catalogue()
        self._health = ServingHealth(clock, origin.interval_ms)
        self._empty = self._page = Page([target_info(origin), _is_stale(1)])
        self._requested: dict[bool, int] = {}  # by whether it is OpenMetrics, how many ticks ago
        self._names = HostNames([serving.address.host, gethostname(), origin.host, *serving.names])
        self._server = PageServer(serving.address, self)

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:  # noqa: ARG002 - as the loop tells it
        """Serve a tick from now on. Never raises: what is wrong here must not cost a tick elsewhere."""
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
            self._health.ticked(tick)
        except Exception as error:  # noqa: BLE001 - as above
            self._health.broken(f"the page could not be made: unexpected {type(error).__name__}: {error}")

    def skipped(self, reason: str, message: str, count: int = 1) -> None:  # noqa: ARG002 - as the loop tells it
        """Take note of ticks that were due and could not be made."""
        self._health.skipped(reason, message)

    def condition(self, key: str, message: str | None) -> None:
        """Take note of nothing: what stands is for gua status."""

    def alive(self) -> None:
        """Take note that the loop goes round."""
        self._health.alive()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request (WSGI); HEAD gets no body."""
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
                trouble = self._health.trouble()
                return _probe(is_well=trouble is None, text=trouble or "ok")
            case "/readyz":
                ready = self._health.is_ready
                return _probe(is_well=ready, text="ok" if ready else "there was no tick yet")
            case "/":
                return _plain("200 OK", _INDEX)
        return _plain("404 Not Found", _INDEX)

    def _metrics(self, accept: str, accept_encoding: str) -> _Answer:
        is_openmetrics = _takes_openmetrics(accept)
        self._requested[is_openmetrics] = 0
        page = self._empty if self._health.is_stale else self._page
        packed, length = page.packed(is_openmetrics=is_openmetrics)
        headers = (("Content-Type", _ENCODERS[is_openmetrics][1]), ("Vary", "Accept, Accept-Encoding"))
        if gzip_accepted(accept_encoding):
            return _Answer("200 OK", (packed,), len(packed), (*headers, ("Content-Encoding", "gzip")))
        unpacked = gzip.GzipFile(fileobj=BytesIO(packed))
        # Unpacked bit by bit: clients that read slowly hold the small packed page only.
        return _Answer("200 OK", iter(lambda: unpacked.read(_BLOCK_BYTES), b""), length, headers)


def _takes_openmetrics(accept: str) -> bool:
    try:
        return choose_encoder(accept)[1].startswith(_OPENMETRICS)
    except TypeError:  # a version that is no number
        return False


def _probe(*, is_well: bool, text: str) -> _Answer:
    return _plain("200 OK" if is_well else "503 Service Unavailable", f"{text}\n".encode())


def _is_stale(value: int) -> Family:
    family = new_family("gua_agent_stale", "1 while there is no tick, or none young enough to serve; 0 otherwise.")
    add(family, {}, value)
    return family
