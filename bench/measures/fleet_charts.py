"""How long each chart takes on a server: docs/bi.md, Superset's bundle, Grafana's dashboards and alert rules."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measures.figures import middle, show
from measures.fleet_server import PATIENCE_S, FleetServer

from servers import grafana, superset
from servers.clickhouse import PASSWORDS
from servers.grafana import Seen
from servers.recipes import recipes

LIMIT_S = 0.5
DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart's name, the user that queries it, and its SQL."""

    name: str
    user: str
    sql: str


def charts() -> Iterator[Chart]:
    """Yield every chart, each over 30 days up to now."""
    for recipe in recipes(days=DAYS):
        yield Chart(name=f"{recipe.section}: {recipe.title}", user="gua_bi", sql=recipe.sql)
    for question in superset.questions(days=DAYS):
        yield Chart(name=f"bundle: {question.name}", user="gua_bi", sql=question.sql)
    now = int(time.time())
    seen = Seen(since=now - DAYS * 86_400, until=now, variables={"host": ["gpu-node-0000"]})
    fleet = Seen(since=seen.since, until=seen.until)
    for query in grafana.queries():
        # The page of one host is of a host; the others are of all.
        board = seen if query.name.startswith("host:") else fleet
        yield Chart(name=query.name, user="gua_reader", sql=board.expand(query))


def show_charts(server: FleetServer, *, times: int) -> None:
    """Query each chart, warm; show the median of the server's own time beside the limit, and the CPU time it took."""
    slow = 0
    for chart in charts():
        seconds = []
        for number in range(times + 1):
            if number == 1:
                before = _cpu_s(server.pid)
            rows, took = _query(server, chart)
            if number:
                seconds.append(took)
        cpu = (_cpu_s(server.pid) - before) / times
        slow += middle(seconds) > LIMIT_S
        note = f"{rows:,} rows, {min(seconds):.2f} to {max(seconds):.2f}, {cpu:.2f} s CPU"
        show(chart.name[:60], middle(seconds), "s", LIMIT_S, note)
    print(f"  {slow} charts took longer than {LIMIT_S} s")


def _query(server: FleetServer, chart: Chart) -> tuple[int, float]:
    """Return rows and the server's seconds of one answer, which is read whole."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/?wait_end_of_query=1",
        data=chart.sql.encode(),
        headers={"X-ClickHouse-User": chart.user, "X-ClickHouse-Key": PASSWORDS[chart.user]},
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - the bench's own server
            answer.read()
            summary = json.loads(answer.headers["X-ClickHouse-Summary"])
    except urllib.error.HTTPError as error:
        msg = f"{chart.name}: {error.read().decode()}\n{chart.sql}"
        raise AssertionError(msg) from None
    return int(summary["result_rows"]), int(summary["elapsed_ns"]) / 1e9


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process, also of its threads that ended."""
    values = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
