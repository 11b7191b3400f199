"""Spooled ticks that can be told apart by their host."""

from __future__ import annotations

from gua.core.ports import SpooledTick
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Source
from gua.otlp.encode import encode
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
