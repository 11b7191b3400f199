"""The tick: readings of every card of one host at one moment.

The agent, the simulator and the imports all produce ticks. ``None`` always means unknown, never zero.
"""

from dataclasses import dataclass
from typing import Final

from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source


# Not frozen, though immutable by convention: a tick has hundreds, and a frozen one takes three times as long to create.
@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class ProcessReading:
    """One process on one card in one tick. It covers the same span as its card.

    ``created_ms`` is the process's start [Unix ms]; pid and start together identify the process.
    ``utilization`` is a ratio, 0 to 1. ``gpu_time_ms`` is the part of the card's GPU time attributed to this process
    (:mod:`gua.core.facts`). ``idle_ms`` is how long it has been idle up to this tick (:mod:`gua.core.idleness`),
    0 if active. These two are ``None`` for ignored processes.
    ``workload_kind`` and ``workload_model`` are its kind of work and served model as declared or detected. A kind
    that its name implies (:func:`gua.core.workloads.workload_kind`) is not repeated here.
    """

    pid: int
    type: ProcessType = ProcessType.COMPUTE
    created_ms: int | None = None
    owner: str | None = None
    uid: int | None = None
    comm: str | None = None
    memory_bytes: int | None = None
    utilization: float | None = None
    gpu_time_ms: int | None = None
    idle_ms: int | None = None
    container_id: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    systemd_unit: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None
    container_name: str | None = None
    workload_kind: str | None = None
    workload_model: str | None = None


# Not frozen, as above.
@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class AllocationReading:
    """One allocation of one card in one tick (:mod:`gua.core.allocation`).

    ``source`` and ``id`` identify it together. ``duration_ms`` is the part of the tick that it covers. ``gpu_time_ms``
    is its GPU time: allocations at the same time have equal parts. ``since_ms`` and ``until_ms`` are Unix times;
    ``until_ms`` is ``None`` without a known end. ``workload_kind`` and ``workload_model`` are its purpose: as declared,
    else those of its owner's processes on the card at this tick.
    """

    source: str
    id: str
    relation: Relation
    duration_ms: int
    gpu_time_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    owner: str | None = None
    uid: int | None = None
    kind: str | None = None
    job_name: str | None = None
    pod_uid: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None
    workload_kind: str | None = None
    workload_model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationSourceReading:
    """Health of an allocation source in the tick. ``reason`` is why it is unreadable, ``None`` if it was read.

    For a source that reports a queue: ``waiting`` requests at the tick's end, ``wait_ms`` their summed waiting time in
    the tick, ``waited_ms`` the time with at least one request, at most ``duration_ms``. ``None`` is unknown.
    """

    source: str
    duration_ms: int
    reason: str | None = None
    waiting: int | None = None
    wait_ms: int | None = None
    waited_ms: int | None = None


