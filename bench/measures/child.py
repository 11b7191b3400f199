"""A command's wall time, CPU time and peak memory, measured by a small process that starts it.

Not by this process: the reported peak of a child includes its parent's memory at the start of the child.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LAUNCH = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
done = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], "wb"))
wall = time.perf_counter() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]))
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a command needed: seconds, and MB (10^6 bytes)."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def ran(*command: str | Path, output: Path, environ: Mapping[str, str] | None = None) -> Ran:
    """Run a command, its standard output into a file; end the bench if it fails."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCH, str(output), *map(str, command)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environ,
    )
    code, wall, cpu, peak = json.loads(done.stdout)
    if code:
        sys.exit(f"{command[0]} ended with {code}")
    return Ran(wall_s=wall, cpu_s=cpu, peak_mb=peak)
