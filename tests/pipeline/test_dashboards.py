"""Every query of the dashboards and alert rules, run as the reader on a server with a history and a host of now."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gua.core.ports import SpooledTick
from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, Mig, ProcessList, Relation, Source
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.store.database import open_store
from servers import grafana
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.grafana import Query, Seen
from servers.gua import Gua

HOST = "o'brien\\s"
"""A host whose name is syntax in SQL."""
OWNER = "al'ice"
# The demo's two days end on Friday 2026-03-27 at 16:00 UTC.
HISTORY = Seen(
    since=int(datetime(2026, 3, 25, tzinfo=UTC).timestamp()),
    until=int(datetime(2026, 3, 27, 17, tzinfo=UTC).timestamp()),
)
MINUTES = 180
# Cards are seen for three intervals after their last tick: longer than these tests take on a busy machine.
INTERVAL_MS = 600_000
INTERVALS = MINUTES * 60_000 // INTERVAL_MS
STATES = ("active", "idle-held", "truly-idle", "unknown")


def escaped(name: str) -> str:
    """Return a name as the variables' own queries give it: its backslashes doubled."""
    return name.replace("\\", "\\\\")


def allocated(relation: Relation) -> dict[str, Any]:
    """Return the values of a card that a job has for a whole tick."""
    job = AllocationReading(
        source="slurm",
        id="77",
        relation=relation,
        duration_ms=INTERVAL_MS,
        gpu_time_ms=INTERVAL_MS,
        since_ms=0,
        owner=OWNER,
    )
    return {"allocation": AllocationStatus.ALLOCATED, "allocations": (job,), "unallocated_gpu_time_ms": 0}


def host_of_now(now_ms: int) -> Iterator[Tick]:
    """Yield three hours of a card at work, one that is held by a process that does nothing, and one without any."""
    origin = Origin(
        host=HOST,
        host_id="machine",
        instance_id="one",
        source=Source.AGENT,
        interval_ms=INTERVAL_MS,
        service_version="1.0",
    )
    for back in range(INTERVALS - 1, -1, -1):
        common: dict[str, Any] = {
            "duration_ms": INTERVAL_MS,
            "gpu_time_ms": INTERVAL_MS,
            "process_list": ProcessList.KNOWN,
            "mig": Mig.NONE,
            "memory_limit_bytes": 80 * 2**30,
            "memory_reserved_bytes": 0,
            "power_watts": 100.0,
            "name": "H100",
        }
        holder = {
            "created_ms": now_ms - 90_000_000,
            "owner": OWNER,
            "comm": "python3",
            "memory_bytes": 8 * 2**30,
            "gpu_time_ms": INTERVAL_MS,
        }
        yield Tick(
            ts_ms=now_ms - back * INTERVAL_MS,
            origin=origin,
            cards=(
                CardReading(
                    uuid="GPU-busy",
                    index=0,
                    utilization=0.9,
                    utilization_coverage_ms=INTERVAL_MS * 2 // 3,
                    idle_time_ms=INTERVAL_MS // 5,
                    idle_energy_coverage_ms=INTERVAL_MS * 3 // 20,
                    idle_energy_mj=INTERVAL_MS * 3 // 20 * 120,
                    memory_used_bytes=8 * 2**30,
                    processes=(ProcessReading(pid=1, utilization=0.9, **holder),),
                    **allocated(Relation.OWNER),
                    **common,
                ),
                CardReading(
                    uuid="GPU-held",
                    index=1,
                    utilization=0.0,
                    memory_used_bytes=8 * 2**30,
                    clock_reasons=0x44,
                    row_remap=1,
                    processes=(ProcessReading(pid=2, utilization=0.0, **holder),),
                    **common,
                ),
                CardReading(
                    uuid="GPU-free",
                    index=2,
                    utilization=0.0,
                    memory_used_bytes=0,
                    **allocated(Relation.NOBODY),
                    **common,
                ),
            ),
            allocation_sources=(
                AllocationSourceReading(source="slurm", duration_ms=INTERVAL_MS),
                AllocationSourceReading(source="files", duration_ms=INTERVAL_MS, reason="torn.json: no JSON, or torn"),
            ),
            agent=AgentReading(
                started_ms=now_ms - 90_000_000,
                tick_duration_seconds=0.01,
                tick_lateness_seconds=0.001,
                spool_ticks=2,
                spool_bytes=4096,
                dropped_ticks=1,
                errors=(ErrorCount(call="nvmlDeviceGetPowerUsage", code="15", count=3),),
            ),
        )


