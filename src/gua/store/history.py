"""The stored ticks of one host, as rows: what a tick was made of, read back in slices of time.

Times are Unix ms, amounts are the stored integers (ratios in 1/10,000), ``None`` is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gua.store.database import Store

_CARD_COLUMNS: Final = (
    "gpu",
    "duration_ms",
    "gpu_time_ms",
    "utilization",
    "utilization_encoder",
    "utilization_decoder",
    "utilization_max",
    "utilization_coverage_ms",
    "memory_used_bytes",
    "memory_limit_bytes",
    "memory_reserved_bytes",
    *(
        f"process_{what}_{kind}{unit}"
        for what, unit in (("count", ""), ("memory", "_bytes"), ("unknown", ""))
        for kind in ("compute", "graphics", "mps", "ignored")
    ),
    "process_utilization_max",
    "power_mw",
    "temperature_celsius",
    "energy_total_mj",
    "energy_mj",
    "failed",
    "process_list",
    "memory_shared",
    "mig",
    "source",
    "interval_ms",
)
_PROCESS_COLUMNS: Final = (
    "gpu",
    "pid",
    "duration_ms",
    "gpu_time_ms",
    "memory_bytes",
    "utilization",
    "owner",
    "program",
    "uid",
    "type",
    "container_id",
    "pod_uid",
    "slurm_job_id",
    "systemd_unit",
)
_INFO_COLUMNS: Final = ("gpu", "gpu_index", "name", "model", "vendor", "driver_version", "pci", "parent")
_SLICE: Final = """
WHERE host = {host:String}
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY ts, gpu
"""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """One UTC day with ticks of a host: its first and last tick (Unix ms), and its smallest interval."""

    first_ms: int
    last_ms: int
    interval_ms: int | None


def recorded_days(store: Store, host: str) -> Sequence[Day]:
    """Return the days that hold ticks of the host, oldest first."""
    rows = store.select(
        "SELECT toUnixTimestamp64Milli(min(ts)) AS first_ms, toUnixTimestamp64Milli(max(ts)) AS last_ms,"
        " min(interval_ms) AS smallest_ms FROM gua.card_ticks WHERE host = {host:String}"
        " GROUP BY toDate(ts) ORDER BY first_ms",
        {"host": host},
    )
    return [Day(first_ms=row["first_ms"], last_ms=row["last_ms"], interval_ms=row["smallest_ms"]) for row in rows]


def card_rows(store: Store, host: str, *, since_ms: int, until_ms: int) -> Sequence[Row]:
    """Return the host's card ticks of (since, until], oldest first, with ``ts_ms``."""
    columns = ", ".join(_CARD_COLUMNS)
    sql = f"SELECT toUnixTimestamp64Milli(ts) AS ts_ms, {columns} FROM gua.card_ticks FINAL {_SLICE}"  # noqa: S608 - our own names
    return store.select(sql, {"host": host, "since_ms": since_ms, "until_ms": until_ms})


def process_rows(store: Store, host: str, *, since_ms: int, until_ms: int) -> Sequence[Row]:
    """Return the processes of the same ticks, with ``ts_ms`` and ``created_ms``, which is 0 where it is unknown."""
    columns = ", ".join(_PROCESS_COLUMNS)
    sql = (
        "SELECT toUnixTimestamp64Milli(ts) AS ts_ms, toUnixTimestamp64Milli(created) AS created_ms,"  # noqa: S608 - as above
        f" {columns} FROM gua.process_ticks FINAL {_SLICE}, pid, created"
    )
    return store.select(sql, {"host": host, "since_ms": since_ms, "until_ms": until_ms})


def card_info(store: Store, host: str) -> Mapping[str, Row]:
    """Return what each card of the host is, as its newest tick told, by UUID."""
    columns = ", ".join(_INFO_COLUMNS)
    sql = f"SELECT {columns} FROM gua.card_info FINAL WHERE host = {{host:String}}"  # noqa: S608 - as above
    return {row["gpu"]: row for row in store.select(sql, {"host": host})}
