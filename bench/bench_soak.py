"""Half an hour in which agents, Collector, server and networks fail at random: what arrived of what was recorded.

Run: python bench/bench_soak.py [--minutes 30] [--seed N]. The same code as tests/pipeline/test_soak.py, which takes
three minutes. Needs Go, npm and a C compiler, as .ci/run does. Fails if a tick is lost or counted twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine  # noqa: E402 - found through the line above

from soak.run import soak  # noqa: E402 - likewise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="gua-soak-") as folder:
        soak(
            Path(folder) / "fleet",
            minutes=options.minutes,
            hosts=options.hosts,
            seed=options.seed,
            say=lambda line: print(line, flush=True),
        )


if __name__ == "__main__":
    main()
