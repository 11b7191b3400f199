"""Readings of cards and the ticks made of them, with as little to say as a test needs."""

from __future__ import annotations

from typing import Any

from gpu_usage_audit.core.tick import (
    AgentReading,
    CardReading,
    Origin,
    ProcessList,
    ProcessReading,
    Source,
    Tick,
)

GIB = 2**30
MIB = 2**20
INTERVAL_MS = 30_000
START_MS = 1_774_396_800_000  # 2026-03-25T00:00:00Z


def process(pid: int, memory_bytes: int | None = GIB, **values: object) -> ProcessReading:
    given: dict[str, Any] = {"owner": "ana", "uid": 1000, "comm": "python3", **values}
    return ProcessReading(pid=pid, memory_bytes=memory_bytes, **given)


def card(uuid: str = "GPU-1", *, busy: float | None = 0.0, held: int = 0, **values: object) -> CardReading:
    """Return a reading over 30 s in which ``held`` bytes are used, by one process if any."""
    given: dict[str, Any] = {
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "duration_ms": INTERVAL_MS,
        "gpu_time_ms": INTERVAL_MS,
        "process_list": ProcessList.KNOWN,
        "memory_limit_bytes": 80 * GIB,
        "memory_reserved_bytes": 500 * MIB,
        "memory_used_bytes": held,
        "processes": (process(4711, held),) if held else (),
        **values,
    }
    return CardReading(uuid=uuid, utilization=busy, **given)


def tick(ts_ms: int, *cards: CardReading, agent: AgentReading | None = None) -> Tick:
    origin = Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS)
    return Tick(ts_ms=ts_ms, origin=origin, cards=cards, agent=agent)
