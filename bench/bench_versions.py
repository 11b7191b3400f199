"""Before and after: every row of the goals in docs/speed.md, of an older version and of this one, by turns in one run.

Run: python bench/bench_versions.py CHECKOUT [--only ROW …] [--times 3]. CHECKOUT is a checkout of the older version in
which `make setup` ran. Each version measures with its own code and its own bench, in processes of its own, on its own
stores and server, made of the same ticks: a database of gpu-usage-audit 1.8 of eight cards at 30 s (``report``,
``hour``, ``agent``, ``import``), a spool that the older version filled with ticks of 8 cards x 10 processes
(``landing``), that host on the simulated driver (``tick``), and a fleet made on the server with SQL (``fleet``,
``page``, ``large``: hours copied). Prints a table a row: the median, the least and the most, and older / newer. The
last three need npm, ``tick`` and ``agent`` a C compiler.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures import older_history, older_report  # noqa: E402 - found through the line above
from measures.figures import machine, middle, title  # noqa: E402 - likewise
from measures.version import ADDITIONS, ROWS  # noqa: E402 - likewise

from servers.older import VERSION, CannotInstallError  # noqa: E402 - likewise

# Within which two figures count as the same.
_NOISE = 0.05


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a figure of this version must reach, or how many times less than before it must be: 1 is no more."""

    least: float | None = None
    most: float | None = None
    ratio: float | None = None

    def told(self, older: float | None, newer: float) -> str:
        """Return the goal and whether it is reached."""
        if self.ratio is not None:
            good = older is not None and older / newer >= self.ratio * (1 if self.ratio > 1 else 1 - _NOISE)
            what = f"{self.ratio:g} times less" if self.ratio > 1 else "no more"
        elif self.least is not None:
            good, what = newer >= self.least, f"{self.least:,g} or more"
        else:
            good, what = self.most is not None and newer <= self.most, f"{self.most:,g} at most"
        return f"{what}: {'reached' if good else 'not reached'}"


AS_1_8_0 = f"gua report: times as fast as {VERSION}"
GOALS: dict[str, dict[str, Goal]] = {
    "report": {
        AS_1_8_0: Goal(least=20),
        "gua report: memory, MB": Goal(most=350),
        "gua explain / 'SELECT 1', clock": Goal(most=1.3),
        "gua prices list / 'SELECT 1', clock": Goal(most=1.3),
    },
    "hour": {"gua report / 'SELECT 1', clock": Goal(most=1.3)},
    "agent": {"gua prices list, million additions": Goal(most=7)},
    "import": {"card ticks a second of CPU": Goal(least=12_000)},
    "demo": {"gua demo: clock, s": Goal(most=5)},
    "tick": {"made and spooled: CPU, ms": Goal(most=5), "delivered: CPU, ms": Goal(most=8)},
    "landing": {"landing a tick: CPU, ms": Goal(ratio=1.5), "memory, MB": Goal(ratio=1)},
    "fleet": {
        "all questions, million additions": Goal(most=8),
        "hours beside ticks, %": Goal(most=5),
    },
    "page": {"gua report --html: clock, s": Goal(most=1.5)},
    "large": {"gua report: clock, s": Goal(most=2), "gua report: memory, MB": Goal(most=120)},
}


