"""Outages longer than the exporter's default patience of 300 s: of the server and of the Collector, in real time.

Run: python bench/bench_outage.py [--seconds 340]. Three fleets at a time: the server is down; the Collector is down,
and in the middle of that the agents are killed, too; and the server is down for a Collector that gives up as it would
by default, which must lose ticks. Needs Go, npm and a C compiler, as .ci/run does. Fails if a tick is lost, or if the
last one loses none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine  # noqa: E402 - found through the line above

from servers.tools import clickhouse_library, collector_binary  # noqa: E402 - likewise
from soak import outage  # noqa: E402 - likewise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=340)
    parser.add_argument("--hosts", type=int, default=4, help="of each of the three fleets")
    options = parser.parse_args()
    collector_binary()
    clickhouse_library()
    print(machine(), flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gua-outage-") as name, ThreadPoolExecutor(3) as pool:
        folder = Path(name)
        trials = {
            "server down": (outage.of_the_server, outage.CONFIG),
            "collector down, agents killed meanwhile": (outage.of_the_collector, outage.CONFIG),
            "server down, exporter's default patience": (
                outage.of_the_server,
                outage.of_default_patience(folder / "default"),
            ),
        }
        running = {
            what: pool.submit(
                outage.after,
                which,
                folder / str(number),
                seconds=options.seconds,
                hosts=options.hosts,
                config=config,
            )
            for number, (what, (which, config)) in enumerate(trials.items())
        }
        accounts = {what: account.result() for what, account in running.items()}
    for what, account in accounts.items():
        print(f"{what} for {options.seconds:g} s: {account.summary()}, {account.duplicates} points landed once more")
    print(f"{time.monotonic() - began:.0f} s in all")
    *patient, impatient = accounts.values()
    if not all(account.settled for account in patient):
        sys.exit(f"not all is there: {[account.differences() for account in patient]}")
    if not impatient.lost:
        sys.exit("nothing was lost where something must be: the outage was too short")


if __name__ == "__main__":
    main()
