"""Stored values of a card tick and of a process on it, in stored units: ratios in 1/10,000, ``None`` is unknown."""

from dataclasses import dataclass

from gua.core.view import Count
from gua.core.words import ProcessType

Totals = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardValues:
    """The stored values of a card tick."""

    utilization: Count | None
    utilization_encoder: Count | None
    utilization_decoder: Count | None
    utilization_max: Count | None
    utilization_coverage_ms: Count | None
    idle_time_ms: Count | None
    idle_energy_mj: Count | None
    idle_energy_coverage_ms: Count | None
    clock_reasons: Count | None
    xid_errors: Count | None
    ecc_errors: Count | None
    xid: Count | None
    row_remap: Count | None
    recovery_action: Count | None
    sm_utilization: Count | None
    sm_occupancy: Count | None
    tensor_utilization: Count | None
    memory_bandwidth_utilization: Count | None
    memory_used_bytes: Count | None
    memory_limit_bytes: Count | None
    memory_reserved_bytes: Count | None
    process_count_compute: Count | None
    process_count_graphics: Count | None
    process_count_mps: Count | None
    process_count_ignored: Count | None
    process_memory_compute_bytes: Count | None
    process_memory_graphics_bytes: Count | None
    process_memory_mps_bytes: Count | None
    process_memory_ignored_bytes: Count | None
    process_unknown_compute: Count | None
    process_unknown_graphics: Count | None
    process_unknown_mps: Count | None
    process_unknown_ignored: Count | None
    process_utilization_max: Count | None
    processes_seen: Count | None
    power_mw: Count | None
    temperature_celsius: int | None
    energy_total_mj: Count | None
    energy_mj: Count | None
    failed: Count | None
    process_list: str | None
    memory_shared: bool | None
    mig: str | None
    source: str | None
    interval_ms: Count | None

    @property
    def totals(self) -> dict[ProcessType, Totals]:
        """Return per process type the count, the known memory [bytes], and the count of unknown memory."""
        return {
            kind: (
                getattr(self, f"process_count_{kind}"),
                getattr(self, f"process_memory_{kind}_bytes"),
                getattr(self, f"process_unknown_{kind}"),
            )
            for kind in ProcessType
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessValues:
    """Identity of a process, and its use of a card."""

    pid: Count
    owner: str | None
    program: str | None
    type: str | None
    memory_bytes: Count | None
    utilization: Count | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None