class Reader:
    """Queries as Grafana does: gua_reader over HTTP, rows as JSON."""

    def __init__(self, server: ClickHouseServer) -> None:
        self._server = server

    def rows(self, sql: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._server.http_port}/?" + urllib.parse.urlencode({"default_format": "JSONEachRow"}),
            data=sql.encode(),
            headers={"X-ClickHouse-User": "gua_reader", "X-ClickHouse-Key": PASSWORDS["gua_reader"]},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the test's own server
                return [json.loads(line) for line in answer.read().decode().splitlines()]
        except urllib.error.HTTPError as error:
            msg = f"{error.read().decode()}\n{sql}"
            raise AssertionError(msg) from None


@pytest.fixture(scope="module")
def seeded(_built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClickHouseServer, Gua, Seen]]:
    """Give a server the demo's two days and three hours of a host up to now; return what a reader of now looks at."""
    folder = tmp_path_factory.mktemp("dashboards")
    server = ClickHouseServer(folder / "clickhouse")
    server.start()
    gua = Gua(folder / "home")
    try:
        gua.must("schema", "apply", "--store", server.dsn())
        days = ("--days", "2", "--interval", "10m", "--gpus", "8")
        gua.must("demo", "--seed", "7", *days, "--store", server.dsn())
        now_ms = int(time.time() * 1000)
        raw = [encode(tick) for tick in host_of_now(now_ms)]
        raw.append(encode(Tick(ts_ms=now_ms + 3 * 86_400_000, origin=tick_origin(), cards=tick_cards())))
        with open_store(server.dsn()) as store:
            refused = store.land(
                [SpooledTick(id=n, ts_ms=n, raw_length=len(one), blob=compress(one)) for n, one in enumerate(raw)]
            )
        assert refused == []
        gua.must("rollup", "--store", server.dsn())
        until = now_ms // 1000
        yield server, gua, Seen(since=until - 86_400, until=until + 1, variables={"host": [escaped(HOST)]})
    finally:
        server.kill()


def tick_origin() -> Origin:
    return Origin(host=HOST, host_id="machine", instance_id="one", source=Source.AGENT, interval_ms=INTERVAL_MS)


def tick_cards() -> tuple[CardReading, ...]:
    """Return a card of a time that the server does not believe."""
    return (CardReading(uuid="GPU-busy", duration_ms=INTERVAL_MS, gpu_time_ms=INTERVAL_MS, utilization=0.5),)


@pytest.mark.parametrize("query", grafana.queries(), ids=lambda query: query.name)
def test_a_query_runs_as_the_reader_and_finds_the_host_of_now(
    seeded: tuple[ClickHouseServer, Gua, Seen], query: Query
) -> None:
    server, _, now = seeded
    rows = Reader(server).rows(now.expand(query))
    assert rows
    shown = {value for row in rows for value in row.values()}
    if "host" in rows[0]:
        assert HOST in shown
    if query.panel.get("type") == "stat":
        assert any(value is not None for value in shown)


