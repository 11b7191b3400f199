"""What people wait for: ``gua report`` as a whole process, embedded, against a server and as a page; help and status.

Run: python bench/bench_report.py [--only PART …] [--days 30] [--times 5] [--no-older]. Figures stand beside
their limits. ``embedded`` is a database of gpu-usage-audit 1.8 of eight cards at 30 s, imported, that version's own
report of the same file in the same run, and the store with an agent of the simulated driver on it; ``server`` and
``page`` are fleets made on a ClickHouse server with SQL, and need npm; ``commands`` query such an agent. Each
command is run once before it counts.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures import lifetime, older_history, older_report  # noqa: E402 - found through the line above
from measures.beside_agent import with_agent  # noqa: E402 - likewise
from measures.child import Ran, ran  # noqa: E402 - likewise
from measures.figures import machine, middle, show, spread, title  # noqa: E402 - likewise
from measures.fleet_report import GUA, asked  # noqa: E402 - likewise
from measures.fleet_seed import Fleet, roll_up, seed_ticks  # noqa: E402 - likewise
from measures.fleet_server import FleetServer, fleet_server  # noqa: E402 - likewise

from servers.older import VERSION, CannotInstallError  # noqa: E402 - likewise
from servers.tools import MissingToolError, clickhouse_library  # noqa: E402 - likewise

CARDS, PAGE_CARDS = 8, 64
EMBEDDED_S, EMBEDDED_MB = 1.0, 450.0
SERVER_S, SERVER_MB = 0.5, 120.0
PAGE_S, PAGE_MB = 3.0, 3.0
FASTER = 8


def embedded(options: argparse.Namespace) -> None:
    """Show the report of an embedded store, beside that of the tool that had this name before."""
    title(f"{CARDS} cards x {options.days} days at 30 s in an embedded store")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        database, store = Path(folder, "gua.db"), f"chdb://{folder}/store"
        older_history.write(database, days=options.days)
        ran(GUA, "import", "gua-sqlite", database, "--store", store, output=Path(folder, "import"))
        window = ("--since", f"{options.days}d", "--store", store)
        ours = _measure("gua report", options.times, *window, wall_s=EMBEDDED_S, peak_mb=EMBEDDED_MB)
        _measure("gua report --json", options.times, "--json", *window)
        _measure("gua report --section all", options.times, "--section", "all", *window)
        with_agent(Path(folder, "store"), days=options.days, times=options.times)
        if options.older:
            beside_older(database, options, ours)


def beside_older(database: Path, options: argparse.Namespace, ours: float) -> None:
    """Show what the older tool needs for its report of the same file."""
    try:
        its = older_report.measure(database, days=options.days, times=options.times)
    except CannotInstallError as error:
        print(f"  {VERSION}: not measured: {error}")
        return
    seconds = middle([one.wall_s for one in its])
    peak = max(one.peak_mb for one in its)
    note = f"{_cpu(its):.2f} s CPU, peak {peak:,.0f} MB, {spread([one.wall_s for one in its])}"
    show(f"{VERSION}: gua report", seconds, "s", note=note)
    ratio = seconds / ours
    verdict = "yes" if ratio >= FASTER else "no"
    show("times as fast", ratio, note=f"at least {FASTER}: {verdict}")


def server(options: argparse.Namespace) -> None:
    """Show the report of a server's store."""
    with _seeded(options, cards=CARDS) as (running, window):
        limits = {"wall_s": SERVER_S, "peak_mb": SERVER_MB}
        _measure("gua report", options.times, *window, server=running, **limits)
        _measure("gua report --json", options.times, "--json", *window, server=running)
        _measure("gua report --section all", options.times, "--section", "all", *window, server=running)


def page(options: argparse.Namespace) -> None:
    """Show the report of a fleet as a web page."""
    with _seeded(options, cards=PAGE_CARDS) as (running, window), tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        _measure("gua report --html", options.times, "--html", file, *window, server=running, wall_s=PAGE_S)
        show("  its page", file.stat().st_size / 1e6, "MB", PAGE_MB)


def _measure(
    name: str,
    times: int,
    *arguments: str | Path,
    server: FleetServer | None = None,
    wall_s: float | None = None,
    peak_mb: float | None = None,
) -> float:
    """Show what a report needs beside its limits, and return the middle of its seconds."""
    where = ("--store", server.dsn("gua_reader")) if server else ()
    with tempfile.TemporaryDirectory() as folder:
        every = [ran(GUA, "report", *arguments, *where, output=Path(folder, "output")) for _ in range(times + 1)][1:]
    walls = [one.wall_s for one in every]
    show(name, middle(walls), "s", wall_s, note=f"{_cpu(every):.2f} s CPU, {spread(walls)}")
    show("  its peak memory", max(one.peak_mb for one in every), "MB", peak_mb)
    return middle(walls)


def _cpu(every: list[Ran]) -> float:
    return middle([one.cpu_s for one in every])


@contextmanager
def _seeded(options: argparse.Namespace, *, cards: int) -> Iterator[tuple[FleetServer, tuple[str, ...]]]:
    """Yield a server with a fleet's ticks and hours, and the options that name their time."""
    fleet = Fleet(cards=cards, days=options.days)
    title(f"{fleet} at 30 s on a ClickHouse server, 1 to 4 processes on a card in use")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder, fleet_server(Path(folder)) as running:
        seed_ticks(running, fleet)
        roll_up(running)
        request = asked(fleet)
        yield running, ("--since", str(request.since), "--until", str(request.until))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="PART", help="some of %(choices)s", choices=PARTS)
    parser.add_argument("--days", type=int, default=30, help="days of ticks")
    parser.add_argument("--times", type=int, default=5, help="how often each command is measured")
    parser.add_argument("--no-older", dest="older", action="store_false", help=f"leave gpu-usage-audit {VERSION} out")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "src", quiet=1)  # as an installed package is
    print(machine())
    for part in options.only or PARTS:
        if part in {"server", "page"}:
            try:
                clickhouse_library()
            except MissingToolError as error:
                print(f"{part} not measured: {error}")
                continue
        PARTS[part](options)
    print(machine())


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "embedded": embedded,
    "server": server,
    "page": page,
    "commands": lambda options: lifetime.commands(options.times),
}

if __name__ == "__main__":
    main()
