"""The upgrade of a store from an older schema to this one: how long it takes, and what readers see meanwhile.

Run: python bench/bench_upgrade.py CHECKOUT [--only embedded server] [--days 30] [--cards 8]. CHECKOUT is a checkout of
the older version in which `make setup` ran; it fills the store and counts its hours. An embedded store grows when this
version opens it: its first report beside the next ones. On a server `gua schema apply` runs, and hours are counted anew
where the rules differ, while two readers ask in a loop: `gua report --json`, of the older version as long as its schema
is in force and of this one from then on, and SQL as BI tools do. Fails if a reader is refused by both, or if a number
differs of what the older report told before; what is left out until hours are counted anew is told. Needs npm.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench_equal import leaves  # noqa: E402 - found through the line above
from measures import older_history  # noqa: E402 - likewise
from measures.child import Ran, ran  # noqa: E402 - likewise
from measures.figures import machine, show, title  # noqa: E402 - likewise
from measures.fleet_report import GUA, asked  # noqa: E402 - likewise
from measures.fleet_seed import Fleet, count_hours, seed_ticks  # noqa: E402 - likewise
from measures.fleet_server import PATIENCE_S, FleetServer  # noqa: E402 - likewise

from servers.gua import Gua  # noqa: E402 - likewise

BI = "SELECT state, round(sum(gpu_hours), 3) FROM gua_public.card_hours GROUP BY state ORDER BY state"
SKIPPED = ".streaks_skipped_card_hours"
REFUSALS = ("this gua knows", "this gua needs")


def changed(before: str, now: str) -> tuple[list[str], int]:
    """Return what an older report told and a newer one tells otherwise, and how many numbers it leaves out for now.

    Hours that are to be counted anew are read from their ticks meanwhile; of too many ticks no streaks are made, as
    ``streaks_skipped_card_hours`` says. What is new in a report may stand there.
    """
    told = dict(leaves(json.loads(now)))
    is_short = told.get(SKIPPED) is not None
    unlike, left_out = [], 0
    for path, one in leaves(json.loads(before)):
        other = told.get(path)
        if one == other:
            continue
        if is_short and (other is None or other == 0 or path == SKIPPED):
            left_out += 1
        else:
            unlike.append(f"{path}: {one!r} before, {told.get(path, 'nothing')!r} now")
    return unlike, left_out


def embedded(older: Path, options: argparse.Namespace) -> bool:
    """Show what it takes this version to open a store of the older one, and whether its report is the same."""
    title(f"An embedded store of {older_history.CARDS} cards x {options.days} days at 30 s")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        database, store, output = Path(folder, "gua.db"), Path(folder, "store"), Path(folder, "output")
        older_history.write(database, days=options.days)
        ran(older, "import", "gua-sqlite", database, "--store", store, output=output)
        report = ("report", "--json", "--since", f"{options.days}d", "--store", store)
        ran(older, *report, output=output)
        before = output.read_text()
        good = True
        for name, command in (
            ("gua sql 'SELECT 1', which upgrades it", ("sql", "SELECT 1", "--store", store)),
            ("gua sql 'SELECT 1', again", ("sql", "SELECT 1", "--store", store)),
            ("gua report --json, the first", report),
            ("gua rollup, which counts hours anew", ("rollup", "--store", store)),
            ("gua report --json, then", report),
        ):
            _took(name, ran(GUA, *command, output=output))
            if command is report:
                good &= _same("  numbers that differ from before", [before], [output.read_text()])
    return good


def server(older: Path, options: argparse.Namespace) -> bool:
    """Show what `gua schema apply` takes on a server with the older schema, and what readers got meanwhile."""
    fleet = Fleet(cards=options.cards, days=options.days)
    title(f"A server with {fleet} at 30 s")
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        running = FleetServer(Path(folder))
        running.gua = Gua(Path(folder, "older"), command=(older,))
        running.start()
        try:
            running.gua.must("schema", "apply", "--store", running.dsn())
            seed_ticks(running, fleet)
            count_hours(running)
            return _upgraded(running, Path(folder), fleet)
        finally:
            running.kill()


def _upgraded(running: FleetServer, folder: Path, fleet: Fleet) -> bool:
    request = asked(fleet)
    window = ("--since", str(request.since), "--until", str(request.until), "--store", running.dsn("gua_reader"))
    both = [running.gua, Gua(folder / "newer")]
    command = ("report", "--json", *window)
    before, bi_before = both[0].must(*command), running.query(BI, user="gua_bi")
    reports: list[str] = []
    bi: list[str] = []
    refused: list[str] = []
    slowest = [0.0]

    def read_report() -> None:
        # Who is refused as its schema is not in force asks by the other version, as users do who upgrade.
        for _ in range(2):
            begun = time.perf_counter()
            done = both[0].run(*command, seconds=PATIENCE_S)
            slowest[0] = max(slowest[0], time.perf_counter() - begun)
            if done.returncode == 0:
                reports.append(done.stdout)
                return
            if not any(words in done.stderr for words in REFUSALS):
                break
            both.reverse()
        refused.append(done.stderr.strip())

    def read_bi() -> None:
        try:
            bi.append(running.query(BI, user="gua_bi"))
        except AssertionError as error:
            refused.append(f"SQL: {str(error)[:300]}")

    over = threading.Event()
    readers = [threading.Thread(target=_until, args=(over, read)) for read in (read_report, read_bi)]
    for reader in readers:
        reader.start()
    try:
        _took("gua schema apply", ran(GUA, "schema", "apply", "--store", running.dsn(), output=folder / "output"))
        shown = len(reports)
        _took(
            "gua rollup, which counts hours anew", ran(GUA, "rollup", "--store", running.dsn(), output=folder / "out")
        )
    finally:
        over.set()
        for reader in readers:
            reader.join()
    show("  hours not counted yet", running.query("SELECT count() FROM gua_report.due_hours"))
    note = f"{shown} of them until the schema was applied; the slowest took {slowest[0]:.1f} s"
    show("reports meanwhile", len(reports), note=note)
    show("questions of BI meanwhile", len(bi))
    show("  refused", len(refused))
    print(*(f"    {line}\n" for line in dict.fromkeys(refused)), sep="", end="")
    good = _same("  numbers that differ from before", [before] * len(reports), reports)
    unlike = sum(one != bi_before for one in bi)
    show("  answers of BI that differ from before", unlike)
    return good and not refused and not unlike


def _until(over: threading.Event, read: Callable[[], Any]) -> None:
    while not over.is_set():
        read()
    read()


def _took(name: str, found: Ran) -> None:
    show(name, found.wall_s, "s", note=f"{found.cpu_s:.2f} s CPU, {found.peak_mb:,.0f} MB")


def _same(name: str, before: list[str], now: list[str]) -> bool:
    compared = [changed(one, other) for one, other in zip(before, now, strict=True)]
    every = sum(len(list(leaves(json.loads(one)))) for one in before)
    unlike = [line for lines, _ in compared for line in lines]
    show(name, len(unlike), note=f"of {every:,}")
    print(*(f"    {line}\n" for line in dict.fromkeys(unlike[:20])), sep="", end="")
    if short := [left_out for _, left_out in compared if left_out]:
        note = f"{max(short):,} numbers each, of streaks, until hours are counted anew"
        show("  reports that leave out something", len(short), note=note)
    return not unlike


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="of the older version, with its own .venv")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS, default=list(PARTS), help="%(choices)s")
    parser.add_argument("--days", type=int, default=30, help="days of ticks")
    parser.add_argument("--cards", type=int, default=8, help="cards of the server's fleet; 8 a host")
    options = parser.parse_args()
    older = options.checkout.resolve() / ".venv" / "bin" / "gua"
    if not older.exists():
        print(f"{options.checkout} has no .venv with gua: run make setup there", file=sys.stderr)
        return 2
    print(machine())
    print(*(f"{name} has schema version {_schema(gua)}" for name, gua in (("older", older), ("newer", GUA))), sep="; ")
    good = [PARTS[part](older, options) for part in options.only]
    print(machine())
    return 0 if all(good) else 1


def _schema(gua: Path) -> str:
    code = "from gua.store.statements import SCHEMA_VERSION; print(SCHEMA_VERSION)"
    python = gua.with_name("python")
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


PARTS = {"embedded": embedded, "server": server}

if __name__ == "__main__":
    sys.exit(main())