@pytest.mark.parametrize("query", grafana.queries(), ids=lambda query: query.name)
def test_a_query_runs_for_all_hosts_and_for_none_that_is_there(
    seeded: tuple[ClickHouseServer, Gua, Seen], query: Query
) -> None:
    server, _, now = seeded
    everyone = Seen(since=now.since - 86_400 * 365, until=now.until, variables={})
    nobody = Seen(since=now.since, until=now.until, variables={"host": ["nobody"], "owner": ["nobody"]})
    if "${host:sqlstring}" not in query.text.replace("$__conditionalAll(host IN (${host:sqlstring})", "").replace(
        "$__conditionalAll(cards.host IN (${host:sqlstring})", ""
    ):
        assert Reader(server).rows(everyone.expand(query))
    Reader(server).rows(nobody.expand(query))


def panel(name: str) -> Query:
    return next(query for query in grafana.queries() if query.name == name)


@pytest.fixture
def history(seeded: tuple[ClickHouseServer, Gua, Seen]) -> tuple[dict[str, Any], Callable[[str], list[dict[str, Any]]]]:
    """Return the report of the demo's days, and what a panel shows of them."""
    server, gua, _ = seeded
    report = gua.report(server.dsn("gua_reader"), "--since", "2026-03-25T00:00:00Z", "--until", "2026-03-27T17:00:00Z")
    return report, lambda name: Reader(server).rows(HISTORY.expand(panel(name)))


History = tuple[dict[str, Any], Callable[[str], list[dict[str, Any]]]]


def test_gpu_hours_are_those_of_the_report(history: History) -> None:
    report, shown = history
    (row,) = shown("overview: GPU-hours")
    for state in STATES:
        assert row[state] == pytest.approx(report["headline"]["states"][state]["gpu_hours"], abs=1e-6), state
        assert row[state] > 0
    assert row["unobserved"] == pytest.approx(report["coverage"]["unobserved_gpu_hours"], abs=1e-6)
    assert row["unobserved"] > 0
    (observed,) = shown("overview: Observed")
    assert observed["observed"] == pytest.approx(report["coverage"]["ratio"], abs=1e-6)


