"""The exporters whose samples can be imported: metrics, labels and units, as data.

A new exporter is one entry of :data:`EXPORTERS`. Names, units and labels are those of the exporters' own sources
(dcgm-exporter 3.1 to 4.5, nvidia_gpu_exporter 1.3 to 1.14, nvitop-exporter 1.7, nvidia_gpu_prometheus_exporter 0.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

_MIB: Final = 2**20
_MOST_BYTES: Final = 2**50
_RATIO: Final = 10_000
_ACTIVITY: Final = 200
_NEWEST: Final = "the driver's mean of its last second"
FREE: Final = "memory_free_bytes"
"""Name for free memory: no column, but used + free + reserved memory is the card's."""


class Measure(NamedTuple):
    """A metric for a column of ``gua.card_ticks``: stored value = sample x ``scale``, within ``least`` and ``most``.

    A sample outside these limits is unknown. ``matchers`` are further matchers of the selector. On MIG instances
    exporters repeat the values of the whole GPU, or 0: ``whole_only`` leaves them out there.
    """

    column: str
    metric: str
    scale: float
    most: int
    least: int = 0
    matchers: str = ""
    whole_only: bool = False

    @property
    def selector(self) -> str:
        """Return the selector of the metric's series."""
        return f"{self.metric}{{{self.matchers}}}" if self.matchers else self.metric


