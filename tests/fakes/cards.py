"""Readings of cards and the ticks made of them, with as little to say as a test needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, ProcessList, Relation, Source

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


def allocation(identity: str = "77", relation: Relation = Relation.OWNER, **values: object) -> AllocationReading:
    """Return an allocation by Slurm that covers all of a tick, of ana's job that began at the start."""
    given: dict[str, Any] = {
        "source": "slurm",
        "duration_ms": INTERVAL_MS,
        "gpu_time_ms": INTERVAL_MS,
        "since_ms": START_MS,
        "owner": "ana",
        "uid": 1000,
        "job_name": "train",
        **values,
    }
    return AllocationReading(id=identity, relation=relation, **given)


def allocated(*allocations: AllocationReading) -> dict[str, object]:
    """Return the values of a card that has these allocations for whole ticks, or of an unallocated one."""
    return {
        "allocation": AllocationStatus.ALLOCATED if allocations else AllocationStatus.UNALLOCATED,
        "allocations": allocations,
        "unallocated_gpu_time_ms": 0 if allocations else INTERVAL_MS,
    }


def tick(
    ts_ms: int, *cards: CardReading, agent: AgentReading | None = None, sources: Mapping[str, str | None] | None = None
) -> Tick:
    """Return a tick of these cards; ``sources`` of allocations are looked at, and why each could not be read."""
    return Tick(
        ts_ms=ts_ms,
        origin=Origin(host="gpu-1", source=Source.AGENT, interval_ms=INTERVAL_MS),
        cards=cards,
        agent=agent,
        allocation_sources=tuple(
            AllocationSourceReading(source=name, duration_ms=INTERVAL_MS, reason=reason)
            for name, reason in (sources or {}).items()
        ),
    )


def full_tick(ts_ms: int = START_MS) -> Tick:
    """Return a tick in which everything is known, of one card, one process and the agent."""
    full = card(
        held=8 * GIB,
        busy=0.25,
        utilization_encoder=0.0,
        utilization_decoder=0.5,
        utilization_max=0.75,
        utilization_coverage_ms=29_500,
        idle_time_ms=12_000,
        idle_energy_mj=1_080_000,
        idle_energy_coverage_ms=9_000,
        clock_reasons=0x44,
        xid_errors=2,
        ecc_errors=1,
        xid=79,
        row_remap=1,
        processes_seen=1,
        recovery_action=4,
        sm_utilization=0.625,
        sm_occupancy=0.31,
        tensor_utilization=0.445,
        memory_bandwidth_utilization=0.18,
        power_watts=300.5,
        temperature_celsius=41.0,
        energy_total_mj=1_234_567,
        energy_mj=9_001,
        failed=False,
        allocation=AllocationStatus.ALLOCATED,
        allocations=(allocation(duration_ms=20_000, gpu_time_ms=20_000, kind="job", since_ms=ts_ms - 20_000),),
        unallocated_gpu_time_ms=10_000,
        processes=(
            process(
                11,
                created_ms=START_MS - 1000,
                utilization=0.05,
                idle_ms=30_000,
                gpu_time_ms=30_000,
                container_id="c" * 64,
                pod_uid="6f1d2c3b-0000-4000-8000-000000000001",
                slurm_job_id="77",
            ),
        ),
    )
    agent = AgentReading(
        started_ms=START_MS - 5000,
        tick_duration_seconds=0.01,
        tick_lateness_seconds=0.0,
        spool_ticks=1,
        spool_bytes=2,
        dropped_ticks=0,
        errors=(ErrorCount(call="a", code="b", count=3),),
    )
    made = tick(ts_ms, full, agent=agent, sources={"slurm": None})
    queued = [replace(one, waiting=2, wait_ms=45_000, waited_ms=30_000) for one in made.allocation_sources]
    return replace(made, allocation_sources=tuple(queued))
