"""Ticks of many small hosts with labels, as their agents send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gua.core.ports import SpooledTick
from gua.core.tick import AgentReading, CardReading, Origin, Tick
from gua.core.words import ProcessList, Source
from gua.otlp.encode import encode
from gua.state.compression import compress

INTERVAL_MS = 30_000


def agent_tick(
    host: str,
    ts_ms: int,
    *,
    cards: int = 1,
    utilization: float = 0.5,
    instance: str | None = None,
    machine: str | None = None,
    labels: dict[str, str] | None = None,
    source: Source = Source.AGENT,
    interval_ms: int = INTERVAL_MS,
) -> Tick:
    """Return one tick of ``host``: every card with that utilization and 40 GiB in use."""
    reading = {
        "duration_ms": interval_ms,
        "gpu_time_ms": interval_ms,
        "name": "NVIDIA L4",
        "utilization": utilization,
        "memory_used_bytes": 40 * 2**30,
        "memory_reserved_bytes": 0,
        "memory_limit_bytes": 80 * 2**30,
        "process_list": ProcessList.KNOWN,
    }
    return Tick(
        ts_ms=ts_ms,
        origin=Origin(
            host=host,
            source=source,
            interval_ms=interval_ms,
            instance_id=instance or f"agent of {host}",
            host_id=machine or f"machine of {host}",
            service_version="2.0.0",
            attributes=tuple(sorted((labels or {}).items())),
        ),
        cards=tuple(CardReading(uuid=f"GPU-{host}-{place}", index=place, **reading) for place in range(cards)),
        agent=AgentReading(started_ms=ts_ms - interval_ms, tick_duration_seconds=0.004),
    )


def spooled_ticks(ticks: Iterable[Tick]) -> Iterator[SpooledTick]:
    """Return ticks as the spool holds them."""
    for number, tick in enumerate(ticks):
        raw = encode(tick)
        yield SpooledTick(id=number, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw))
