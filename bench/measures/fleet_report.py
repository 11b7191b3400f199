"""How long a report of a fleet takes: its queries one by one, and the whole command."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from measures.child import Ran, ran
from measures.figures import cpu_ms, middle, show, spread
from measures.fleet_seed import TICKS_AN_HOUR, Fleet
from measures.fleet_server import FleetServer

from gua.core.moments import to_rfc3339
from gua.core.ports import Row
from gua.report.collect import collect
from gua.report.forms.data import json_pieces
from gua.report.hours import MOST_UNROLLED_TICKS
from gua.report.window import ReportRequest
from gua.store.database import Store, open_store
from servers.gua import differences

GUA = Path(sys.executable).with_name("gua")
MEMORY_LIMIT_MB = 120.0
PAGE_LIMIT_S, PAGE_LIMIT_MB = 1.5, 3.0


class TimedReader:
    """A store that notes when each question was under way, the reading of its answer included.

    With the server's ``pid`` also the CPU time of each, where they are queried one after the other.
    """

    def __init__(self, store: Store, *, is_concurrent: bool = True, pid: int | None = None) -> None:
        self._store = store
        self._pid = pid
        self.is_concurrent = is_concurrent
        self.is_embedded = store.is_embedded
        self.cpu_ms: defaultdict[str, float] = defaultdict(float)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._spans: list[tuple[float, float]] = []

    def rows(self, view: str, parameters: Mapping[str, object]) -> Sequence[Row]:
        begun = time.perf_counter()
        begun_cpu_ms = None if self._pid is None else cpu_ms(self._pid)
        try:
            return self._store.rows(view, parameters)
        finally:
            if self._pid is not None and begun_cpu_ms is not None:
                self.cpu_ms[view] += cpu_ms(self._pid) - begun_cpu_ms
            ended = time.perf_counter()
            self.seconds[view] += ended - begun
            self._spans.append((begun, ended))

    @property
    def asking_s(self) -> float:
        """Seconds in which any question was under way."""
        total = last = 0.0
        for begun, ended in sorted(self._spans):
            total += max(0.0, ended - max(begun, last))
            last = max(last, ended)
        return total


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Seconds of all queries together, for each report that was made, and of each query's median, sent alone.

    ``server_cpu_s`` is what the server's threads used for one report, which says something on a busy machine, too.
    """

    queries_s: list[float]
    one_by_one_s: float
    by_view: dict[str, float]
    server_cpu_s: float
    cpu_ms_by_view: dict[str, float]


def timed(server: FleetServer, request: ReportRequest, *, times: int) -> Timed:
    """Make some reports as the reader does, after one that is not counted."""
    alone = []
    with open_store(server.dsn("gua_reader")) as store:
        queries_s, server_cpu_s = together(server, store, request, times=times)
        for _ in range(times):
            alone.append(TimedReader(store, is_concurrent=False, pid=server.pid))
            collect(alone[-1], request)
    return Timed(
        queries_s=queries_s,
        one_by_one_s=middle([one.asking_s for one in alone]),
        by_view={view: middle([one.seconds[view] for one in alone]) for view in alone[0].seconds},
        server_cpu_s=server_cpu_s,
        cpu_ms_by_view={view: middle([one.cpu_ms[view] for one in alone]) for view in alone[0].seconds},
    )


def together(server: FleetServer, store: Store, request: ReportRequest, *, times: int) -> tuple[list[float], float]:
    """Return the seconds of all queries of some reports, after one that is not counted, and the server's CPU of one."""
    collect(store, request)
    before_ms = cpu_ms(server.pid)
    readers = [TimedReader(store) for _ in range(times)]
    for reader in readers:
        collect(reader, request)
    return [reader.asking_s for reader in readers], (cpu_ms(server.pid) - before_ms) / times / 1000


def show_report(server: FleetServer, request: ReportRequest, *, times: int, limit_s: float | None = None) -> Timed:
    """Show what a report needs, and return it."""
    found = timed(server, request, times=times)
    seconds = middle(found.queries_s)
    show("all queries of a report, warm", seconds, "s", limit_s, spread(found.queries_s))
    show("CPU of the server for one", found.server_cpu_s, "s")
    show("  each asked after the other", found.one_by_one_s * 1000, "ms")
    for view, one in sorted(found.by_view.items(), key=lambda pair: -pair[1]):
        if one >= found.one_by_one_s / 50:
            cpu = f"{found.cpu_ms_by_view[view]:,.0f} ms CPU"
            show(f"  {view}", one * 1000, "ms", note=f"{one / found.one_by_one_s:.0%}, {cpu}")
    return found


