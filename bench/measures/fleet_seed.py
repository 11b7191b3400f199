"""Fills a server with an invented fleet: with ticks, or with rolled up hours copied from those of a smaller fleet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from measures.fleet_server import DAYS, PATIENCE_S, ROLLUPS, FleetServer

from gua.store.statements import server_tokens

CARDS_A_HOST = 8
DAY_MS = 86_400_000
TICKS_A_DAY, TICKS_AN_HOUR = 2_880, 120
_ROWS_AT_ONCE = 1_000_000
# Days of hosts that one statement copies: of more it would need more memory than the server has.
_COPIES_AT_ONCE = 3_000
_TIMES = (
    "start_ms",
    "end_ms",
    "created_ms",
    "first_ms",
    "last_ms",
    "last_failed_ms",
    "xid_at_ms",
    "row_remap_at_ms",
    "recovery_at_ms",
    "known_until_ms",
    "head_since_ms",
    "tail_since_ms",
    "tail_known_before_ms",
)
# How a copied row differs, by column. Hosts have eight cards each, numbered one host after the other. The marker row of
# a host has no card.
_CHANGED = {
    "host": "hosts[host_number + 1]",
    "gpu": "if(source.gpu = '', '', cards[host_number * 8 + (indexOf(cards, source.gpu) - 1 + turned) % 8 + 1])",
    "hour": "source.hour + toIntervalDay(later_days)",
    "day": "source.day + toIntervalDay(later_days)",
    "pid": "if(source.gpu = '', 0, toUInt32(1000 + (source.pid + other_user * 7919) % 4000000))",
    "owner": (
        "if(source.owner IS NULL, NULL, "
        "users[(toUInt32OrZero(substring(assumeNotNull(source.owner), 5)) + other_user) % 300 + 1])"
    ),
    **{name: f"source.{name} + if(source.{name} > 0, later_ms, 0)" for name in _TIMES},
}


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


def roll_up(server: FleetServer) -> float:
    """Roll up the hours of the ticks, once they have settled, and return the seconds it took."""
    time.sleep(int(server_tokens()["SETTLE_SECONDS"]) + 1)
    begun = time.perf_counter()
    done = server.gua.run("rollup", "--store", server.dsn(), seconds=PATIENCE_S)
    if done.returncode:
        sys.exit(done.stderr)
    return time.perf_counter() - begun


def seed_newest_hour(server: FleetServer, fleet: Fleet) -> None:
    """Add the ticks of one more hour, which is not rolled up yet."""
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


def store_source(server: FleetServer) -> None:
    """Store the rolled up hours and merged days that larger fleets are copied from."""
    for table in (*ROLLUPS, DAYS):
        server.query(f"DROP TABLE IF EXISTS gua.bench_{table}")
        # Rows of a host itself have marks; a copy of one would start the chain of rollups.
        where = "" if table in ("rollups", DAYS) else "WHERE marks = 0"
        query = f"SELECT * FROM gua.{table} FINAL {where}"  # noqa: S608 - names of tables
        server.query(f"CREATE TABLE gua.bench_{table} ENGINE = MergeTree ORDER BY (host, {_time_of(table)}) AS {query}")


def seed_hours(server: FleetServer, fleet: Fleet, source: Fleet) -> float:
    """Fill an empty server with hours and days copied from those of ``source``; return the seconds it took."""
    begun = time.perf_counter()
    _seed_inventory(server, fleet)
    copy_hours(server, fleet, source, (*ROLLUPS, DAYS))
    server.run("hour_marks")
    roll_up(server)
    return time.perf_counter() - begun


def copy_hours(server: FleetServer, fleet: Fleet, source: Fleet, tables: Sequence[str]) -> None:
    """Copy rows of some hourly or daily tables from those of ``source``."""
    for table in tables:
        columns = [line.split("\t")[0] for line in server.query(f"DESCRIBE TABLE gua.{table}").splitlines()]
        changed = ",\n    ".join(f"{_CHANGED[column]} AS {column}" for column in columns if column in _CHANGED)
        for part in _parts(fleet, max(1, _COPIES_AT_ONCE // fleet.days)):
            server.run(
                "copy",
                **part,
                table=table,
                time=_time_of(table),
                changed=changed,
                days=fleet.days,
                first_day=fleet.first_day,
                sources=source.hosts,
                source_days=source.days,
                source_first_day=source.first_day,
            )


def _time_of(table: str) -> str:
    return "day" if table == DAYS else "hour"


def _seed_inventory(server: FleetServer, fleet: Fleet) -> None:
    whole = {"first_host": 0, "hosts": fleet.hosts}
    bounds = {"since_ms": fleet.since_ms, "until_ms": fleet.until_ms}
    server.run("card_info", **whole, until_ms=fleet.until_ms)
    server.run("card_seen", **whole, **bounds)
    server.run("agents", **whole, days=fleet.days, first_day=fleet.first_day)
