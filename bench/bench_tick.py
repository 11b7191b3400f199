"""CPU time of building and spooling one tick: 8 cards x 10 processes with every point of the contract.

Run: .venv/bin/python bench/bench_tick.py [--ticks 200]. Prints figures; the target is 5 ms a tick.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.ports import Activity, Mark
from gua.core.tick import AgentReading, CardReading, ErrorCount, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType, Source
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.state.compression import compress

START_MS = 1_774_413_000_000
INTERVAL_MS = 30_000
TARGET_MS = 5.0
ORIGIN = Origin(
    host="bench-node",
    source=Source.SIMULATOR,
    interval_ms=INTERVAL_MS,
    host_id="0123456789abcdef0123456789abcdef",
    instance_id="11111111-2222-3333-4444-555555555555",
    service_version="0.1.0",
)


def process(card: int, place: int, number: int) -> ProcessReading:
    return ProcessReading(
        pid=10_000 + 100 * card + place,
        type=list(ProcessType)[place % 4],
        created_ms=START_MS - 3_600_000 - 977 * place,
        owner=f"user{place % 5}",
        uid=1000 + place % 5,
        comm="python3",
        memory_bytes=(1 + place) * 2**30 + 4096 * (number % 7),
        utilization=(number * 7 + place * 13) % 101 / 100,
        gpu_time_ms=INTERVAL_MS // 10,
        container_id=f"{card:02d}{place:02d}" + "ab" * 30,
        pod_uid=f"6f1d2c3b-0000-4000-8000-{card:06d}{place:06d}",
        slurm_job_id=str(4000 + place),
        systemd_unit=f"user@{1000 + place % 5}.service",
    )


def card(index: int, number: int) -> CardReading:
    return CardReading(
        uuid=f"GPU-8f1c2d3e-4b5a-6978-8897-a6b5c4d3e2{index:02d}",
        duration_ms=INTERVAL_MS,
        gpu_time_ms=INTERVAL_MS,
        process_list=ProcessList.KNOWN,
        index=index,
        name="NVIDIA H100 80GB HBM3",
        model="H100",
        vendor="NVIDIA",
        driver_version="580.95.05",
        pci=f"00000000:{index:02X}:00.0",
        mig=Mig.NONE,
        parent=f"GPU-parent-{index}",
        memory_shared=False,
        utilization=(number * 31 + index * 17) % 10_001 / 10_000,
        utilization_encoder=0.0,
        utilization_decoder=0.0,
        utilization_max=1.0,
        utilization_coverage_ms=29_700 + number % 300,
        memory_used_bytes=60 * 2**30 + 2**20 * (number % 11),
        memory_limit_bytes=80 * 2**30,
        memory_reserved_bytes=600 * 2**20,
        power_watts=300.0 + (number * 37 + index) % 4000 / 10,
        temperature_celsius=50.0 + number % 20,
        energy_total_mj=10**9 + number * 9_000_000,
        energy_mj=9_000_000 + number % 1000,
        failed=False,
        processes=tuple(process(index, place, number) for place in range(10)),
    )


def tick(number: int) -> Tick:
    return Tick(
        ts_ms=START_MS + number * INTERVAL_MS,
        origin=ORIGIN,
        cards=tuple(card(index, number) for index in range(8)),
        agent=AgentReading(
            started_ms=START_MS - INTERVAL_MS,
            tick_duration_seconds=0.012,
            tick_lateness_seconds=0.001,
            spool_ticks=1,
            spool_bytes=40_960,
            dropped_ticks=0,
            errors=(ErrorCount(call="nvmlDeviceGetPowerUsage", code="NOT_SUPPORTED", count=number),),
        ),
    )


def points_in(raw: bytes) -> int:
    request = ExportMetricsServiceRequest.FromString(raw)
    return sum(
        len(metric.sum.data_points) + len(metric.gauge.data_points)
        for resource_metrics in request.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )


def activity_cost(ticks: Sequence[Tick]) -> tuple[float, float]:
    """Return the additional CPU time [ms] and bytes of a tick with activity of its cards, in alternating runs."""
    rng = Random(0)  # noqa: S311 - a benchmark, no secret
    results = [
        replace(
            one,
            cards=tuple(replace(card, **{name: rng.uniform(0, 1) for name in Activity._fields}) for card in one.cards),
        )
        for one in ticks
    ]
    seconds, size = [0.0, 0.0], [0, 0]
    for pair in zip(ticks, results, strict=True):
        for place, one in enumerate(pair):
            begin = time.process_time()
            raw = encode(one)
            seconds[place] += time.process_time() - begin
            size[place] += len(compress(raw))
    return (seconds[1] - seconds[0]) * 1000 / len(ticks), (size[1] - size[0]) / len(ticks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=200)
    count = parser.parse_args().ticks
    ticks = [tick(number) for number in range(count + 1)]
    with tempfile.TemporaryDirectory() as folder, Spool(Path(folder) / "spool.db") as spool:
        encode(ticks[0])
        begin = time.process_time()
        raws = [encode(made) for made in ticks[1:]]
        encoded = time.process_time()
        for made, raw in zip(ticks[1:], raws, strict=True):
            spool.append(made.ts_ms, raw, Mark(ts_ms=made.ts_ms, monotonic_ms=made.ts_ms, boot_id="boot"))
        spooled = time.process_time()
        cold = replace(ticks[0], origin=replace(ORIGIN, host="cold"))
    encode_ms, spool_ms = (encoded - begin) * 1000 / count, (spooled - encoded) * 1000 / count
    raw_bytes = sum(map(len, raws)) / count
    blob_bytes = sum(len(compress(raw)) for raw in raws) / count
    total_ms = encode_ms + spool_ms
    activity_ms, activity_bytes = activity_cost(ticks[1:])
    print(f"points a tick      {points_in(encode(cold))}")
    print(f"raw bytes a tick   {raw_bytes:,.0f}")
    print(f"zstd bytes a tick  {blob_bytes:,.0f}  (1 : {raw_bytes / blob_bytes:.1f})")
    print(f"encode             {encode_ms:.2f} ms CPU a tick")
    print(f"compress + spool   {spool_ms:.2f} ms CPU a tick")
    print(
        f"together           {total_ms:.2f} ms CPU a tick, {total_ms / TARGET_MS:.2f} of the target of {TARGET_MS:g} ms"
    )
    print(f"activity (GPM)     {activity_ms:+.2f} ms CPU a tick to encode, {activity_bytes:+,.0f} zstd bytes a tick")
    print(
        f"peak memory        {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, {count} ticks at hand"
    )


if __name__ == "__main__":
    main()
