"""The agent on a host of 8 cards x 10 processes: CPU, memory, wire, start, catch-up, coverage, commands.

Run: make bench, or python bench/bench_agent.py [--only PART …] [--ticks 100000]. Prints figures beside their limits.
Cards are simulated (tests/driver, needs a C compiler); nvidia-ml-py, /proc, spool and transports are the real ones.
"""

from __future__ import annotations

import argparse
import compileall
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures import backlog, bursts, cost, lifetime, memory, older, usefulness  # noqa: E402 - found through the line above
from measures.figures import machine  # noqa: E402 - likewise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="PART", help="some of %(choices)s", choices=PARTS)
    parser.add_argument("--ticks", type=int, default=10_000, help="ticks for which memory must stay flat")
    parser.add_argument("--cpu-ticks", type=int, default=200, help="ticks whose CPU time is measured, each way")
    parser.add_argument("--seconds", type=float, default=10, help="how long real agents are watched")
    parser.add_argument("--backlog", type=int, default=2880, help="ticks that wait for an endpoint")
    parser.add_argument("--times", type=int, default=10, help="how often a start and a command is timed")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "src", quiet=1)  # as an installed package is
    print(machine())
    for part in options.only or PARTS:
        PARTS[part](options)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "tick": lambda options: cost.tick_cost(options.cpu_ticks),
    "allocations": lambda options: cost.allocation_cost(options.cpu_ticks),
    "usefulness": lambda options: usefulness.usefulness_cost(options.cpu_ticks),
    "agents": lambda options: cost.real_agents(options.seconds),
    "flat": lambda options: memory.flat(options.ticks),
    "bursts": lambda _: bursts.bursts(60),
    "starts": lambda options: lifetime.starts(options.times),
    "commands": lambda options: lifetime.commands(options.times),
    "backlog": lambda options: backlog.catch_up(options.backlog),
    "older": lambda options: older.older(options.seconds),
}

if __name__ == "__main__":
    main()
