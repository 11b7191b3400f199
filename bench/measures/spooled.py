"""A spool with ticks of 8 cards x 10 processes at 30 s, as landing takes them from there."""

from __future__ import annotations

import time
from pathlib import Path

from fakes.full_host import full_host
from fakes.spooled import extend
from gua.otlp.encode import encode
from gua.spool.queue import Spool

INTERVAL_MS = 30_000
TICKS_A_DAY = 86_400_000 // INTERVAL_MS


def spool_days(path: Path, begin_ms: int, ticks: int) -> float:
    """Fill a spool and return the seconds it took."""
    begun = time.perf_counter()
    host = full_host(days=ticks / TICKS_A_DAY, interval_ms=INTERVAL_MS, end_ms=begin_ms + ticks * INTERVAL_MS)
    batch: list[tuple[int, bytes]] = []
    with Spool(path, max_bytes=None) as spool:
        for tick in host:
            batch.append((tick.ts_ms, encode(tick)))
            if len(batch) == 480:
                extend(spool, batch)
                batch = []
        extend(spool, batch)
    return time.perf_counter() - begun
