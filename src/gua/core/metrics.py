"""The metric catalogue, declared once: the wire contract between producers, stores and other tools.

``docs/metrics.md`` is generated from it, the encoder and decoder look names and kinds up in it, and a
test holds the SQL that admits points (``clickhouse/10_ticks``) against its columns and scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

SCOPE: Final = "gua"
SCOPES: Final = (SCOPE, "gpu_usage_audit")
"""Scopes whose points are ours: spools and landing tables hold ticks that older versions sent."""


class MetricKind(Enum):
    """How a metric is sent: its OTLP data type and temporality."""

    GAUGE = "gauge"
    DELTA = "sum, monotonic, delta"
    COUNTER = "sum, monotonic, cumulative"
    AMOUNT = "sum, non-monotonic, cumulative"


class Subject(Enum):
    """What a metric's points are about."""

    CARD = "card"
    PROCESS = "process"
    ALLOCATION = "allocation"
    SOURCE = "allocation source"
    AGENT = "agent"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredColumn:
    """Where a metric's value is stored: column, integer scale (stored = round(value x scale)), SQL type.

    ``attributes`` are those a point must carry, letter for letter, to land in this column.
    """

    name: str
    scale: int
    type: str
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric. ``attributes`` name what its points carry besides those that every point of the subject has.

    ``is_stored`` is whether the store takes its points; what views tell of the ticks themselves it leaves out.
    """

    name: str
    subject: Subject
    kind: MetricKind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    columns: tuple[StoredColumn, ...] = ()
    is_stored: bool = True


CARD_ATTRIBUTES: Final = ("hw.id",)
PROCESS_ATTRIBUTES: Final = (
    "hw.id",
    "process.pid",
    "process.creation.time",
    "process.owner",
    "gua.process.comm",
)
ALLOCATION_ATTRIBUTES: Final = ("hw.id", "gua.allocation.source", "gua.allocation.id")
SOURCE_ATTRIBUTES: Final = ("gua.allocation.source",)
_GPU = (("hw.type", "gpu"),)


def _per_type(column: str, scale: int, sql_type: str) -> tuple[StoredColumn, ...]:
    return tuple(
        StoredColumn(
            name=column.replace("{type}", kind),
            scale=scale,
            type=sql_type,
            attributes=(("gua.process.type", kind),),
        )
        for kind in ("compute", "graphics", "mps", "ignored")
    )


_card_delta = partial(Metric, subject=Subject.CARD, kind=MetricKind.DELTA)
_card_gauge = partial(Metric, subject=Subject.CARD, kind=MetricKind.GAUGE)
_card_amount = partial(Metric, subject=Subject.CARD, kind=MetricKind.AMOUNT)
_card_counter = partial(Metric, subject=Subject.CARD, kind=MetricKind.COUNTER)
_process_delta = partial(Metric, subject=Subject.PROCESS, kind=MetricKind.DELTA)
_process_amount = partial(Metric, subject=Subject.PROCESS, kind=MetricKind.AMOUNT)
_process_gauge = partial(Metric, subject=Subject.PROCESS, kind=MetricKind.GAUGE)
_allocation_delta = partial(Metric, subject=Subject.ALLOCATION, kind=MetricKind.DELTA)
_allocation_gauge = partial(Metric, subject=Subject.ALLOCATION, kind=MetricKind.GAUGE)
_source_delta = partial(Metric, subject=Subject.SOURCE, kind=MetricKind.DELTA)
_source_gauge = partial(Metric, subject=Subject.SOURCE, kind=MetricKind.GAUGE)
_agent_gauge = partial(Metric, subject=Subject.AGENT, kind=MetricKind.GAUGE)
_agent_counter = partial(Metric, subject=Subject.AGENT, kind=MetricKind.COUNTER)

SAMPLE_DURATION: Final = _card_delta(
    name="gua.gpu.sample.duration",
    unit="s",
    description="Seconds that this tick covers, even where nothing else of the card could be read.",
    columns=(StoredColumn(name="duration_ms", scale=1000, type="UInt32"),),
)
GPU_TIME: Final = _card_delta(
    name="gua.gpu.time",
    unit="s",
    description="GPU time of the tick: its seconds times the card's share of a whole GPU. Of a MIG instance its "
    "slices / all slices, of a partitioned GPU its unallocated slices.",
    columns=(StoredColumn(name="gpu_time_ms", scale=1000, type="UInt32"),),
)
UTILIZATION: Final = _card_gauge(
    name="hw.gpu.utilization",
    unit="1",
    description="Mean over the tick of the share of time in which an engine was busy, 0 to 1.",
    attributes=("hw.gpu.task",),
    columns=(
        StoredColumn(name="utilization", scale=10_000, type="UInt16", attributes=(("hw.gpu.task", "general"),)),
        StoredColumn(name="utilization_encoder", scale=10_000, type="UInt16", attributes=(("hw.gpu.task", "encoder"),)),
        StoredColumn(name="utilization_decoder", scale=10_000, type="UInt16", attributes=(("hw.gpu.task", "decoder"),)),
    ),
)
UTILIZATION_MAX: Final = _card_gauge(
    name="gua.gpu.utilization.max",
    unit="1",
    description="Largest utilization sample of the tick, 0 to 1.",
    columns=(StoredColumn(name="utilization_max", scale=10_000, type="UInt16"),),
)
UTILIZATION_COVERAGE: Final = _card_gauge(
    name="gua.gpu.utilization.coverage",
    unit="s",
    description="Seconds of the tick that utilization samples cover; 0 means that the mean is one instant value.",
    columns=(StoredColumn(name="utilization_coverage_ms", scale=1000, type="UInt32"),),
)
IDLE_TIME: Final = _card_delta(
    name="gua.gpu.idle.time",
    unit="s",
    description="Seconds of the tick whose utilization samples lie below the agent's threshold of active (10 %), of "
    "those that samples cover (gua.gpu.utilization.coverage). Absent without samples, or if a video engine was busy.",
    columns=(StoredColumn(name="idle_time_ms", scale=1000, type="UInt32"),),
)
IDLE_ENERGY: Final = _card_delta(
    name="gua.gpu.idle.energy",
    unit="J",
    description="Energy of the seconds in gua.gpu.idle.time that power samples cover (gua.gpu.idle.energy.coverage).",
    columns=(StoredColumn(name="idle_energy_mj", scale=1000, type="UInt64"),),
)
IDLE_ENERGY_COVERAGE: Final = _card_gauge(
    name="gua.gpu.idle.energy.coverage",
    unit="s",
    description="Seconds in gua.gpu.idle.time that power samples cover; absent where that is all of them, and "
    "where gua.gpu.idle.energy is absent.",
    columns=(StoredColumn(name="idle_energy_coverage_ms", scale=1000, type="UInt32"),),
)
CLOCK_REASONS: Final = _card_gauge(
    name="gua.gpu.clock.reasons",
    unit="{bits}",
    description="Why the clocks were held down when the card was read, as the bits of NVML's clocks event reasons: 4 "
    "power cap, 32 and 64 heat, 8 and 128 hardware slowdown; 0 for none. Absent if unknown.",
    columns=(StoredColumn(name="clock_reasons", scale=1, type="UInt32"),),
)
ERRORS: Final = _card_delta(
    name="hw.errors",
    unit="{error}",
    description="Errors of the card reported since the tick before, read once a minute: XID events (a lower bound in a "
    "storm) and uncorrected ECC errors.",
    attributes=("error.type", "hw.type"),
    columns=(
        StoredColumn(name="xid_errors", scale=1, type="UInt32", attributes=(("error.type", "xid"), *_GPU)),
        StoredColumn(name="ecc_errors", scale=1, type="UInt32", attributes=(("error.type", "ecc_uncorrected"), *_GPU)),
    ),
)
XID: Final = _card_gauge(
    name="gua.gpu.xid",
    unit="{xid}",
    description="Number of the newest XID event reported since the tick before; absent if there was none.",
    columns=(StoredColumn(name="xid", scale=1, type="UInt16"),),
)
ROW_REMAP: Final = _card_gauge(
    name="gua.gpu.row.remap",
    unit="{state}",
    description="State of the remapping of the memory's rows: 0 nothing to do, 1 pending until the card is reset, 2 it "
    "failed, 3 both; read once a minute. Absent if unknown.",
    columns=(StoredColumn(name="row_remap", scale=1, type="UInt8"),),
)
ACTIVITY_SCALE: Final = 200
"""Activity is stored in steps of half a percent: a byte a value, as its means are noise below that."""
SM_UTILIZATION: Final = _card_gauge(
    name="gua.gpu.sm.utilization",
    unit="1",
    description="Mean over the tick of the share of multiprocessors (SMs) that were busy, 0 to 1, by GPM; absent where "
    "the agent does not read it (--activity gpm) or the driver has none.",
    columns=(StoredColumn(name="sm_utilization", scale=ACTIVITY_SCALE, type="UInt8"),),
)
SM_OCCUPANCY: Final = _card_gauge(
    name="gua.gpu.sm.occupancy",
    unit="1",
    description="Mean over the tick of the warps that were on the SMs, of those that they can hold, 0 to 1, by GPM; "
    "absent as above.",
    columns=(StoredColumn(name="sm_occupancy", scale=ACTIVITY_SCALE, type="UInt8"),),
)
TENSOR_UTILIZATION: Final = _card_gauge(
    name="gua.gpu.tensor.utilization",
    unit="1",
    description="Mean over the tick of the share of time in which the SMs did tensor operations of any kind, 0 to 1, "
    "by GPM; absent as above.",
    columns=(StoredColumn(name="tensor_utilization", scale=ACTIVITY_SCALE, type="UInt8"),),
)
MEMORY_BANDWIDTH_UTILIZATION: Final = _card_gauge(
    name="gua.gpu.memory.bandwidth.utilization",
    unit="1",
    description="Mean over the tick of the device memory's bandwidth that was used, of the largest that it has, 0 to "
    "1, by GPM; absent as above.",
    columns=(StoredColumn(name="memory_bandwidth_utilization", scale=ACTIVITY_SCALE, type="UInt8"),),
)
MEMORY_USAGE: Final = _card_amount(
    name="hw.gpu.memory.usage",
    unit="By",
    description="Device memory in use; without the driver's reserve where that is known (gua.gpu.memory.reserved).",
    columns=(StoredColumn(name="memory_used_bytes", scale=1, type="UInt64"),),
)
MEMORY_LIMIT: Final = _card_amount(
    name="hw.gpu.memory.limit",
    unit="By",
    description="Device memory in total.",
    columns=(StoredColumn(name="memory_limit_bytes", scale=1, type="UInt64"),),
)
MEMORY_RESERVED: Final = _card_amount(
    name="gua.gpu.memory.reserved",
    unit="By",
    description="Memory that the driver reserves; absent if unknown (then usage contains it).",
    columns=(StoredColumn(name="memory_reserved_bytes", scale=1, type="UInt64"),),
)
PROCESS_COUNT: Final = _card_gauge(
    name="gua.gpu.process.count",
    unit="{process}",
    description="Processes on the card by type; absent if the list is unknown.",
    attributes=("gua.process.type",),
    columns=_per_type("process_count_{type}", 1, "UInt32"),
)
PROCESS_MEMORY: Final = _card_amount(
    name="gua.gpu.process.memory.usage",
    unit="By",
    description="Known device memory of the card's processes by type; absent if the list is unknown.",
    attributes=("gua.process.type",),
    columns=_per_type("process_memory_{type}_bytes", 1, "UInt64"),
)
PROCESS_MEMORY_UNKNOWN: Final = _card_gauge(
    name="gua.gpu.process.memory.unknown",
    unit="{process}",
    description="Processes of unknown memory by type; absent if the list is unknown.",
    attributes=("gua.process.type",),
    columns=_per_type("process_unknown_{type}", 1, "UInt32"),
)
PROCESS_UTILIZATION_MAX: Final = _card_gauge(
    name="gua.gpu.process.utilization.max",
    unit="1",
    description="Utilization of the card's busiest process, 0 to 1.",
    columns=(StoredColumn(name="process_utilization_max", scale=10_000, type="UInt16"),),
)
POWER: Final = _card_gauge(
    name="hw.power",
    unit="W",
    description="Power drawn by the card.",
    attributes=("hw.type",),
    columns=(StoredColumn(name="power_mw", scale=1000, type="UInt32", attributes=_GPU),),
)
TEMPERATURE: Final = _card_gauge(
    name="hw.temperature",
    unit="Cel",
    description="Temperature of the GPU core.",
    columns=(StoredColumn(name="temperature_celsius", scale=1, type="Int16"),),
)
ENERGY_TOTAL: Final = _card_counter(
    name="hw.energy",
    unit="J",
    description="Energy since the driver was loaded.",
    attributes=("hw.type",),
    columns=(StoredColumn(name="energy_total_mj", scale=1000, type="UInt64", attributes=_GPU),),
)
ENERGY: Final = _card_delta(
    name="gua.gpu.energy",
    unit="J",
    description="Energy spent in the tick; absent across a reset of the counter.",
    columns=(StoredColumn(name="energy_mj", scale=1000, type="UInt64"),),
)
STATUS: Final = _card_amount(
    name="hw.status",
    unit="1",
    description="1 for the state of the card, 0 for the other; failed: lost, or needs a reset.",
    attributes=("hw.state", "hw.type"),
    columns=(StoredColumn(name="failed", scale=1, type="UInt8", attributes=(("hw.state", "failed"), *_GPU)),),
)
INFO: Final = _card_gauge(
    name="gua.gpu.info",
    unit="1",
    description="Always 1; its attributes say what the card is.",
    attributes=(
        "hw.name",
        "hw.model",
        "hw.vendor",
        "hw.driver_version",
        "hw.parent",
        "gua.gpu.index",
        "gua.gpu.pci",
        "gua.gpu.mig",
        "gua.gpu.process.list",
        "gua.gpu.memory.shared",
        "gua.gpu.allocation",
    ),
)
UNALLOCATED_TIME: Final = _card_delta(
    name="gua.gpu.unallocated.time",
    unit="s",
    description="Unallocated GPU time of the tick, by every source of allocations; absent without a source, or if one "
    "is unreadable.",
    columns=(StoredColumn(name="unallocated_gpu_time_ms", scale=1000, type="UInt32"),),
)
PROCESS_SAMPLE_DURATION: Final = _process_delta(
    name="gua.process.sample.duration",
    unit="s",
    description="Seconds of the tick in which this process was on the card.",
    columns=(StoredColumn(name="duration_ms", scale=1000, type="UInt32"),),
)
PROCESS_GPU_TIME: Final = _process_delta(
    name="gua.process.gpu.time",
    unit="s",
    description="The part of the card's GPU time attributed to this process; absent for ignored processes.",
    columns=(StoredColumn(name="gpu_time_ms", scale=1000, type="UInt32"),),
)
PROCESS_GPU_MEMORY: Final = _process_amount(
    name="gua.process.gpu.memory.usage",
    unit="By",
    description="Device memory of the process on this card.",
    columns=(StoredColumn(name="memory_bytes", scale=1, type="UInt64"),),
)
PROCESS_GPU_UTILIZATION: Final = _process_gauge(
    name="gua.process.gpu.utilization",
    unit="1",
    description="Mean over the tick of the share of time in which this process used the card, 0 to 1; of each sample "
    "the largest of kernels, video encoder and video decoder.",
    columns=(StoredColumn(name="utilization", scale=10_000, type="UInt16"),),
)
PROCESS_IDLE_DURATION: Final = _process_gauge(
    name="gua.process.idle.duration",
    unit="s",
    description="Time of the consecutive idle ticks that end with this one, 0 if the process is active; continues "
    "across restarts of the agent. Absent if it is unknown whether the process idles, and for ignored processes. "
    "Not stored: gua.idle_streaks has it.",
    is_stored=False,
)
PROCESS_INFO: Final = _process_gauge(
    name="gua.process.info",
    unit="1",
    description="Always 1; its attributes say what the process is. Never a command line.",
    attributes=(
        "process.user.id",
        "gua.process.type",
        "container.id",
        "k8s.pod.uid",
        "slurm.job.id",
        "systemd.unit",
        "k8s.pod.name",
        "k8s.namespace.name",
        "k8s.container.name",
        "gua.workload.kind",
        "gua.workload.model",
    ),
)
ALLOCATION_DURATION: Final = _allocation_delta(
    name="gua.gpu.allocation.duration",
    unit="s",
    description="Seconds of the tick that the allocation covers.",
    columns=(StoredColumn(name="duration_ms", scale=1000, type="UInt32"),),
)
ALLOCATION_TIME: Final = _allocation_delta(
    name="gua.gpu.allocation.time",
    unit="s",
    description="GPU time of the tick allocated by it; where several allocations cover the same time, equal parts.",
    columns=(StoredColumn(name="gpu_time_ms", scale=1000, type="UInt32"),),
)
ALLOCATION_INFO: Final = _allocation_gauge(
    name="gua.gpu.allocation.info",
    unit="1",
    description="Always 1; its attributes say whose the allocation is, and whose processes were on the card.",
    attributes=(
        "gua.allocation.relation",
        "gua.allocation.owner",
        "gua.allocation.user.id",
        "gua.allocation.kind",
        "gua.allocation.since",
        "gua.allocation.until",
        "slurm.job.name",
        "k8s.pod.uid",
        "k8s.pod.name",
        "k8s.namespace.name",
        "gua.workload.kind",
        "gua.workload.model",
    ),
)
ALLOCATION_SOURCE_DURATION: Final = _source_delta(
    name="gua.allocation.source.duration",
    unit="s",
    description="Seconds that the tick covers, with whether the source of allocations could be read (ok or failed), "
    "and why not.",
    attributes=("gua.allocation.source.status", "gua.allocation.source.reason"),
    columns=(StoredColumn(name="duration_ms", scale=1000, type="UInt32"),),
)
QUEUE_WAITING: Final = _source_gauge(
    name="gua.queue.waiting",
    unit="{request}",
    description="Requests that wait for cards at the tick's end; absent if the source does not report them.",
    columns=(StoredColumn(name="waiting", scale=1, type="UInt32"),),
)
QUEUE_WAIT_TIME: Final = _source_delta(
    name="gua.queue.wait.time",
    unit="s",
    description="Waiting time of all requests for cards together in the tick.",
    columns=(StoredColumn(name="wait_ms", scale=1000, type="UInt64"),),
)
QUEUE_TIME: Final = _source_delta(
    name="gua.queue.time",
    unit="s",
    description="Seconds of the tick in which at least one request waited for cards.",
    columns=(StoredColumn(name="waited_ms", scale=1000, type="UInt32"),),
)
AGENT_TICK_DURATION: Final = _agent_gauge(
    name="gua.agent.tick.duration", unit="s", description="Time it took to read the tick."
)
AGENT_TICK_LATENESS: Final = _agent_gauge(
    name="gua.agent.tick.lateness", unit="s", description="How far behind its grid point the tick was read."
)
AGENT_SPOOL_TICKS: Final = _agent_gauge(
    name="gua.agent.spool.ticks", unit="{tick}", description="Ticks in the spool, waiting for delivery."
)
AGENT_SPOOL_SIZE: Final = _agent_gauge(name="gua.agent.spool.size", unit="By", description="Size of the spool on disk.")
AGENT_DROPPED: Final = _agent_counter(
    name="gua.agent.dropped", unit="{tick}", description="Ticks the spool dropped, oldest first, because it was full."
)
AGENT_ERRORS: Final = _agent_counter(
    name="gua.agent.errors",
    unit="{error}",
    description="Calls that failed since the agent started.",
    attributes=("call", "code"),
)

CATALOGUE: Final = tuple(metric for metric in globals().values() if isinstance(metric, Metric))
"""Every metric, in the order in which they are declared."""
