"""Figures beside their limits, one a line."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def title(text: str) -> None:
    print(f"\n{text}", flush=True)


def show(name: str, value: float | str, unit: str = "", limit: float | None = None, note: str = "") -> None:
    """Print one figure; a limit is something to stay below."""
    shown = value if isinstance(value, str) else f"{value:,.{0 if abs(value) >= 1000 else 2}f}"
    of = "" if limit is None or isinstance(value, str) else f"{value / limit:.2f} of the limit of {limit:g} {unit}"
    print(f"  {name:<44}{shown:>10} {unit:<5} {', '.join(filter(None, [of, note]))}".rstrip(), flush=True)


def spread(values: Sequence[float]) -> str:
    """Return how far several measurements of one thing lie apart."""
    return f"median of {len(values)}, {min(values):.2f} to {max(values):.2f}"


def middle(values: Sequence[float]) -> float:
    return median(values)


def rss_mb(pid: int | str = "self") -> float:
    """Return a process's resident memory in MB (10^6 bytes)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE_BYTES / 1e6


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process since it began, with its threads that ended.

    It is the process's clock of clock_getcpuclockid(3), whose number Linux makes of the pid.
    """
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e6


def machine() -> str:
    """Return how busy this machine is, and how fast at Python, as figures of other machines are to be read."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"load average {load}; a million additions of Python take {additions_ms():.0f} ms"


def additions_ms() -> float:
    """Return the CPU time of a million additions, the least of three: the reference for other figures of a run."""
    return min(_additions_ms() for _ in range(3))


def _additions_ms() -> float:
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - begun) * 1000
