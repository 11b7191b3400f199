"""Fills a server with a fleet that never was: ticks, hours copied from counted ones, days copied from days of those."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from measures.fleet_server import PATIENCE_S, FleetServer

from gua.store.database import open_store
from gua.store.tokens import server_tokens

CARDS_A_HOST = 8
DAY_MS = 86_400_000
TICKS_A_DAY, TICKS_AN_HOUR = 2_880, 120
_ROWS_AT_ONCE = 1_000_000
# Beyond so many hosts' days the copying of one statement wants more memory than the server may take.
_COPIES_AT_ONCE = 3_000


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """So many cards for so many whole UTC days, up to the last midnight."""

    cards: int
    days: int

    @property
    def hosts(self) -> int:
        return self.cards // CARDS_A_HOST

    @property
    def first_day(self) -> int:
        """Days since 1970."""
        return int(time.time()) // 86_400 - self.days

    @property
    def since_ms(self) -> int:
        return self.first_day * DAY_MS

    @property
    def until_ms(self) -> int:
        return self.since_ms + self.days * DAY_MS

    def with_days_of_hosts(self, most: int) -> Fleet:
        """Return the fleet, with so many hosts at most that they have ``most`` days together."""
        return Fleet(cards=min(self.cards, most // self.days * CARDS_A_HOST), days=self.days)

    def __str__(self) -> str:
        return f"{self.cards:,} cards x {self.days} days"


def seed_ticks(server: FleetServer, fleet: Fleet, *, processes: int = 0) -> float:
    """Fill an empty server with ticks, ``processes`` on each card in use (else 1 to 4); return the seconds it took."""
    begun = time.perf_counter()
    _seed_inventory(server, fleet)
    step = max(1, _ROWS_AT_ONCE // (CARDS_A_HOST * TICKS_A_DAY * max(1, processes // 4)))
    for day in range(fleet.first_day, fleet.first_day + fleet.days):
        for part in _parts(fleet, step):
            _seed_day(server, {**part, "day": day, "processes": processes, "ticks": TICKS_A_DAY})
    return time.perf_counter() - begun


def count_hours(server: FleetServer) -> float:
    """Count the hours of the ticks, once they have settled, and return the seconds it took."""
    time.sleep(int(server_tokens()["SETTLE_SECONDS"]) + 1)
    begun = time.perf_counter()
    counted = server.gua.run("rollup", "--store", server.dsn(), seconds=PATIENCE_S)
    if counted.returncode:
        sys.exit(counted.stderr)
    return time.perf_counter() - begun


def count_days(server: FleetServer) -> float:
    """Add up the days of hours that were counted, where a version has days, and return the seconds it took."""
    begun = time.perf_counter()
    with open_store(server.dsn()) as store:
        if hasattr(store, "count_days"):
            store.count_days()
    return time.perf_counter() - begun


def seed_newest_hour(server: FleetServer, fleet: Fleet) -> None:
    """Add the ticks of one more hour, which nobody has counted yet."""
    day = fleet.first_day + fleet.days
    for part in _parts(fleet, _ROWS_AT_ONCE // (CARDS_A_HOST * TICKS_AN_HOUR)):
        _seed_day(server, {**part, "day": day, "processes": 0, "ticks": TICKS_AN_HOUR})


def _seed_day(server: FleetServer, values: Mapping[str, int]) -> None:
    server.run("card_ticks", **values)
    server.run("process_ticks", **values)


def _parts(fleet: Fleet, step: int) -> Iterator[dict[str, int]]:
    """Yield the hosts of a fleet, so many at a time."""
    for first in range(0, fleet.hosts, step):
        yield {"first_host": first, "hosts": min(step, fleet.hosts - first)}


def keep_hours(server: FleetServer) -> None:
    """Keep the counted hours that later fleets are copied from."""
    server.query("DROP TABLE IF EXISTS gua.bench_hours")
    server.query("CREATE TABLE gua.bench_hours AS gua.host_hours ENGINE = MergeTree ORDER BY (host, hour)")
    server.query("INSERT INTO gua.bench_hours SELECT * FROM gua.host_hours FINAL")


def seed_hours(server: FleetServer, fleet: Fleet, source: Fleet) -> float:
    """Fill an empty server with hours copied from those kept of ``source``; return the seconds it took."""
    begun = time.perf_counter()
    _seed_inventory(server, fleet)
    for part in _parts(fleet, max(1, _COPIES_AT_ONCE // fleet.days)):
        server.run(
            "hour_rows",
            **part,
            days=fleet.days,
            first_day=fleet.first_day,
            sources=source.hosts,
            source_days=source.days,
            source_first_day=source.first_day,
        )
    server.run("hour_marks")
    return time.perf_counter() - begun


def copy_days(server: FleetServer, fleet: Fleet, source: Fleet) -> float:
    """Add the days and marks of all hosts of a fleet beyond those of ``source``, which are there; return the seconds.

    Both begin on the same day; their hours are those of ``source`` alone.
    """
    begun = time.perf_counter()
    _seed_inventory(server, fleet, first_host=source.hosts)
    server.query("DROP TABLE IF EXISTS gua.bench_days")
    server.query("CREATE TABLE gua.bench_days AS gua.host_days ENGINE = MergeTree ORDER BY (host, day)")
    server.query("INSERT INTO gua.bench_days SELECT * FROM gua.host_days FINAL")
    columns = [line.split("\t")[0] for line in server.query("DESCRIBE TABLE gua.host_days").splitlines()]
    changed = ",\n".join(f"{how} AS `{column}`" for column in columns if (how := _renamed(column)))
    whole = {"first_host": source.hosts, "sources": source.hosts}
    server.run("day_marks", **whole, hosts=fleet.hosts - source.hosts)
    step = max(1, _COPIES_AT_ONCE // fleet.days)
    for first in range(source.hosts, fleet.hosts, step):
        part = {"first_host": first, "hosts": min(step, fleet.hosts - first)}
        server.run("day_rows", **part, sources=source.hosts, changed=changed)
    return time.perf_counter() - begun


def seed_last_hours(server: FleetServer, fleet: Fleet, added: Fleet, source: Fleet, *, days: int = 3) -> float:
    """Add hours of the last ``days`` of the hosts whose days were copied, of which it is told who holds cards now.

    They are those of other hosts than the days are copies of, with the same marks. Return the seconds it took.
    """
    begun = time.perf_counter()
    step = max(1, _COPIES_AT_ONCE // days)
    for first in range(added.hosts, fleet.hosts, step):
        server.run(
            "hour_rows",
            first_host=first,
            hosts=min(step, fleet.hosts - first),
            days=days,
            first_day=fleet.first_day + fleet.days - days,
            sources=source.hosts,
            source_days=source.days,
            source_first_day=source.first_day,
        )
    return time.perf_counter() - begun


def _renamed(column: str) -> str | None:
    """Return what a column of a copied day is made of, where it has names of cards or users."""
    if column == "cards.gpu":
        return "gpus"
    if column.endswith(".gpu"):
        return f"arrayMap(gpu -> gpus[indexOf(source.`cards.gpu`, gpu)], source.`{column}`)"
    if column.endswith(".owner"):
        user = "users[1 + (toUInt32OrZero(substring(assumeNotNull(owner), 5)) + other_user) % 300]"
        return f"arrayMap(owner -> if(owner IS NULL, NULL, {user}), source.`{column}`)"
    return None


def _seed_inventory(server: FleetServer, fleet: Fleet, *, first_host: int = 0) -> None:
    whole = {"first_host": first_host, "hosts": fleet.hosts - first_host}
    bounds = {"since_ms": fleet.since_ms, "until_ms": fleet.until_ms}
    server.run("card_info", **whole, until_ms=fleet.until_ms)
    server.run("card_seen", **whole, **bounds)
    server.run("agents", **whole, days=fleet.days, first_day=fleet.first_day)
