"""Whether memory stays flat while processes come and go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from measures.figures import show, title
from measures.host import BENCH, TESTS

SETTLED_TICKS, LIMIT_MB = 10_000, 2.0


def flat(ticks: int) -> None:
    """Show the memory of a long-lived agent's parts at some checkpoints, and the growth after the 10,000th tick."""
    title(f"{ticks:,} ticks with a new process, container and name in each (fake driver, real threads and spool)")
    environ = {
        **os.environ,
        "PYTHONPATH": f"{BENCH}{os.pathsep}{TESTS}",
        "MALLOC_ARENA_MAX": "1",  # as the agent's own process has it
    }
    begun = time.monotonic()
    settled = None
    with subprocess.Popen(
        [sys.executable, "-m", "measures.flat", str(ticks)], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            message = json.loads(line)
            note = f"{message['cpu_ms']:.2f} ms CPU a tick with the fakes, {time.monotonic() - begun:.0f} s"
            show(f"resident memory after {message['ticks']:,} ticks", message["rss_mb"], "MB", note=note)
            if message["ticks"] == SETTLED_TICKS:
                settled = message["rss_mb"]
    if process.returncode:
        sys.exit(f"measures.flat ended with {process.returncode}")
    if settled is not None and ticks > SETTLED_TICKS:
        show(f"growth after {SETTLED_TICKS:,} ticks", message["rss_mb"] - settled, "MB", LIMIT_MB)
