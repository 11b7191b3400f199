"""The whole demo as a process: wall seconds and peak memory, several times. Run: make bench."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

GUA = Path(sys.executable).with_name("gua")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="how often it is run")
    for _ in range(parser.parse_args().times):
        begun = time.perf_counter()
        process = subprocess.Popen([GUA, "demo", "--json"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        print(
            f"gua demo: {time.perf_counter() - begun:.2f} s wall (limit 6), "
            f"{usage.ru_utime + usage.ru_stime:.2f} s CPU, "
            f"{usage.ru_maxrss / 1024:.0f} MB (limit 600), exit code {process.returncode}"
        )


if __name__ == "__main__":
    main()