def show_command(server: FleetServer, request: ReportRequest, *, times: int) -> None:
    """Show what the whole command needs, and what it needs when it reports every card."""
    for name, option, limit_mb in (
        ("gua report", "--width=80", MEMORY_LIMIT_MB),
        ("gua report --json", "--json", None),
    ):
        whole = [report_command(server, request, option) for _ in range(times)]
        note = f"{middle([one.cpu_s for one in whole]):.2f} s CPU of its own, {spread([one.wall_s for one in whole])}"
        show(f"{name}, the whole command", middle([one.wall_s for one in whole]), "s", note=note)
        show("its peak memory", max(one.peak_mb for one in whole), "MB", limit_mb)


def show_page(server: FleetServer, request: ReportRequest, *, times: int) -> None:
    """Show what the report needs as a web page with every section."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        whole = [report_command(server, request, "--html", str(page)) for _ in range(times)]
        size = page.stat().st_size
    seconds = middle([one.wall_s for one in whole])
    spent = f"{middle([one.cpu_s for one in whole]):.2f} s CPU of its own, {spread([one.wall_s for one in whole])}"
    show("gua report --html, the whole command", seconds, "s", PAGE_LIMIT_S, spent)
    show("its peak memory", max(one.peak_mb for one in whole), "MB")
    show("its page", size / 1e6, "MB", PAGE_LIMIT_MB)


def report_command(server: FleetServer, request: ReportRequest, *options: str) -> Ran:
    """Run ``gua report`` in a process of its own."""
    window = ("--since", str(request.since), "--until", str(request.until))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report"
        dsn = server.dsn("gua_reader")
        return ran(GUA, "report", *(options or ("--json",)), "--store", dsn, *window, output=output)


def show_equality(server: FleetServer, fleet: Fleet) -> None:
    """Show that rolled up hours and ticks give the same report, and end the bench if they do not.

    Of the whole time three sections, as ticks of a month do not fit the memory of the others; of the newest hours all.
    """
    newest_ms = MOST_UNROLLED_TICKS // (fleet.cards * TICKS_AN_HOUR) * 3_600_000
    since_ms = max(fleet.since_ms, fleet.until_ms - newest_ms)
    whole = replace(asked(fleet), sections=frozenset({"cards", "groups", "time-of-day"}))
    for what, request in (
        ("the whole time", whole),
        ("the newest hours, all", replace(asked(fleet), since=to_rfc3339(since_ms))),
    ):
        with open_store(server.dsn("gua_reader")) as store:
            reader = TimedReader(store)
            from_hours = json.loads("".join(json_pieces(collect(reader, request))))
            hours_s = reader.asking_s
            reader = TimedReader(store)
            from_ticks = json.loads("".join(json_pieces(collect(reader, replace(request, from_ticks=True)))))
        ticks_s = reader.asking_s
        unlike = list(differences(from_hours, from_ticks))
        show(f"{what}, from ticks", ticks_s, "s", note=f"{ticks_s / hours_s:.0f} times as long as from hours")
        show("  numbers that differ between the two", len(unlike), note=f"of {_leaves(from_hours):,}")
        if unlike:
            sys.exit("\n".join(unlike[:20]))
    with open_store(server.dsn("gua_reader")) as store:
        waiting = sum(not row["is_counted"] for row in store.rows("hours", _bounds(fleet)))
    show("hours of the window not read as counted", waiting, note="of those that have ticks")


def exponent(measured: Mapping[Fleet, float]) -> float:
    """Return b of the fit seconds = a x (cards x days)^b."""
    points = [(math.log(fleet.cards * fleet.days), math.log(seconds)) for fleet, seconds in measured.items()]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def asked(fleet: Fleet, *, early_ms: int = 0, late_ms: int = 0) -> ReportRequest:
    """Return the request of a fleet's whole time, and of so much more."""
    until_ms = fleet.until_ms + late_ms
    return ReportRequest(since=to_rfc3339(fleet.since_ms - early_ms), until=to_rfc3339(until_ms), now_ms=until_ms)


def _bounds(fleet: Fleet) -> dict[str, object]:
    return {"since_ms": fleet.since_ms, "until_ms": fleet.until_ms, "hosts": []}


def _leaves(value: object) -> int:
    if isinstance(value, dict):
        return sum(_leaves(one) for one in value.values())
    return sum(_leaves(one) for one in value) if isinstance(value, list) else 1
