"""Ticks of every kind, and all the rows that landing makes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.sim.host import Scenario, simulate
from gua.store.database import Store
from gua.store.tick_rows import TABLES

NOON_MS = 1_774_440_000_000  # 2026-03-25T12:00:00Z
NOW_MS = NOON_MS + 10 * 86_400_000
ORIGIN = Origin(
    host="node-1",
    source=Source.IMPORT,
    interval_ms=1_500,
    host_id="id",
    instance_id="import",
    service_version="9",
    attributes=(("host.name", "not this"), ("rack", "\0 r'1"), ("team", "名前 🙂")),
)
HOSTILE = "'; DROP TABLE gua.card_ticks; --\\\"\n\t{x:String}\0\u202e\udcff"
ALLOCATION = AllocationReading(
    source="slurm", id="77", relation=Relation.CO_OWNERS, duration_ms=1_000, gpu_time_ms=500, since_ms=0
)
FULL = CardReading(
    uuid="GPU-1",
    duration_ms=30_000,
    gpu_time_ms=12_857,
    process_list=ProcessList.KNOWN,
    index=3,
    name=HOSTILE,
    model="H100",
    vendor="NVIDIA",
    driver_version="570.1",
    pci="0000:01:00.0",
    mig=Mig.INSTANCE,
    parent="GPU-0",
    memory_shared=True,
    utilization=0.123_45,
    utilization_encoder=0.000_05,
    utilization_decoder=0.000_15,
    utilization_max=1.0,
    utilization_coverage_ms=29_950,
    idle_time_ms=12_345,
    idle_energy_mj=1_481_234,
    idle_energy_coverage_ms=12_001,
    clock_reasons=0x44,
    xid_errors=2,
    ecc_errors=1,
    xid=79,
    row_remap=1,
    recovery_action=9,
    sm_utilization=0.5025,
    sm_occupancy=1.0,
    tensor_utilization=0.0025,
    memory_bandwidth_utilization=0.9975,
    memory_used_bytes=8 * 2**30 + 1,
    memory_limit_bytes=80 * 2**30,
    memory_reserved_bytes=500 * 2**20,
    power_watts=71.8125,
    temperature_celsius=-3.5,
    energy_total_mj=123_456_789_012,
    energy_mj=2_154_321,
    failed=True,
    allocation=AllocationStatus.ALLOCATED,
    unallocated_gpu_time_ms=2_857,
    processes=(
        ProcessReading(
            pid=4711,
            type=ProcessType.MPS,
            created_ms=NOON_MS - 3_600_123,
            owner=HOSTILE,
            uid=1000,
            comm="python3",
            memory_bytes=5,
            utilization=0.5,
            gpu_time_ms=12_857,
            idle_ms=7,
            container_id="c0ffee",
            pod_uid="pod-1",
            slurm_job_id="77",
            systemd_unit="user@1000.service",
            workload_kind="serving",
            workload_model="org/model-7b",
        ),
        ProcessReading(pid=4711, created_ms=5, type=ProcessType.IGNORED, owner="", uid=-1, utilization=7.5),
        ProcessReading(pid=0, type=ProcessType.GRAPHICS, memory_bytes=0, utilization=0.0),
    ),
    allocations=(
        ALLOCATION,
        replace(
            ALLOCATION,
            source="kubernetes",
            id="p-1/c",
            since_ms=NOON_MS - 7,
            until_ms=NOON_MS + 8,
            owner=HOSTILE,
            uid=1000,
            kind="pod",
            job_name="train",
            pod_uid="u",
            pod_name="p",
            pod_namespace="n",
            workload_kind="training",
            workload_model="m",
        ),
    ),
)
# What no column can hold is unknown, and stays so beside what it can.
OUTSIDE = replace(
    FULL,
    uuid="GPU-2",
    index=-1,
    process_list=ProcessList.FAILED,
    mig=Mig.NONE,
    memory_shared=False,
    utilization=-0.1,
    utilization_max=6.6,
    sm_occupancy=2.0,
    power_watts=-1.0,
    temperature_celsius=40_000.0,
    memory_used_bytes=-1,
    xid=70_000,
    failed=False,
    allocation=None,
    processes=(),
    allocations=(),
)
LEAST = CardReading(uuid="GPU-3", duration_ms=1, gpu_time_ms=0)
SOURCES = (
    AllocationSourceReading(source="slurm", duration_ms=30_000, waiting=0, wait_ms=90_000, waited_ms=30_000),
    AllocationSourceReading(source="files", duration_ms=30_000, reason="no such folder"),
)
AGENT = AgentReading(started_ms=NOON_MS - 30_000, tick_duration_seconds=0.25, spool_ticks=1)


def tick(number: int = 0, *cards: CardReading, **others: Any) -> Tick:  # noqa: ANN401 - any field of a tick
    return Tick(**{"ts_ms": NOON_MS + number * 30_000 + 43, "origin": ORIGIN, "cards": cards or (FULL,), **others})


def every_kind() -> list[Tick]:
    """Return ticks of all kinds over an edge of days, late and twice, and of a simulated lab with MIG."""
    bare = replace(ORIGIN, host="node-2", host_id=None, instance_id=None, service_version=None, attributes=())
    own = [tick(number, FULL, OUTSIDE, LEAST, agent=AGENT, allocation_sources=SOURCES) for number in (2, 0, 1, 1)]
    silent = replace(AGENT, tick_duration_seconds=None)
    late = tick(-3_000, replace(FULL, mig=Mig.NONE, gpu_time_ms=30_000), agent=silent)
    return [*own, late, tick(3, LEAST, origin=bare, agent=AGENT), *islice(simulate(Scenario(ticks=60)), 60)]


def tables_of(store: Store) -> dict[str, list[Any]]:
    """Return all rows that landing makes, in order."""
    tables = {
        table: [dict(row) for row in store.select(f"SELECT * FROM gua.{table} FINAL ORDER BY ALL")]
        for table in (*TABLES, "refused_points")
        if table != "card_info"
    }
    info = "SELECT * REPLACE (mapSort(labels) AS labels) FROM gua.card_info FINAL ORDER BY host, gpu"
    hours = "SELECT host, hour FROM gua.hour_marks FINAL ORDER BY ALL"
    return {**tables, "card_info": list(store.select(info)), "hour_marks": list(store.select(hours))}
