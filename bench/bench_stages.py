"""Where the seconds of ``gua report`` go: its stages one after the other, in CPU time and on the clock.

Run: python bench/bench_stages.py [--days 30] [--times 3] [--store DSN]. The store is a database of gpu-usage-audit 1.8
of eight cards at 30 s, imported, if none is named. Figures are the least of so many, each in a process of its own; the
command itself, and ``SELECT 1`` of the same store, stand below them. What no report can do without is called the floor.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "bench"))

from measures import older_history  # noqa: E402 - found through the lines above
from measures.child import Ran, ran  # noqa: E402 - likewise
from measures.figures import machine, title  # noqa: E402 - likewise
from measures.fleet_report import GUA  # noqa: E402 - likewise

_FLOOR = ("Python starts", "the engine is loaded", "the store is opened")


def stages(store: str, since: str) -> tuple[int, dict[str, tuple[float, float]]]:
    """Return how many queries a report sends, and CPU time and clock of each stage in seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "measures.stages", store, since],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "bench"), str(ROOT / "src")))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    questions, every = json.loads(done.stdout)
    return questions, {name: (cpu, clock) for name, cpu, clock in every}


def profile(store: str, since: str, times: int) -> None:
    """Show the stages of a report since then, and the commands."""
    title(f"gua report --since {since}, the least of {times}; ms")
    every = [stages(store, since) for _ in range(times)]
    least = {name: tuple(min(one[name][which] for _, one in every) for which in (0, 1)) for name in every[0][1]}
    least["floor: all but the command's own modules and questions"] = tuple(
        sum(least[name][which] for name in _FLOOR) for which in (0, 1)
    )
    print(f"  {'':<58}{'CPU':>8}{'clock':>8}   ({every[0][0]} questions)")
    for name, (cpu, clock) in least.items():
        print(f"  {name:<58}{cpu * 1000:>8.0f}{clock * 1000:>8.0f}")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in {
            "the whole command": ("report", "--since", since),
            "gua sql 'SELECT 1'": ("sql", "SELECT 1"),
        }.items():
            runs: list[Ran] = [
                ran(GUA, *command, "--store", store, output=Path(folder, "output")) for _ in range(times + 1)
            ][1:]
            cpu, clock = min(one.cpu_s for one in runs), min(one.wall_s for one in runs)
            print(f"  {name:<58}{cpu * 1000:>8.0f}{clock * 1000:>8.0f}   {max(one.peak_mb for one in runs):.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="days of ticks")
    parser.add_argument("--times", type=int, default=3, help="how often each is measured")
    parser.add_argument("--store", help="a store that is there already")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "src", quiet=1)  # as an installed package is
    print(machine())
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        store = options.store or f"chdb://{folder}/store"
        if not options.store:
            older_history.write(Path(folder, "gua.db"), days=options.days)
            ran(GUA, "import", "gua-sqlite", Path(folder, "gua.db"), "--store", store, output=Path(folder, "import"))
        for since in (f"{options.days}d", "1h"):
            profile(store, since, options.times)
    print(machine())


if __name__ == "__main__":
    main()
