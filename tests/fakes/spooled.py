"""Spooled ticks that are identified by their host, and what tests and benchmarks do with a spool."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from gua.core.ports import SpooledTick
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.state.compression import compress


def spooled(number: int, length: int | None = None) -> SpooledTick:
    """Return tick ``number`` of ``host-<number>``; ``length`` is what it claims to have uncompressed."""
    raw = encode(
        Tick(
            ts_ms=1_774_413_000_000 + number,
            origin=Origin(host=f"host-{number}", source=Source.IMPORT, interval_ms=1000),
            cards=(CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1),),
        )
    )
    return SpooledTick(id=number, ts_ms=number, raw_length=length or len(raw), blob=compress(raw))


def extend(spool: Spool, ticks: Iterable[tuple[int, bytes]]) -> None:
    """Store encoded ticks (Unix ms, request) in one transaction, all or none."""
    spool.append_blobs([(ts_ms, len(raw), compress(raw)) for ts_ms, raw in ticks])


def refused(path: Path, destination: str) -> list[tuple[int, int, str]]:
    """Return id, time (Unix ms) and reason of the refused ticks that the spool at ``path`` still has, oldest first."""
    query = "SELECT id, ts_ms, reason FROM refused WHERE destination = ? ORDER BY id"
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query, (destination,)).fetchall()
