"""Landing and reporting of 8 cards x 10 processes at 30 s: speed, memory, size.

Landing is CPU time, beside that of the engine for reading the same bytes: another machine, or a loaded one, changes
both.

Run: make bench, or python bench/bench_store.py --days 30
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measures.spooled import TICKS_A_DAY, spool_days

END_MS = 1_774_915_200_000
GUA = Path(sys.executable).with_name("gua")

# What landing may cost of what it costs the engine to read the same bytes: 3.7 to 4.7 by load.
MOST_OF_READING = 6.0


def child(*command: str | Path) -> tuple[str, float, float]:
    """Return a command's output, its wall seconds and its peak memory in MB."""
    begun = time.perf_counter()
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent)}
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environ)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return output, time.perf_counter() - begun, usage.ru_maxrss / 1024


def stored_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "data").rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=30)
    days = parser.parse_args().days
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        dsn = f"chdb://{base / 'store'}"
        begin = END_MS - days * 86_400_000
        made = spool_days(base / "hour.db", begin - 3_600_000, 120)
        child(GUA, "schema", "apply", "--store", dsn)
        out, wall, peak = child(sys.executable, "-m", "measures.landing", base / "hour.db", dsn)
        figures = json.loads(out)
        print(
            f"one hour, fresh process: opened in {figures['open']:.2f} s, landed in {figures['land']:.2f} s, "
            f"{peak:.0f} MB"
        )
        for name, first, count in (("one day", 0, 1), (f"{days} days", 1, days - 1)):
            if count < 1:
                continue
            made = spool_days(base / f"{first}.db", begin + first * 86_400_000, count * TICKS_A_DAY)
            out, wall, peak = child(sys.executable, "-m", "measures.landing", base / f"{first}.db", dsn, "merge")
            figures = json.loads(out)
            of_reading = figures["land_cpu_ms"] / figures["read_cpu_ms"]
            print(
                f"{name}{'' if first == 0 else ' less one'}: {figures['ticks']} ticks made in {made:.1f} s, landed in "
                f"{figures['land']:.2f} s, merged in {figures['merge']:.2f} s, hours in {figures['hours']:.2f} s, "
                f"{peak:.0f} MB\n  CPU a tick: landed {figures['land_cpu_ms']:.2f} ms, hours "
                f"{figures['hours_cpu_ms']:.2f} ms; {of_reading:.1f} x reading the same bytes "
                f"(limit {MOST_OF_READING:g})"
            )
            (base / f"{first}.db").unlink()
        size = stored_bytes(base / "store")
        print(f"stored after merges: {size / 1e6:.1f} MB, {size / 1e6 / days:.2f} MB a host and day (limit 1)")
        for attempt in ("first", "second"):
            out, wall, peak = child(
                GUA, "report", "--json", "--store", dsn, "--since", f"{days + 1}d", "--until", "now"
            )
            print(f"report of {days} days, {attempt}: {wall:.2f} s (limit 2), {peak:.0f} MB (limit 450)")
    print(f"bench itself: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
