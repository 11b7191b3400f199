"""The Prometheus endpoint of an agent: takes the ticks from the loop, makes the page, answers who asks."""

from __future__ import annotations

from collections.abc import Callable
from socket import gethostname
from typing import Final, Self

from gua.core.idleness import IdleCounters
from gua.core.ports import Clock
from gua.core.tick import Origin, Tick
from gua.exporter import gpu_idle_exporter
from gua.exporter.address import Serving
from gua.exporter.catalogue import Catalogue, target_info
from gua.exporter.families import Family, Page, PageFormat
from gua.exporter.health import ServingHealth
from gua.exporter.host_names import HostNames
from gua.exporter.negotiation import OPENMETRICS, page_format
from gua.exporter.server import Request, Response, Server

_REMEMBERED_TICKS: Final = 10
_NOT_CALLED_SO: Final = b"this agent is not called so: name it with --prometheus-name or GUA_PROMETHEUS_NAME\n"
_INDEX: Final = b"gua: /metrics for Prometheus, /healthz whether sampling works, /readyz whether there was a tick\n"
# Of what is written here, whatever newer versions the library may know.
_OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
_TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class PrometheusEndpoint:
    """What the loop tells its watcher is told here, too; ``clocks`` returns the idle clocks after the last tick.

    The page is made in the loop's thread once the tick is safe, in the formats that were asked for lately.
    """

    def __init__(self, serving: Serving, *, clock: Clock, origin: Origin, clocks: Callable[[], IdleCounters]) -> None:
        self._constant = serving.constant
        self._clocks = clocks
        self._catalogue = Catalogue()
        self._health = ServingHealth(clock, origin.interval_ms)
        self._ticks_left: dict[PageFormat, int] = {}
        self._empty = Page([target_info(origin), _is_stale(1)])
        self._page = self._empty
        self._names = HostNames([serving.address.host, gethostname(), origin.host, *serving.names])
        self._server = Server(serving.address, self.respond)

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._server.port

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def ticked(self, tick: Tick, *, lateness_ms: int) -> None:  # noqa: ARG002 - as the loop tells it
        """Serve a tick from now on. Never raises: what is wrong here must not cost a tick elsewhere."""
        try:
            self._serve(tick)
        except Exception as error:  # noqa: BLE001 - as above
            self._health.broken(f"the page could not be made: unexpected {type(error).__name__}: {error}")

    def _serve(self, tick: Tick) -> None:
        families = [] if self._constant is None else gpu_idle_exporter.families(tick, self._clocks(), self._constant)
        page = Page([*families, *self._catalogue.families(tick), _tick_time(tick.ts_ms), _is_stale(0)])
        for wanted in self._lately_wanted():
            page.body(wanted)
        self._page = page
        self._empty = Page([target_info(tick.origin), _tick_time(tick.ts_ms), _is_stale(1)])
        self._health.ticked(tick)

    def skipped(self, reason: str, message: str, count: int = 1) -> None:  # noqa: ARG002 - as the loop tells it
        """Take note of ticks that were due and could not be made."""
        self._health.skipped(reason, message)

    def condition(self, key: str, message: str | None) -> None:
        """Take note of nothing: what stands is for gua status."""

    def alive(self) -> None:
        """Take note that the loop goes round."""
        self._health.alive()

    def respond(self, request: Request) -> Response:
        """Return the answer to a request; of the server's thread."""
        if not self._names.admit(request.host, arrived_at=request.arrived_at):
            return Response(status=421, body=_NOT_CALLED_SO)
        match request.path:
            case "/metrics":
                return self._metrics(request)
            case "/healthz":
                trouble = self._health.trouble()
                return Response(status=503 if trouble else 200, body=f"{trouble or 'ok'}\n".encode())
            case "/readyz":
                ready = self._health.is_ready
                return Response(status=200 if ready else 503, body=b"ok\n" if ready else b"there was no tick yet\n")
            case "/":
                return Response(status=200, body=_INDEX)
        return Response(status=404, body=_INDEX)

    def _metrics(self, request: Request) -> Response:
        chosen = page_format(request.accept, request.accept_encoding)
        self._ticks_left[chosen] = _REMEMBERED_TICKS
        page = self._empty if self._health.is_stale else self._page
        return Response(
            status=200,
            body=page.body(chosen),
            content_type=_OPENMETRICS_TYPE if chosen.is_openmetrics else _TEXT_TYPE,
            headers=(("Vary", "Accept, Accept-Encoding"), *((("Content-Encoding", "gzip"),) if chosen.is_gzip else ())),
        )

    def _lately_wanted(self) -> list[PageFormat]:
        ticks_left = {wanted: ticks - 1 for wanted, ticks in list(self._ticks_left.items())}
        self._ticks_left.update(ticks_left)
        return [wanted for wanted, ticks in ticks_left.items() if ticks >= 0]


def _tick_time(ts_ms: int) -> Family:
    family = Family("gua_agent_tick_timestamp_seconds", "Unix time of the last tick.")
    family.add("", ts_ms / 1000)
    return family


def _is_stale(value: int) -> Family:
    family = Family("gua_agent_stale", "1 while there is no tick, or none young enough to serve; 0 otherwise.")
    family.add("", value)
    return family
