"""The metric catalogue: the wire contract between producers, stores and other tools.

``docs/metrics.md`` is generated from it. The OTLP encoder and decoder take metric names and kinds from it.
A test compares its columns and scales with the SQL that admits points (``clickhouse/10_ticks``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

SCOPE: Final = "gua"
"""Instrumentation scope of gua's data points."""


class MetricKind(Enum):
    """OTLP data type and aggregation temporality of a metric."""

    GAUGE = "gauge"
    DELTA = "sum, monotonic, delta"
    COUNTER = "sum, monotonic, cumulative"
    AMOUNT = "sum, non-monotonic, cumulative"


class Subject(Enum):
    """Entity that a metric's points describe."""

    CARD = "card"
    PROCESS = "process"
    ALLOCATION = "allocation"
    SOURCE = "allocation source"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Column that stores a metric's value: name, integer scale (stored = round(value x scale)) and SQL type.

    ``attributes`` are those that a point must carry with exactly these values to be stored in this column.
    """

    name: str
    scale: int
    type: str
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric. ``attributes`` are those of its points beyond the attributes shared by all points of the subject."""

    name: str
    subject: Subject
    kind: MetricKind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    columns: tuple[StoredColumn, ...] = ()


PROCESS_ATTRIBUTES: Final = ("hw.id", "process.pid", "process.creation.time", "process.owner", "gua.process.comm")
ALLOCATION_ATTRIBUTES: Final = ("hw.id", "gua.allocation.source", "gua.allocation.id")
_GPU = (("hw.type", "gpu"),)
CARD_FACTS: Final = {
    "hw.name": "name",
    "hw.model": "model",
    "hw.vendor": "vendor",
    "hw.driver_version": "driver_version",
    "hw.parent": "parent",
    "gua.gpu.index": "index",
    "gua.gpu.pci": "pci",
    "gua.gpu.mig": "mig",
    "gua.gpu.process.list": "process_list",
    "gua.gpu.memory.shared": "memory_shared",
    "gua.gpu.allocation": "allocation",
}
PROCESS_FACTS: Final = {
    "process.user.id": "uid",
    "gua.process.type": "type",
    "container.id": "container_id",
    "k8s.pod.uid": "pod_uid",
    "slurm.job.id": "slurm_job_id",
    "systemd.unit": "systemd_unit",
    "k8s.pod.name": "pod_name",
    "k8s.namespace.name": "pod_namespace",
    "k8s.container.name": "container_name",
    "gua.workload.kind": "workload_kind",
    "gua.workload.model": "workload_model",
}
ALLOCATION_FACTS: Final = {
    "gua.allocation.relation": "relation",
    "gua.allocation.owner": "owner",
    "gua.allocation.user.id": "uid",
    "gua.allocation.kind": "kind",
    "gua.allocation.since": "since_ms",
    "gua.allocation.until": "until_ms",
    "slurm.job.name": "job_name",
    "k8s.pod.uid": "pod_uid",
    "k8s.pod.name": "pod_name",
    "k8s.namespace.name": "pod_namespace",
    "gua.workload.kind": "workload_kind",
    "gua.workload.model": "workload_model",
}
"""Descriptive attributes of a card, a process or an allocation, mapped to the fields of its reading."""


def _per_type(column: str, sql_type: str) -> tuple[StoredColumn, ...]:
    kinds = ("compute", "graphics", "mps", "ignored")
    return tuple(StoredColumn(column.format(type=kind), 1, sql_type, (("gua.process.type", kind),)) for kind in kinds)


def _factory(subject: Subject, kind: MetricKind) -> Callable[..., Metric]:
    """Return a factory for metrics of one subject and kind. It takes name, unit, description and stored columns."""

    def metric(name: str, unit: str, text: str, *columns: StoredColumn, **more: Any) -> Metric:  # noqa: ANN401 - the rest
        return Metric(name=name, subject=subject, kind=kind, unit=unit, description=text, columns=columns, **more)

    return metric


