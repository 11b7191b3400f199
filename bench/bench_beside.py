"""Writers, readers, heavy readers and reports side by side: what was lost, how long inserts and reports took.

Run: python bench/bench_beside.py [--minutes 30]. Agents on the simulated driver and a simulated host with its history
send through the real Collector to a real ClickHouse server, while readers query the charts of docs/bi.md, heavy readers
whole views without limit, and `gua report` runs in a loop. Needs Go, npm and a C compiler, as .ci/run does. Fails if a
tick is lost or counted twice, if the server goes down, or if a chart is refused because of other queries.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine  # noqa: E402 - found through the line above

from soak.beside import Load, beside  # noqa: E402 - likewise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--hosts", type=int, default=8, help="agents, a tick every 2 s each")
    parser.add_argument("--gpus", type=int, default=16, help="cards of the simulated host")
    parser.add_argument("--history", default="3h", help="what the simulated host sends first, 10 s a tick")
    parser.add_argument("--readers", type=int, default=3, help="who ask charts")
    parser.add_argument("--heavy", type=int, default=2, help="who ask for whole views")
    options = parser.parse_args()
    load = Load(
        hosts=options.hosts,
        gpus=options.gpus,
        history=options.history,
        readers=options.readers,
        heavy=options.heavy,
    )
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="gua-beside-") as folder:
        beside(Path(folder) / "fleet", load, minutes=options.minutes, say=lambda line: print(line, flush=True))
    print(machine(), flush=True)


if __name__ == "__main__":
    main()
