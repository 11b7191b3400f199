"""What an embedded store keeps as tables in memory for one window's report, and with which columns.

They are those of the views of these names in ``clickhouse/40_report``. Asking the engine for them takes as long as a
third of the plan, so they stand here; a test tells what they are where a view changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPANS: Final = "spans"
KEPT_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "spans": (
        "host LowCardinality(String)",
        "gpu LowCardinality(String)",
        "ts DateTime64(3, 'UTC')",
        "hour DateTime('UTC')",
        "end_ms Int64",
        "start_ms Int64",
        "inside_since_ms Int64",
        "inside_until_ms Int64",
        "inside_ms Int64",
        "inside_part Float64",
        "gpu_us UInt64",
        "interval_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))",
        "energy_mj Nullable(UInt64)",
        "power_mw SimpleAggregateFunction(anyLast, Nullable(UInt32))",
        "is_used UInt8",
        "is_partitioned Bool",
        "state String",
        "reason Nullable(String)",
        "state_code UInt8",
        "gpu_time_ms UInt32",
        "allocation SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))",
        "unallocated_gpu_time_ms SimpleAggregateFunction(anyLast, Nullable(UInt32))",
        "sampled_us UInt64",
        "idle_us UInt64",
        "powered_us UInt64",
        "busiest_utilization Nullable(UInt16)",
        "sm_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))",
        "sm_occupancy SimpleAggregateFunction(anyLast, Nullable(UInt8))",
        "tensor_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))",
        "memory_bandwidth_utilization SimpleAggregateFunction(anyLast, Nullable(UInt8))",
        "idle_mj UInt64",
    ),
    "process_runs": (
        "host LowCardinality(String)",
        "gpu LowCardinality(String)",
        "hour DateTime('UTC')",
        "pid UInt32",
        "created_ms Int64",
        "owner SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))",
        "program SimpleAggregateFunction(anyLast, LowCardinality(Nullable(String)))",
        "container_id Nullable(String)",
        "pod_uid Nullable(String)",
        "slurm_job_id Nullable(String)",
        "systemd_unit Nullable(String)",
        "state UInt8",
        "card_state UInt8",
        "start_ms Int64",
        "end_ms Int64",
        "first_span_ms UInt32",
        "last_span_ms UInt32",
        "observed_ms UInt64",
        "gpu_us UInt64",
        "kib_ms UInt64",
        "known_ms UInt64",
        "memory_bytes Nullable(UInt64)",
    ),
    "card_parts": (
        "host LowCardinality(String)",
        "gpu String",
        "interval_ms Int64",
        "starts_ms Array(Int64)",
        "ends_ms Array(Int64)",
        "active_ticks UInt64",
        "idle_held_ticks UInt64",
        "truly_idle_ticks UInt64",
        "unknown_ticks UInt64",
        "active_gpu_us UInt64",
        "idle_held_gpu_us UInt64",
        "truly_idle_gpu_us UInt64",
        "unknown_gpu_us UInt64",
        "observed_ms UInt64",
        "reasons Array(Tuple(code UInt8, ticks UInt64, gpu_us UInt64))",
        "pieces Array(Tuple(start_ms Int64, end_ms Int64, observed_ms UInt64, gpu_us UInt64, share Float64))",
    ),
}