_card_delta = _factory(Subject.CARD, MetricKind.DELTA)
_card_gauge = _factory(Subject.CARD, MetricKind.GAUGE)
_card_amount = _factory(Subject.CARD, MetricKind.AMOUNT)
_card_counter = _factory(Subject.CARD, MetricKind.COUNTER)
_process_delta = _factory(Subject.PROCESS, MetricKind.DELTA)
_process_amount = _factory(Subject.PROCESS, MetricKind.AMOUNT)
_process_gauge = _factory(Subject.PROCESS, MetricKind.GAUGE)
_allocation_delta = _factory(Subject.ALLOCATION, MetricKind.DELTA)
_allocation_gauge = _factory(Subject.ALLOCATION, MetricKind.GAUGE)
_source_delta = _factory(Subject.SOURCE, MetricKind.DELTA)
_source_gauge = _factory(Subject.SOURCE, MetricKind.GAUGE)
_agent_gauge = _factory(Subject.AGENT, MetricKind.GAUGE)
_agent_counter = _factory(Subject.AGENT, MetricKind.COUNTER)

SAMPLE_DURATION: Final = _card_delta(
    "gua.gpu.sample.duration",
    "s",
    "Seconds that this tick covers, even where nothing else of the card could be read.",
    StoredColumn("duration_ms", 1000, "UInt32"),
)
GPU_TIME: Final = _card_delta(
    "gua.gpu.time",
    "s",
    "GPU time of the tick: its seconds times the card's share of a whole GPU. Of a MIG instance its "
    "slices / all slices, of a partitioned GPU its unallocated slices.",
    StoredColumn("gpu_time_ms", 1000, "UInt32"),
)
UTILIZATION: Final = _card_gauge(
    "hw.gpu.utilization",
    "1",
    "Mean over the tick of the share of time in which an engine was busy, 0 to 1.",
    StoredColumn("utilization", 10_000, "UInt16", (("hw.gpu.task", "general"),)),
    StoredColumn("utilization_encoder", 10_000, "UInt16", (("hw.gpu.task", "encoder"),)),
    StoredColumn("utilization_decoder", 10_000, "UInt16", (("hw.gpu.task", "decoder"),)),
    attributes=("hw.gpu.task",),
)
UTILIZATION_MAX: Final = _card_gauge(
    "gua.gpu.utilization.max",
    "1",
    "Largest utilization sample of the tick, 0 to 1.",
    StoredColumn("utilization_max", 10_000, "UInt16"),
)
UTILIZATION_COVERAGE: Final = _card_gauge(
    "gua.gpu.utilization.coverage",
    "s",
    "Seconds of the tick that utilization samples cover; 0 means that the mean is one instant value.",
    StoredColumn("utilization_coverage_ms", 1000, "UInt32"),
)
IDLE_TIME: Final = _card_delta(
    "gua.gpu.idle.time",
    "s",
    "Seconds of the tick whose utilization samples lie below the agent's threshold of active (10 %), of "
    "those that samples cover (gua.gpu.utilization.coverage). Absent without samples, or if a video engine was busy.",
    StoredColumn("idle_time_ms", 1000, "UInt32"),
)
IDLE_ENERGY: Final = _card_delta(
    "gua.gpu.idle.energy",
    "J",
    "Energy of the seconds in gua.gpu.idle.time that power samples cover (gua.gpu.idle.energy.coverage).",
    StoredColumn("idle_energy_mj", 1000, "UInt64"),
)
IDLE_ENERGY_COVERAGE: Final = _card_gauge(
    "gua.gpu.idle.energy.coverage",
    "s",
    "Seconds in gua.gpu.idle.time that power samples cover; absent where that is all of them, and "
    "where gua.gpu.idle.energy is absent.",
    StoredColumn("idle_energy_coverage_ms", 1000, "UInt32"),
)
CLOCK_REASONS: Final = _card_gauge(
    "gua.gpu.clock.reasons",
    "{bits}",
    "Why the clocks were held down when the card was read, as the bits of NVML's clocks event reasons: 4 "
    "power cap, 32 and 64 heat, 8 and 128 hardware slowdown; 0 for none. Absent if unknown.",
    StoredColumn("clock_reasons", 1, "UInt32"),
)
ERRORS: Final = _card_delta(
    "hw.errors",
    "{error}",
    "Errors of the card reported since the tick before, read once a minute: XID events (a lower bound in a "
    "storm) and uncorrected ECC errors.",
    StoredColumn("xid_errors", 1, "UInt32", (("error.type", "xid"), *_GPU)),
    StoredColumn("ecc_errors", 1, "UInt32", (("error.type", "ecc_uncorrected"), *_GPU)),
    attributes=("error.type", "hw.type"),
)
XID: Final = _card_gauge(
    "gua.gpu.xid",
    "{xid}",
    "Number of the newest XID event reported since the tick before; absent if there was none.",
    StoredColumn("xid", 1, "UInt16"),
)
ROW_REMAP: Final = _card_gauge(
    "gua.gpu.row.remap",
    "{state}",
    "State of the remapping of the memory's rows: 0 nothing to do, 1 pending until the card is reset, 2 it "
    "failed, 3 both; read once a minute. Absent if unknown.",
    StoredColumn("row_remap", 1, "UInt8"),
)
RECOVERY_ACTION: Final = _card_gauge(
    "gua.gpu.recovery.action",
    "{action}",
    "NVML's recovery action: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset; read once a minute. Absent if "
    "unknown.",
    StoredColumn("recovery_action", 1, "UInt32"),
)
ACTIVITY_SCALE: Final = 200
"""Scale of stored activity: steps of 0.5 %, one byte a value. Smaller differences are sampling noise."""
SM_UTILIZATION: Final = _card_gauge(
    "gua.gpu.sm.utilization",
    "1",
    "Mean over the tick of the share of multiprocessors (SMs) that were busy, 0 to 1, by GPM; absent where "
    "the agent does not read it (--activity gpm) or the driver has none.",
    StoredColumn("sm_utilization", ACTIVITY_SCALE, "UInt8"),
)
SM_OCCUPANCY: Final = _card_gauge(
    "gua.gpu.sm.occupancy",
    "1",
    "Mean over the tick of the warps that were on the SMs, of those that they can hold, 0 to 1, by GPM; "
    "absent as above.",
    StoredColumn("sm_occupancy", ACTIVITY_SCALE, "UInt8"),
)
TENSOR_UTILIZATION: Final = _card_gauge(
    "gua.gpu.tensor.utilization",
    "1",
    "Mean over the tick of the share of time in which the SMs did tensor operations of any kind, 0 to 1, "
    "by GPM; absent as above.",
    StoredColumn("tensor_utilization", ACTIVITY_SCALE, "UInt8"),
)
MEMORY_BANDWIDTH_UTILIZATION: Final = _card_gauge(
    "gua.gpu.memory.bandwidth.utilization",
    "1",
    "Mean over the tick of the device memory's bandwidth that was used, of the largest that it has, 0 to "
    "1, by GPM; absent as above.",
    StoredColumn("memory_bandwidth_utilization", ACTIVITY_SCALE, "UInt8"),
)
MEMORY_USAGE: Final = _card_amount(
    "hw.gpu.memory.usage",
    "By",
    "Device memory in use; without the driver's reserve where that is known (gua.gpu.memory.reserved).",
    StoredColumn("memory_used_bytes", 1, "UInt64"),
)
MEMORY_LIMIT: Final = _card_amount(
    "hw.gpu.memory.limit", "By", "Device memory in total.", StoredColumn("memory_limit_bytes", 1, "UInt64")
)
MEMORY_RESERVED: Final = _card_amount(
    "gua.gpu.memory.reserved",
    "By",
    "Memory that the driver reserves; absent if unknown (then usage contains it).",
    StoredColumn("memory_reserved_bytes", 1, "UInt64"),
)
PROCESS_COUNT: Final = _card_gauge(
    "gua.gpu.processes",
    "{process}",
    "Processes on the card by type; absent if the list is unknown.",
    *_per_type("process_count_{type}", "UInt32"),
    attributes=("gua.process.type",),
)
PROCESS_MEMORY: Final = _card_amount(
    "gua.gpu.process.memory.usage",
    "By",
    "Known device memory of the card's processes by type; absent if the list is unknown.",
    *_per_type("process_memory_{type}_bytes", "UInt64"),
    attributes=("gua.process.type",),
)
PROCESS_MEMORY_UNKNOWN: Final = _card_gauge(
    "gua.gpu.process.memory.unknown",
    "{process}",
    "Processes of unknown memory by type; absent if the list is unknown.",
    *_per_type("process_unknown_{type}", "UInt32"),
    attributes=("gua.process.type",),
)
PROCESSES_SEEN: Final = _card_gauge(
    "gua.gpu.processes.seen",
    "{process}",
    "Processes that were on the card at some time of the tick: listed at its start or its end, or with utilization "
    "samples in it. Absent unless the lists at its start and at its end are known.",
    StoredColumn("processes_seen", 1, "UInt32"),
)
PROCESS_UTILIZATION_MAX: Final = _card_gauge(
    "gua.gpu.process.utilization.max",
    "1",
    "Utilization of the card's busiest process, 0 to 1.",
    StoredColumn("process_utilization_max", 10_000, "UInt16"),
)
POWER: Final = _card_gauge(
    "hw.power", "W", "Power drawn by the card.", StoredColumn("power_mw", 1000, "UInt32", _GPU), attributes=("hw.type",)
)
TEMPERATURE: Final = _card_gauge(
    "hw.temperature", "Cel", "Temperature of the GPU core.", StoredColumn("temperature_celsius", 1, "Int16")
)
ENERGY_TOTAL: Final = _card_counter(
    "hw.energy",
    "J",
    "Energy since the driver was loaded.",
    StoredColumn("energy_total_mj", 1000, "UInt64", _GPU),
    attributes=("hw.type",),
)
ENERGY: Final = _card_delta(
    "gua.gpu.energy",
    "J",
    "Energy spent in the tick; absent across a reset of the counter.",
    StoredColumn("energy_mj", 1000, "UInt64"),
)
STATUS: Final = _card_amount(
    "hw.status",
    "1",
    "1 for the state of the card, 0 for the other; failed: lost, or needs a reset.",
    StoredColumn("failed", 1, "UInt8", (("hw.state", "failed"), *_GPU)),
    attributes=("hw.state", "hw.type"),
)
INFO: Final = _card_gauge(
    "gua.gpu.info", "{gpu}", "Always 1; its attributes say what the card is.", attributes=tuple(CARD_FACTS)
)
UNALLOCATED_TIME: Final = _card_delta(
    "gua.gpu.unallocated.time",
    "s",
    "Unallocated GPU time of the tick, by every source of allocations; absent without a source, or if one "
    "is unreadable.",
    StoredColumn("unallocated_gpu_time_ms", 1000, "UInt32"),
)
PROCESS_SAMPLE_DURATION: Final = _process_delta(
    "gua.process.sample.duration",
    "s",
    "Seconds of the tick in which this process was on the card.",
    StoredColumn("duration_ms", 1000, "UInt32"),
)
PROCESS_GPU_TIME: Final = _process_delta(
    "gua.process.gpu.time",
    "s",
    "The part of the card's GPU time attributed to this process; absent for ignored processes.",
    StoredColumn("gpu_time_ms", 1000, "UInt32"),
)
PROCESS_GPU_MEMORY: Final = _process_amount(
    "gua.process.gpu.memory.usage",
    "By",
    "Device memory of the process on this card.",
    StoredColumn("memory_bytes", 1, "UInt64"),
)
PROCESS_GPU_UTILIZATION: Final = _process_gauge(
    "gua.process.gpu.utilization",
    "1",
    "Mean over the tick of the share of time in which this process used the card, 0 to 1; of each sample "
    "the largest of kernels, video encoder and video decoder.",
    StoredColumn("utilization", 10_000, "UInt16"),
)
PROCESS_IDLE_DURATION: Final = _process_gauge(
    "gua.process.idle.duration",
    "s",
    "Time of the consecutive idle ticks that end with this one, 0 if the process is active; continues "
    "across restarts of the agent. Absent if it is unknown whether the process idles, and for ignored processes. "
    "Not stored: gua_public.idle_streaks has it.",
)
PROCESS_INFO: Final = _process_gauge(
    "gua.process.info",
    "{process}",
    "Always 1; its attributes say what the process is. Never a command line.",
    attributes=tuple(PROCESS_FACTS),
)
ALLOCATION_DURATION: Final = _allocation_delta(
    "gua.gpu.allocation.duration",
    "s",
    "Seconds of the tick that the allocation covers.",
    StoredColumn("duration_ms", 1000, "UInt32"),
)
ALLOCATION_TIME: Final = _allocation_delta(
    "gua.gpu.allocation.time",
    "s",
    "GPU time of the tick allocated by it; where several allocations cover the same time, equal parts.",
    StoredColumn("gpu_time_ms", 1000, "UInt32"),
)
ALLOCATION_INFO: Final = _allocation_gauge(
    "gua.gpu.allocation.info",
    "{allocation}",
    "Always 1; its attributes say whose the allocation is, and whose processes were on the card.",
    attributes=tuple(ALLOCATION_FACTS),
)
ALLOCATION_SOURCE_DURATION: Final = _source_delta(
    "gua.allocation.source.duration",
    "s",
    "Seconds that the tick covers, with whether the source of allocations could be read (ok or failed), and why not.",
    StoredColumn("duration_ms", 1000, "UInt32"),
    attributes=("gua.allocation.source.status", "gua.allocation.source.reason"),
)
QUEUE_WAITING: Final = _source_gauge(
    "gua.queue.waiting",
    "{request}",
    "Requests that wait for cards at the tick's end; absent if the source does not report them.",
    StoredColumn("waiting", 1, "UInt32"),
)
QUEUE_WAIT_TIME: Final = _source_delta(
    "gua.queue.wait.time",
    "s",
    "Waiting time of all requests for cards together in the tick.",
    StoredColumn("wait_ms", 1000, "UInt64"),
)
QUEUE_TIME: Final = _source_delta(
    "gua.queue.time",
    "s",
    "Seconds of the tick in which at least one request waited for cards.",
    StoredColumn("waited_ms", 1000, "UInt32"),
)
AGENT_TICK_DURATION: Final = _agent_gauge("gua.agent.tick.duration", "s", "Time it took to read the tick.")
AGENT_TICK_LATENESS: Final = _agent_gauge(
    "gua.agent.tick.lateness", "s", "How far behind its grid point the tick was read."
)
AGENT_SPOOL_TICKS: Final = _agent_gauge("gua.agent.spool.ticks", "{tick}", "Ticks in the spool, waiting for delivery.")
AGENT_SPOOL_SIZE: Final = _agent_gauge("gua.agent.spool.size", "By", "Size of the spool on disk.")
AGENT_DROPPED: Final = _agent_counter(
    "gua.agent.dropped", "{tick}", "Ticks the spool dropped, oldest first, because it was full."
)
AGENT_ERRORS: Final = _agent_counter(
    "gua.agent.errors", "{error}", "Calls that failed since the agent started.", attributes=("call", "code")
)

CATALOGUE: Final = tuple(metric for metric in globals().values() if isinstance(metric, Metric))
"""Every metric, in declaration order."""
