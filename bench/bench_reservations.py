"""What reservations cost: a grant, the end of a job, and many of them at once, on 8 cards of the simulated driver.

Run: make bench, or python bench/bench_reservations.py [--times 200]. Prints figures beside their limits, which are for
a quiet machine; where others work, too, CPU time and ratios hold, and times on the clock do not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures import reservations  # noqa: E402 - found through the line above
from measures.figures import machine  # noqa: E402 - likewise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200, help="how often cards are asked for")
    times = parser.parse_args().times
    print(machine())
    reservations.grants_and_ends(times)
    reservations.crowds()


if __name__ == "__main__":
    main()