class Side:
    """A version that measures in a process of its own."""

    def __init__(self, checkout: Path, folder: Path, settings: dict[str, object]) -> None:
        self._python = checkout / ".venv" / "bin" / "python"
        folder.mkdir()
        command = [self._python, "-m", "measures.version", folder, json.dumps(settings)]
        path = os.pathsep.join((str(checkout / "bench"), str(checkout / "tests")))
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def measure(self, row: str) -> dict[str, Any]:
        """Return its answer: figures, or why it cannot."""
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101, PT018 - as opened
        try:
            print(row, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return dict(json.loads(line)) if line else {"cannot": "its process ended"}

    def end(self) -> None:
        """Have it clear up, and wait for that."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


@contextmanager
def sides(checkouts: dict[str, Path], folder: Path, settings: dict[str, object]) -> Iterator[dict[str, Side]]:
    """Yield both versions, each in a folder of its own."""
    with ExitStack() as held:
        both = {}
        for name, checkout in checkouts.items():
            both[name] = Side(checkout, folder / name, settings)
            held.callback(both[name].end)
        yield both


def write_shared(checkout: Path, shared: Path, options: argparse.Namespace) -> None:
    """Write what both versions are given, once."""
    shared.mkdir()
    wanted = set(options.only)
    for name, needed_by, span in (
        ("many", {"report"}, {"days": options.days}),
        ("hour", {"hour", "agent"}, {"days": 1, "hours": 1}),
        ("few", {"import"}, {"days": options.import_days}),
    ):
        if needed_by & wanted:
            older_history.write(shared / f"{name}.db", **span)
    if "landing" in wanted:
        code = "import sys; from pathlib import Path; from measures.spooled import spool_days; "
        code += f"spool_days(Path(sys.argv[1]), 1774915200000, {options.landing_ticks})"
        path = os.pathsep.join((str(checkout / "bench"), str(checkout / "tests")))
        python = checkout / ".venv" / "bin" / "python"
        environ = {**os.environ, "PYTHONPATH": path}
        subprocess.run([python, "-c", code, shared / "spool.db"], env=environ, check=True)


def measure(row: str, both: dict[str, Side], times: int) -> dict[str, list[dict[str, float]]]:
    """Measure a row of both versions by turns, and return every figure; of none that cannot be measured."""
    every: dict[str, list[dict[str, float]]] = {name: [] for name in both}
    for turn in range(times):
        for name, side in list(both.items())[:: -1 if turn % 2 else 1]:
            if turn and not every[name]:
                continue
            begun = time.perf_counter()
            answer = side.measure(row)
            if "cannot" in answer:
                print(f"  {name}: not measured: {answer['cannot']}", flush=True)
            else:
                every[name].append(answer["figures"])
                if not turn:
                    print(f"  {name}: made and measured once in {time.perf_counter() - begun:.0f} s", flush=True)
    return every


def derive(row: str, every: dict[str, list[dict[str, float]]], shared: Path, options: argparse.Namespace) -> None:
    """Add the reported figures of a row beside another figure of the same run."""
    if row == "agent":
        for one in (one for found in every.values() for one in found):
            one["gua prices list, million additions"] = one["gua prices list: clock, s"] * 1000 / one[ADDITIONS]
    if row == "report" and options.beside:
        try:
            its = older_report.measure(shared / "many.db", days=options.days, times=options.times)
        except CannotInstallError as error:
            print(f"  {VERSION}: not measured: {error}")
            return
        clock_s, cpu_s = middle([one.wall_s for one in its]), middle([one.cpu_s for one in its])
        clock, cpu = (spread([getattr(one, name) for one in its]) for name in ("wall_s", "cpu_s"))
        print(f"  {VERSION}: {clock} s, {cpu} s of CPU, {max(one.peak_mb for one in its):,.0f} MB")
        for one in (one for found in every.values() for one in found):
            one[AS_1_8_0] = clock_s / one["gua report: clock, s"]
            one[f"{AS_1_8_0}, CPU"] = cpu_s / one["gua report: CPU, s"]


def spread(values: list[float]) -> str:
    """Return the median of some measurements, and the least and the most."""
    shown = [f"{one:,.{0 if one >= 1000 else 1 if one >= 100 else 2}f}" for one in (middle(values), *_ends(values))]
    return shown[0] if len(values) == 1 or shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def show(row: str, every: dict[str, list[dict[str, float]]]) -> None:
    """Print the row's table, in Markdown."""
    names = list(dict.fromkeys(name for found in every.values() for one in found[:1] for name in one))
    print(f"\n  | {row} | older | newer | older / newer | goal |\n  |---|---|---|---|---|")
    for name in names:
        values = {side: [one[name] for one in found if name in one] for side, found in every.items()}
        cells = [spread(found) if found else "" for found in values.values()]
        older, newer = (middle(found) if found else None for found in values.values())
        ratio = f"{older / newer:.2f}" if older and newer else ""
        goal = GOALS[row].get(name)
        told = goal.told(older, newer) if goal and newer is not None else ""
        print(f"  | {name} | {' | '.join(cells)} | {ratio} | {told} |")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="of the older version, with its own .venv")
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", choices=ROWS, default=list(ROWS), help="some of %(choices)s"
    )
    parser.add_argument("--times", type=int, default=3, help="how often each version measures each row")
    parser.add_argument("--days", type=int, default=30, help="days of ticks, of the embedded store and of the fleet")
    parser.add_argument("--cards", type=int, default=64, help="cards of the fleet whose ticks are made; 8 a host")
    parser.add_argument("--large", default="10000x90", metavar="CARDSxDAYS", help="the fleet of copied hours")
    parser.add_argument("--import-days", type=int, default=3, help="days of eight cards that are imported each time")
    parser.add_argument("--landing-ticks", type=int, default=5_760, help="ticks that are landed each time")
    parser.add_argument("--ticks", type=int, default=200, help="ticks of the agent whose CPU is measured each time")
    parser.add_argument("--no-beside", dest="beside", action="store_false", help=f"leave gpu-usage-audit {VERSION} out")
    parser.add_argument("--folder", type=Path, help="where stores are made; the temporary folder")
    options = parser.parse_args()
    checkouts = {"older": options.checkout.resolve(), "newer": ROOT}
    for checkout in checkouts.values():
        if not (checkout / ".venv" / "bin" / "gua").exists():
            print(f"{checkout} has no .venv with gua: run make setup there", file=sys.stderr)
            return 2
        compileall.compile_dir(checkout / "src", quiet=1)  # as an installed package is
    print(machine(), flush=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="gua-versions-", dir=options.folder) as name:
        folder = Path(name)
        write_shared(checkouts["older"], folder / "shared", options)
        told = ("days", "cards", "large", "import_days", "ticks")
        settings = {"shared": str(folder / "shared"), **{one: getattr(options, one) for one in told}}
        with sides(checkouts, folder, settings) as both:
            for row in options.only:
                begun = time.perf_counter()
                title(f"{row}, {options.times} times by turns")
                every = measure(row, both, options.times)
                derive(row, every, folder / "shared", options)
                show(row, every)
                good &= bool(every["newer"])
                print(f"  {row} took {time.perf_counter() - begun:.0f} s", flush=True)
    print(machine())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