def test_the_area_under_the_graph_is_the_gpu_hours_of_the_report(history: History) -> None:
    report, shown = history
    rows = shown("overview: GPUs by state")
    step_hours = max(3600, (HISTORY.until - HISTORY.since) // HISTORY.points) / 3600
    for state in STATES:
        hours = sum(row[state] for row in rows) * step_hours
        assert hours == pytest.approx(report["headline"]["states"][state]["gpu_hours"], abs=1e-6), state
    unobserved = sum(row["unobserved"] for row in rows) * step_hours
    assert unobserved == pytest.approx(report["coverage"]["unobserved_gpu_hours"], rel=0.02)


def test_owners_have_the_gpu_hours_of_the_report(history: History) -> None:
    report, shown = history
    expected: dict[str, list[float]] = {}
    for one in report["owners"]:
        if one["kind"] == "listed":
            sums = expected.setdefault(one["owner"] or "(unknown)", [0.0, 0.0, 0.0])
            for position, state in enumerate(("active", "idle-held", "unknown")):
                sums[position] += one["states"][state]["gpu_hours"]
    for name in ("overview: Owners by GPU-hours", "user: Users"):
        found = {row["owner"]: [row["active"], row["idle-held"], row["unknown"]] for row in shown(name)}
        assert found.keys() == expected.keys()
        for owner, hours in expected.items():
            assert found[owner] == pytest.approx(hours, abs=1e-5), owner


def test_the_page_of_what_is_held_idle_now_shows_card_holder_and_since_when(
    seeded: tuple[ClickHouseServer, Gua, Seen],
) -> None:
    server, _, now = seeded
    reader = Reader(server)
    (card,) = reader.rows(now.expand(panel("idle-held-now: Cards held and idle, longest first")))
    assert (card["card"], card["owners"], card["index"]) == ("GPU-held", OWNER, 1)
    (process,) = reader.rows(now.expand(panel("idle-held-now: Idle processes, longest first")))
    assert (process["owner"], process["pid"], process["card is"]) == (OWNER, 2, "idle-held")
    assert (card["held idle for"], process["idle for"]) == pytest.approx((MINUTES / 60, MINUTES / 60))
    (counts,) = reader.rows(now.expand(panel("idle-held-now: Cards held and idle")))
    assert [int(counts[name]) for name in ("idle-held", "unknown", "unobserved", "all cards")] == [1, 0, 0, 3]


def test_allocated_hours_stand_by_what_became_of_them_and_sources_with_why_they_fail(
    seeded: tuple[ClickHouseServer, Gua, Seen],
) -> None:
    server, _, now = seeded
    reader = Reader(server)
    (host,) = reader.rows(now.expand(panel("overview: Allocated GPU-hours by host")))
    assert host["host"] == HOST
    assert (host["used"], host["empty"]) == pytest.approx((host["allocated"] / 2,) * 2)
    assert host["used"] > 0
    assert (host["held"], host["used by others"], host["in use, not allocated"], host["free"]) == (0, 0, 0, 0)
    failed, ok = reader.rows(now.expand(panel("pipeline-health: Sources of allocations")))
    assert (ok["source"], ok["now"], ok["hours failed"], ok["newest reason"]) == ("slurm", "ok", 0, None)
    assert (failed["source"], failed["now"], failed["hours ok"]) == ("files", "failed", 0)
    assert failed["newest reason"] == "torn.json: no JSON, or torn"


def test_idle_seconds_stand_by_host_and_slow_cards_with_why(seeded: tuple[ClickHouseServer, Gua, Seen]) -> None:
    server, _, now = seeded
    reader = Reader(server)
    (host,) = reader.rows(now.expand(panel("overview: Idle seconds inside active and idle-held hours, by host")))
    assert host["host"] == HOST
    assert (host["share of active"], host["share of both"]) == pytest.approx((0.3, 0.3))
    assert host["active, told of"] > 1
    assert host["idle, power told"] == pytest.approx(host["idle of that"] * 9 / 12)
    assert host["energy of idle seconds"] == pytest.approx(host["idle, power told"] * 3600 * 120)
    (owner,) = reader.rows(now.expand(panel("overview: Idle seconds inside active hours, by owner")))
    assert owner["owner"] == OWNER
    assert owner["share"] == pytest.approx(0.3)
    assert owner["told of"] == pytest.approx(host["active, told of"])
    assert owner["active"] == pytest.approx(owner["told of"] * 60 / 40)
    (card,) = reader.rows(now.expand(panel("host: Slow cards")))
    assert (card["index"], card["XID events"], card["row remapping"]) == (1, None, "pending")
    assert card["slowed"] == card["heat"] == card["power cap"] == card["told of"] == INTERVALS * INTERVAL_MS
    assert card["hardware"] == 0


def test_idle_seconds_of_the_demo_are_those_of_its_report(seeded: tuple[ClickHouseServer, Gua, Seen]) -> None:
    server, gua, _ = seeded
    window = ("--since", "2026-03-25T00:00:00Z", "--until", "2026-03-27T17:00:00Z")
    report = gua.report(server.dsn("gua_reader"), "--section", "usefulness", *window)
    (row,) = Reader(server).rows(
        HISTORY.expand(panel("overview: Idle seconds inside active and idle-held hours, by host"))
    )
    active, both = report["usefulness"]["states"]["active"], report["usefulness"]["loaded"]
    assert row["active, told of"] == pytest.approx(active["sampled_gpu_hours"], abs=1e-6)
    assert row["idle of that"] == pytest.approx(active["idle_gpu_hours"], abs=1e-6)
    assert row["share of both"] == pytest.approx(both["idle_share"], abs=1e-6)
    assert row["energy of idle seconds"] == pytest.approx(both["idle_joules"], rel=1e-6)
    assert row["idle of that"] > 0


def test_idle_seconds_of_owners_are_those_of_their_cards_by_their_part_of_each_hour(
    seeded: tuple[ClickHouseServer, Gua, Seen],
) -> None:
    server, _, _ = seeded
    reader = Reader(server)

    def hourly(view: str, *columns: str) -> list[dict[str, Any]]:
        told = f"SELECT host, gpu, toUnixTimestamp(hour) AS at, {', '.join(columns)} FROM gua_public.{view} "
        return reader.rows(f"{told} WHERE state = 'active' AND at >= {HISTORY.since} AND at < {HISTORY.until}")

    def place(row: dict[str, Any]) -> tuple[str, str, int]:
        return row["host"], row["gpu"], row["at"]

    samples = {place(row): row for row in hourly("execution_idle_hours", "sampled_gpu_hours", "idle_gpu_hours")}
    of_cards = {place(row): row["gpu_hours"] for row in hourly("card_hours", "gpu_hours")}
    expected: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for row in hourly("usage_hours", "owner", "gpu_hours"):
        told = samples.get(place(row), {})
        part = row["gpu_hours"] / of_cards[place(row)]
        values = (row["gpu_hours"], part * told.get("sampled_gpu_hours", 0), part * told.get("idle_gpu_hours", 0))
        for number, value in enumerate(values):
            expected[row["owner"] or "(unknown)"][number] += value
    rows = reader.rows(HISTORY.expand(panel("overview: Idle seconds inside active hours, by owner")))
    assert {row["owner"]: [row["active"], row["told of"], row["idle of that"]] for row in rows} == {
        owner: pytest.approx(hours, abs=1e-6) for owner, hours in expected.items()
    }
    idle = [row["idle of that"] for row in rows]
    assert idle == sorted(idle, reverse=True)
    assert idle[0] > 0


def test_rules_see_what_they_warn_of(seeded: tuple[ClickHouseServer, Gua, Seen]) -> None:
    server, _, now = seeded
    reader = Reader(server)
    (held,) = reader.rows(now.expand(panel("alert: GPU held and idle for more than 4 hours")))
    assert held == {"host": HOST, "index": "1", "owners": OWNER, "hours": 3}
    (empty,) = reader.rows(now.expand(panel("alert: GPU allocated and empty for more than 1 hour")))
    assert empty == {
        "host": HOST,
        "index": "2",
        "source": "slurm",
        "allocation": "77",
        "owner": OWNER,
        "hours": MINUTES / 60,
    }
    (silent,) = reader.rows(now.expand(panel("alert: Agent silent")))
    assert silent == {"host": HOST, "seconds": 0}
    (lag,) = reader.rows(now.expand(panel("alert: Delivery lags by more than 15 minutes")))
    assert lag["host"] == HOST
    assert 0 <= lag["seconds"] < 600


def test_a_simulated_and_ended_history_raises_nothing_and_is_not_called_idle(
    seeded: tuple[ClickHouseServer, Gua, Seen],
) -> None:
    server, _, _ = seeded
    rows = Reader(server).rows("SELECT DISTINCT state FROM gua.current_cards WHERE source = 'simulator'")
    assert rows == [{"state": "unobserved"}]
    empty = Reader(server).rows("SELECT host FROM gua_report.current_allocations(hosts = []) WHERE use = 'empty'")
    assert {row["host"] for row in empty} > {HOST}, (
        "the rule for empty cards leaves the others out, it does not lack them"
    )


def test_the_reader_may_read_every_plain_view(seeded: tuple[ClickHouseServer, Gua, Seen]) -> None:
    reader = Reader(seeded[0])
    views = reader.rows("SELECT name FROM system.tables WHERE database = 'gua' AND engine = 'View'")
    assert "current_cards" in {view["name"] for view in views}
    for view in views:
        columns = reader.rows(f"SELECT name FROM system.columns WHERE database = 'gua' AND table = '{view['name']}'")
        for row in reader.rows(f"SELECT * FROM gua.{view['name']} LIMIT 10"):
            assert [*row] == [column["name"] for column in columns], view