class ProcessMeasure(NamedTuple):
    """A metric with a series per process and card: a ``ProcessReading``'s ``field`` = sample x ``scale``."""

    field: str
    metric: str
    scale: float
    most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporter:
    """Metrics and labels of one exporter. Of several label names, the first that a series has counts.

    ``measures``: of several for one column, the first with a sample counts. A card was read when a metric of
    ``first`` has a sample. ``sampled`` says what one sample of utilization is. ``reserve_excluded``: used memory
    excludes the driver's reserve, which is not exported. ``instance`` and ``profile`` are labels of MIG instances that
    have the UUID of their GPU. ``job_metrics`` have the number of a Slurm job and of its user as value.
    """

    name: str
    measures: tuple[Measure, ...]
    first: tuple[str, ...]
    sampled: str = _NEWEST
    uuid: tuple[str, ...] = ("uuid",)
    index: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    info: str = ""
    has_pods: bool = False
    job: tuple[str, ...] = ()
    job_user: tuple[str, ...] = ()
    job_metrics: tuple[str, str] | None = None
    processes: tuple[ProcessMeasure, ...] = ()
    pid: str = "pid"
    user: str = ""
    program: str = ""
    program_info: str = ""
    reserve_excluded: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return all metric names, each once."""
        names = [*(one.metric for one in self.measures), *(one.metric for one in self.processes)]
        return tuple(dict.fromkeys((*names, *(self.job_metrics or ()))))


def _memory(used: str, total: str, scale: int = 1) -> tuple[Measure, Measure]:
    return (
        Measure("memory_used_bytes", used, scale, _MOST_BYTES),
        Measure("memory_limit_bytes", total, scale, _MOST_BYTES),
    )


def _utilization(general: str, encoder: str, decoder: str, full: int) -> tuple[Measure, ...]:
    """Return the measures of the three engines; ``full`` is the sample that means always busy."""
    columns = ("utilization", "utilization_encoder", "utilization_decoder")
    return tuple(
        Measure(column, metric, _RATIO / full, _RATIO, whole_only=True)
        for column, metric in zip(columns, (general, encoder, decoder), strict=True)
    )


def _power(metric: str, milliwatts: int = 1000) -> Measure:
    return Measure("power_mw", metric, milliwatts, 100_000_000, whole_only=True)


def _temperature(metric: str) -> Measure:
    return Measure("temperature_celsius", metric, 1, 300, -100, whole_only=True)


def _activity(column: str, metric: str) -> Measure:
    return Measure(column, metric, _ACTIVITY, _ACTIVITY)


_GUA: Final = Exporter(
    name="gua",
    measures=(
        *(
            Measure(column, "hw_gpu_utilization_ratio", _RATIO, _RATIO, matchers=f'hw_gpu_task="{task}"')
            for column, task in (
                ("utilization", "general"),
                ("utilization_encoder", "encoder"),
                ("utilization_decoder", "decoder"),
            )
        ),
        *_memory("hw_gpu_memory_usage_bytes", "hw_gpu_memory_limit_bytes"),
        Measure("memory_reserved_bytes", "gua_gpu_memory_reserved_bytes", 1, _MOST_BYTES),
        Measure("power_mw", "hw_power_watts", 1000, 100_000_000),
        Measure("temperature_celsius", "hw_temperature_celsius", 1, 300, -100),
    ),
    first=("gua_gpu_info",),
    sampled="gua's mean of its last tick",
    uuid=("hw_id",),
    index=("gua_gpu_index",),
    model=("hw_model",),
    driver=("hw_driver_version",),
    info="gua_gpu_info",
    processes=(
        ProcessMeasure("memory_bytes", "gua_process_gpu_memory_usage_bytes", 1, _MOST_BYTES),
        ProcessMeasure("utilization", "gua_process_gpu_utilization_ratio", 1, 1),
    ),
    pid="process_pid",
    user="process_owner",
    program="gua_process_comm",
)
_DCGM: Final = Exporter(
    name="dcgm-exporter",
    measures=(
        *_utilization("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL", 100),
        Measure("utilization", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", _RATIO, _RATIO),
        *_memory("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_TOTAL", _MIB),
        Measure(FREE, "DCGM_FI_DEV_FB_FREE", _MIB, _MOST_BYTES),
        Measure("memory_reserved_bytes", "DCGM_FI_DEV_FB_RESERVED", _MIB, _MOST_BYTES),
        _power("DCGM_FI_DEV_POWER_USAGE"),
        _temperature("DCGM_FI_DEV_GPU_TEMP"),
        Measure("energy_total_mj", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1, 2**53, whole_only=True),
        Measure("xid", "DCGM_FI_DEV_XID_ERRORS", 1, 65_535, whole_only=True),
        _activity("sm_utilization", "DCGM_FI_PROF_SM_ACTIVE"),
        _activity("sm_occupancy", "DCGM_FI_PROF_SM_OCCUPANCY"),
        _activity("tensor_utilization", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        _activity("memory_bandwidth_utilization", "DCGM_FI_PROF_DRAM_ACTIVE"),
    ),
    first=("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"),
    # https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html
    sampled="DCGM's newest value, of about the last second",
    uuid=("UUID", "uuid"),
    index=("gpu",),
    model=("modelName", "model_name"),
    host=("Hostname", "hostname"),
    pci=("pci_bus_id",),
    driver=("DCGM_FI_DRIVER_VERSION",),
    instance=("GPU_I_ID",),
    profile=("GPU_I_PROFILE",),
    has_pods=True,
    job=("hpc_job",),
    reserve_excluded=True,
)
_NVITOP: Final = Exporter(
    name="nvitop-exporter",
    measures=(
        *_utilization(
            "gpu_utilization_Percentage",
            "gpu_encoder_utilization_Percentage",
            "gpu_decoder_utilization_Percentage",
            100,
        ),
        *_memory("gpu_memory_used_MiB", "gpu_memory_total_MiB", _MIB),
        _power("gpu_power_usage_W"),
        _temperature("gpu_temperature_C"),
    ),
    first=("gpu_memory_used_MiB", "gpu_utilization_Percentage"),
    index=("index",),
    model=("devicename",),
    processes=(
        ProcessMeasure("memory_bytes", "process_gpu_memory_MiB", _MIB, _MOST_BYTES),
        ProcessMeasure("utilization", "process_gpu_sm_utilization_Percentage", 0.01, 1),
    ),
    user="username",
    program="command",
    program_info="process_info_info",
    reserve_excluded=True,
)
_NVIDIA_SMI: Final = Exporter(
    name="nvidia_gpu_exporter",
    measures=(
        *_utilization(
            "nvidia_smi_utilization_gpu_ratio",
            "nvidia_smi_utilization_encoder_ratio",
            "nvidia_smi_utilization_decoder_ratio",
            1,
        ),
        *_memory("nvidia_smi_memory_used_bytes", "nvidia_smi_memory_total_bytes"),
        Measure("memory_reserved_bytes", "nvidia_smi_memory_reserved_bytes", 1, _MOST_BYTES),
        _power("nvidia_smi_power_draw_watts"),
        _temperature("nvidia_smi_temperature_gpu"),
    ),
    first=("nvidia_smi_memory_used_bytes", "nvidia_smi_utilization_gpu_ratio"),
    index=("index",),
    model=("name",),
    pci=("pci_bus_id",),
    driver=("driver_version",),
    info="nvidia_smi_gpu_info",
    processes=(ProcessMeasure("memory_bytes", "nvidia_smi_compute_app_used_memory_bytes", 1, _MOST_BYTES),),
    program="process_name",
    reserve_excluded=True,
)
_JOBSTATS: Final = Exporter(
    name="nvidia_gpu_prometheus_exporter",
    measures=(
        Measure("utilization", "nvidia_gpu_duty_cycle", _RATIO / 100, _RATIO, whole_only=True),
        *_memory("nvidia_gpu_memory_used_bytes", "nvidia_gpu_memory_total_bytes"),
        _power("nvidia_gpu_power_usage_milliwatts", 1),
        _temperature("nvidia_gpu_temperature_celsius"),
    ),
    first=("nvidia_gpu_memory_used_bytes", "nvidia_gpu_duty_cycle"),
    index=("minor_number", "ordinal"),
    model=("name",),
    job=("jobid",),
    job_user=("userid",),
    job_metrics=("nvidia_gpu_jobId", "nvidia_gpu_jobUid"),
)
_GPU_IDLE: Final = Exporter(
    name="gpu-idle-exporter",
    measures=(
        Measure("utilization", "gpu_idle_device_utilization_percent", _RATIO / 100, _RATIO, whole_only=True),
        *_memory("gpu_idle_device_memory_used_bytes", "gpu_idle_device_memory_total_bytes"),
        _power("gpu_idle_device_power_watts"),
        _temperature("gpu_idle_device_temperature_celsius"),
    ),
    first=("gpu_idle_device_memory_used_bytes",),
    index=("gpu",),
    model=("model",),
)
EXPORTERS: Final = (_GUA, _DCGM, _NVITOP, _NVIDIA_SMI, _JOBSTATS, _GPU_IDLE)
"""In the order of preference for a card that several of them export at the same time."""

POD_LABELS: Final = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"))
"""Labels of a card's pod and namespace: without ``honor_labels``, with it, and with dcgm-exporter's old names."""
REPLICA_LABELS: Final = frozenset({"prometheus_replica", "replica", "__replica__", "prometheus"})
CLUSTER_LABEL: Final = "cluster"
NODE_LABELS: Final = ("node", "kubernetes_node", "nodename")
DRA_PREFIX: Final = "dra_"
"""Prefix of labels of cards that Kubernetes allocated by Dynamic Resource Allocation."""
OWNER_METRIC: Final = "kube_pod_owner"
POD_LABELS_METRIC: Final = "kube_pod_labels"