# Not frozen, for the same reason: it has twice as many fields.
@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class CardReading:
    """One card (a whole GPU, a partitioned parent or a MIG instance) in one tick.

    The reading covers the ``duration_ms`` milliseconds that end at the tick's ``ts_ms``. ``gpu_time_ms`` is that span
    weighted by the card's share of a whole GPU. Utilizations are ratios, 0 to 1, and means over the span.
    ``utilization_max`` is the largest sample. ``utilization_coverage_ms`` is the time that samples cover
    (0: an instant value).
    ``memory_used_bytes`` excludes the driver's reserve if ``memory_reserved_bytes`` is known, and includes it if not.
    ``energy_total_mj`` counts since driver load, ``energy_mj`` is the energy of this span, both in millijoules.
    ``idle_time_ms`` is the sampled time below ``active_utilization``. ``idle_energy_mj`` is the energy of the
    ``idle_energy_coverage_ms`` of it that power samples cover; of all of it where that is ``None``.
    ``sm_utilization`` to ``memory_bandwidth_utilization`` are means of performance counters (GPM) over the span, as
    in :class:`gua.core.ports.Activity`; ``None`` where they are not read.
    ``processes_seen`` is the number of processes that were listed at the start or at the end of the span, or had
    utilization samples in it; ``None`` unless both lists are known.
    ``allocation`` is ``None`` without a configured source. ``unallocated_gpu_time_ms`` is the tick's GPU time without
    an allocation. GPU time in neither this nor an allocation is unknown.
    """

    uuid: str
    duration_ms: int
    gpu_time_ms: int
    process_list: ProcessList = ProcessList.ABSENT
    index: int | None = None
    name: str | None = None
    model: str | None = None
    vendor: str | None = None
    driver_version: str | None = None
    pci: str | None = None
    mig: Mig | None = None
    parent: str | None = None
    memory_shared: bool | None = None
    utilization: float | None = None
    utilization_encoder: float | None = None
    utilization_decoder: float | None = None
    utilization_max: float | None = None
    utilization_coverage_ms: int | None = None
    idle_time_ms: int | None = None
    idle_energy_mj: int | None = None
    idle_energy_coverage_ms: int | None = None
    clock_reasons: int | None = None
    xid_errors: int | None = None
    ecc_errors: int | None = None
    xid: int | None = None
    row_remap: int | None = None
    recovery_action: int | None = None
    sm_utilization: float | None = None
    sm_occupancy: float | None = None
    tensor_utilization: float | None = None
    memory_bandwidth_utilization: float | None = None
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    energy_total_mj: int | None = None
    energy_mj: int | None = None
    failed: bool | None = None
    processes_seen: int | None = None
    allocation: AllocationStatus | None = None
    unallocated_gpu_time_ms: int | None = None
    processes: tuple[ProcessReading, ...] = ()
    allocations: tuple[AllocationReading, ...] = ()

    def __post_init__(self) -> None:
        if not self.uuid:
            raise ValueError("a card reading needs the card's uuid")
        if self.duration_ms <= 0:
            raise ValueError(f"card {self.uuid}: a reading covers more than 0 ms, not {self.duration_ms}")
        if not 0 <= self.gpu_time_ms <= self.duration_ms:
            raise ValueError(f"card {self.uuid}: GPU time {self.gpu_time_ms} ms is not within 0 and {self.duration_ms}")


NO_ANSWER: Final = "NO_ANSWER"
"""Code of a call that has not returned; not an NVML code, because NVML has a TIMEOUT of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadError:
    """One failed call during the tick; the other readings are valid.

    ``call`` is the failing function ("nvmlDeviceGetMemoryInfo", "readdir /proc/1/stat"),
    ``code`` the error's own name or number, ``uuid`` the card it was about.
    """

    call: str
    code: str
    uuid: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorCount:
    """Number of failures of a call with one code since the agent started."""

    call: str
    code: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentReading:
    """The agent's own metrics; counts are cumulative since ``started_ms`` (Unix time, ms)."""

    started_ms: int
    tick_duration_seconds: float | None = None
    tick_lateness_seconds: float | None = None
    spool_ticks: int | None = None
    spool_bytes: int | None = None
    dropped_ticks: int | None = None
    errors: tuple[ErrorCount, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Origin of ticks: the OTLP resource.

    ``interval_ms`` is the configured interval. ``attributes`` are further resource attributes, sorted by key; they
    include the user's ``OTEL_RESOURCE_ATTRIBUTES``.
    """

    host: str
    source: Source
    interval_ms: int
    host_id: str | None = None
    instance_id: str | None = None
    service_name: str = "gua"
    service_version: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Readings of every card of one host at ``ts_ms`` (Unix time, ms): one OTLP request, one spool row."""

    ts_ms: int
    origin: Origin
    cards: tuple[CardReading, ...]
    agent: AgentReading | None = None
    errors: tuple[ReadError, ...] = ()
    allocation_sources: tuple[AllocationSourceReading, ...] = ()
