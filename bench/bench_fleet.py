"""A fleet on one ClickHouse server: report time, storage, growth, beside gpu-usage-audit 1.8.0 on the same history.

Run: python bench/bench_fleet.py [--cards 64] [--days 30] [--sizes 8x30 … 10000x90] [--only PART …]. Figures stand
beside their limits. Ticks are made on the server with SQL (bench/fleet) and rolled up with ``gua rollup``; larger
fleets get hours copied from those, on other days, with other cards and users. Needs npm.
By hand, 88 million card ticks: --only ticks --cards 1024 --days 30 --no-older.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures import fleet_older  # noqa: E402 - found through the line above
from measures.figures import cpu_ms, machine, middle, show, title  # noqa: E402 - likewise
from measures.fleet_allocation import show_allocation  # noqa: E402 - likewise
from measures.fleet_charts import show_charts  # noqa: E402 - likewise
from measures.fleet_report import (  # noqa: E402 - likewise
    asked,
    exponent,
    report_command,
    show_command,
    show_equality,
    show_page,
    show_report,
    timed,
)
from measures.fleet_seed import (  # noqa: E402 - likewise
    CARDS_A_HOST,
    Fleet,
    roll_up,
    seed_hours,
    seed_newest_hour,
    seed_ticks,
    store_source,
)
from measures.fleet_server import DAYS, ROLLUPS, TABLES, FleetServer, fleet_server  # noqa: E402 - likewise
from measures.fleet_storage import show_storage  # noqa: E402 - likewise

from servers.older import VERSION, CannotInstallError, install  # noqa: E402 - likewise
from servers.tools import MissingToolError, clickhouse_library  # noqa: E402 - likewise

# Limits in seconds of all queries of a report, for fleets up to a size in cards and days. Sessions, longest idle
# times and who holds cards now take three fifths of the last of them.
LIMITS = {(64, 30): 0.3, (1_024, 30): 1.5, (4_400, 90): 4.0, (10_000, 90): 2.0}
# Of CPU, whatever the machine: from 8 cards x 30 days to 10,000 x 90 to the tenfold.
GROWTH_LIMIT = 0.28
SIZES = ("8x30", "64x30", "512x30", "2048x90", "10000x90")
FASTER, SMALLER = 300, 15
# Copied hours come from so many cards at most.
SOURCE_CARDS, SOURCE_DAYS = 64, 30


def limit_of(fleet: Fleet) -> float | None:
    fitting = [limit for (cards, days), limit in LIMITS.items() if fleet.cards <= cards and fleet.days <= days]
    return fitting[0] if fitting else None


def ticks(server: FleetServer, options: argparse.Namespace) -> None:
    """Ticks rolled up, stored and reported."""
    fleet = Fleet(cards=options.cards, days=options.days)
    title(f"{fleet}, 30 s, 1 to 4 processes on a card in use")
    fill(server, fleet, show_it=True)
    found = show_storage(server)
    show_report(server, asked(fleet), times=options.times, limit_s=limit_of(fleet))
    show_command(server, asked(fleet), times=options.times)
    show_page(server, asked(fleet), times=options.times)
    if fleet.cards <= SOURCE_CARDS:
        show_equality(server, fleet)
    if options.older:
        beside_older(server, fleet, every_days=options.older_days or [fleet.days], ours=found.ticks + found.hours)
    if fleet.cards <= SOURCE_CARDS:
        store_source(server)


def charts(server: FleetServer, options: argparse.Namespace) -> None:
    """Every chart that is shipped, over ticks and their hours."""
    fleet = Fleet(cards=min(options.cards, SOURCE_CARDS), days=min(options.days, SOURCE_DAYS))
    title(f"Charts: {fleet}, 30 s, 1 to 4 processes on a card in use; time on the server")
    if server.query("SELECT count() FROM gua.card_ticks") == "0":
        fill(server, fleet)
        for table in TABLES:
            server.merge(table)
    show_charts(server, times=options.times)


def storage(server: FleetServer, options: argparse.Namespace) -> None:
    """Bytes a row with 10 processes on each card in use."""
    fleet = Fleet(cards=min(options.cards, SOURCE_CARDS), days=min(options.days, options.storage_days))
    title(f"{fleet}, 30 s, 10 processes on a card in use")
    server.clear()
    fill(server, fleet, processes=10)
    show_storage(server, crowded=True)


def allocation(server: FleetServer, options: argparse.Namespace) -> None:
    """Bytes of allocation and of idle seconds, and the report with allocation beside the same without."""
    fleet = Fleet(cards=options.cards, days=options.days)
    source = Fleet(cards=min(options.cards, 2 * CARDS_A_HOST), days=min(options.days, 2))
    title(f"{fleet} with a job on four of five cards and without, hours copied from those of {source}")
    show_allocation(server, fleet, source, times=options.times)


def growth(server: FleetServer, options: argparse.Namespace) -> None:
    """Report time against cards x days."""
    source = Fleet(cards=min(options.cards, SOURCE_CARDS), days=min(options.days, SOURCE_DAYS))
    if server.query("EXISTS TABLE gua.bench_rollups") == "0":
        server.clear()
        fill(server, source)
        store_source(server)
    measured: dict[Fleet, float] = {}
    cpu_s: dict[Fleet, float] = {}
    for size in options.sizes:
        cards, days = map(int, size.split("x"))
        fleet = Fleet(cards=cards, days=days)
        title(f"{fleet}, hours copied from those of {source}")
        server.clear()
        took = seed_hours(server, fleet, source)
        server.merge(*ROLLUPS, DAYS, "hour_marks")
        rows, size_bytes = (sum(server.parts(table)[which] for table in (*ROLLUPS, DAYS)) for which in (1, 2))
        hours = server.parts("rollups")[1]
        note = f"made in {took:.1f} s; {rows / hours:.1f} rows and {size_bytes / hours:.0f} bytes each, merged"
        show("hours of hosts", hours, note=note)
        # The first tick began before the first hour; of an hour that lies half outside, copies have no ticks.
        request = asked(fleet, early_ms=60_000)
        found = show_report(server, request, times=options.times, limit_s=limit_of(fleet))
        measured[fleet], cpu_s[fleet] = middle(found.queries_s), found.server_cpu_s
        show_command(server, request, times=options.times)
        if options.newest_hour:
            seed_newest_hour(server, fleet)
            print(f"  with one more hour, not rolled up yet: {server.parts('card_ticks')[1]:,} card ticks")
            show_report(server, asked(fleet, early_ms=60_000, late_ms=3_600_000), times=options.times)
    if len(measured) > 1:
        title("Growth: all queries of a report, warm")
        before: dict[Fleet, float] = {}
        for fleet, seconds in measured.items():
            since_before = f", to the power of {exponent({**before, fleet: seconds}):.2f}" if before else ""
            rate = fleet.cards * fleet.days / seconds
            show(str(fleet), seconds * 1000, "ms", note=f"{rate:,.0f} days of cards a second{since_before}")
            before = {fleet: seconds}
        print(f"  seconds grow as (cards x days) to the power of {exponent(measured):.2f}; 1 would be in proportion")
        show("CPU of the server grows to the power of", exponent(cpu_s), "", GROWTH_LIMIT)


def fill(server: FleetServer, fleet: Fleet, *, processes: int = 0, show_it: bool = False) -> None:
    """Fill an empty server with ticks, and roll up their hours."""
    took = seed_ticks(server, fleet, processes=processes)
    card_ticks, process_ticks = server.parts("card_ticks")[1], server.parts("process_ticks")[1]
    took_rollup = roll_up(server)
    hours = server.parts("rollups")[1]
    if show_it:
        show("card ticks", card_ticks, note=f"and {process_ticks:,} process ticks, made in {took:.0f} s")
        show("gua rollup", hours / took_rollup, "/s", note=f"{hours:,} hours of hosts in {took_rollup:.1f} s")
        begun = cpu_ms(server.pid)
        server.query("INSERT INTO gua.due_rollups SELECT * FROM gua.due_hours")
        show("CPU of a minute in which no hour is due", cpu_ms(server.pid) - begun, "ms")


def beside_older(server: FleetServer, fleet: Fleet, *, every_days: Sequence[int], ours: int) -> None:
    """Show what the older tool needs for the last days of the same history, of each number of days one after another.

    Where it needs too long for all days, fewer of them say how it grows.
    """
    title(f"Beside gpu-usage-audit {VERSION}: {fleet.cards:,} cards")
    try:
        older = install()
    except CannotInstallError as error:
        print(f"  not measured: {error}")
        return
    its_s: dict[Fleet, float] = {}
    for days in every_days:
        part = Fleet(cards=fleet.cards, days=days)
        with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
            database = Path(folder) / "gua.db"
            begun = time.perf_counter()
            cards, processes = fleet_older.fill(server, fleet, older, database, days=days)
            size = database.stat().st_size
            took = time.perf_counter() - begun
            note = f"{cards:,} + {processes:,} rows, made in {took:.0f} s"
            show(f"{days} days, its SQLite", size / 1e6, "MB", note=note)
            # Of fewer days ours are counted as the same part of all.
            ratio = size / (ours * days / fleet.days)
            show("times the bytes of ours", ratio, note=f"at least {SMALLER}: {_verdict(ratio, SMALLER)}")
            its = fleet_older.report(older, database, fleet, days=days, samples=cards)
        show(f"{VERSION}: gua report", its.wall_s, "s", note=f"{its.cpu_s:.1f} s CPU, peak {its.peak_mb:,.0f} MB")
        own = [report_command(server, asked(part), "--width", "80") for _ in range(5)]
        wall = middle([one.wall_s for one in own])
        note = f"{middle([one.cpu_s for one in own]):.2f} s CPU, peak {max(one.peak_mb for one in own):,.0f} MB"
        show("this: gua report, the whole command", wall, "s", note=note)
        show("times as fast, command beside command", its.wall_s / wall, note=_least(its.wall_s / wall))
        queries = middle(timed(server, asked(part), times=5).queries_s)
        show("times as fast, command beside our queries", its.wall_s / queries, note=_least(its.wall_s / queries))
        its_s[part] = its.cpu_s
    if len(its_s) > 1:
        print(f"  its CPU seconds grow as days to the power of {exponent(its_s):.2f}")


def _least(ratio: float) -> str:
    return f"at least {FASTER}: {_verdict(ratio, FASTER)}"


def _verdict(ratio: float, least: float) -> str:
    return "yes" if ratio >= least else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="PART", help="some of %(choices)s", choices=PARTS)
    parser.add_argument("--cards", type=int, default=64, help="cards whose ticks are made; 8 a host")
    parser.add_argument("--days", type=int, default=30, help="days of ticks")
    parser.add_argument("--storage-days", type=int, default=3, help="days of ticks with 10 processes a card")
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="CARDSxDAYS", help="fleets of copied hours")
    parser.add_argument("--newest-hour", action="store_true", help="also report with an hour that is not rolled up")
    parser.add_argument("--times", type=int, default=5, help="how often a report is made")
    parser.add_argument("--no-older", dest="older", action="store_false", help=f"leave gpu-usage-audit {VERSION} out")
    parser.add_argument(
        "--older-days", type=int, nargs="*", metavar="DAYS", help="days that it gets, one after another"
    )
    parser.add_argument("--folder", type=Path, help="where the server's data go, for a while; the temporary folder")
    options = parser.parse_args()
    print(machine())
    try:
        clickhouse_library()
    except MissingToolError as error:
        print(f"not measured: {error}")
        return
    with (
        tempfile.TemporaryDirectory(prefix="gua-bench-", dir=options.folder) as folder,
        fleet_server(Path(folder)) as server,
    ):
        for part in options.only or PARTS:
            PARTS[part](server, options)
    print(machine())


PARTS: dict[str, Callable[[FleetServer, argparse.Namespace], None]] = {
    "ticks": ticks,
    "charts": charts,
    "growth": growth,
    "storage": storage,
    "allocation": allocation,
}

if __name__ == "__main__":
    main()
