"""Rows of the views that explain a card's state; times in Unix ms, ratios in 1/10,000, ``None`` is unknown."""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.facts import TypeTotals
from gua.core.tick import ProcessType
from gua.core.view import Count, Moment, ProcessStateName, StateName, View
from gua.report.explain.card import Card

_CARD: Final = ("host", "gpu", "since_ms", "until_ms")


class MomentRow(NamedTuple):
    """Where a tick ends, and how long it is."""

    ts_ms: Moment
    duration_ms: Count


class TickRow(NamedTuple):
    """A card's tick: every value that it came with, and what the rules made of them."""

    ts_ms: Moment
    duration_ms: Count
    gpu_time_ms: Count
    state: StateName
    reason: str | None
    process_list: str | None
    mig: str | None
    source: str | None
    busiest_utilization: Count | None
    threshold_bytes: Count
    held_lower_bytes: Count
    held_upper_bytes: Count | None
    unattributed_lower_bytes: Count
    utilization: Count | None
    utilization_encoder: Count | None
    utilization_decoder: Count | None
    utilization_max: Count | None
    utilization_coverage_ms: Count | None
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
    power_mw: Count | None
    temperature_celsius: int | None
    energy_total_mj: Count | None
    energy_mj: Count | None
    failed: Count | None
    memory_shared: bool | None
    interval_ms: Count | None

    def totals(self, kind: ProcessType) -> TypeTotals:
        """Return what is stored of the processes of a type; what is unknown is 0."""
        return TypeTotals(
            count=getattr(self, f"process_count_{kind}") or 0,
            memory_bytes=getattr(self, f"process_memory_{kind}_bytes") or 0,
            unknown=getattr(self, f"process_unknown_{kind}") or 0,
        )


class ProcessRow(NamedTuple):
    """A process of a card's tick."""

    ts_ms: Moment
    pid: Count
    created_ms: Moment | None
    owner: str | None
    program: str | None
    type: str | None
    container_id: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    systemd_unit: str | None
    uid: Count | None
    duration_ms: Count
    gpu_time_ms: Count | None
    memory_bytes: Count | None
    utilization: Count | None
    state: ProcessStateName


EXPLAIN_CARDS: Final = View("explain_cards", Card, ("hosts",))
EXPLAIN_MOMENTS: Final = View("explain_moments", MomentRow, (*_CARD, "at_ms", "most"))
EXPLAIN_TICKS: Final = View("explain_ticks", TickRow, _CARD)
EXPLAIN_PROCESSES: Final = View("explain_processes", ProcessRow, _CARD)
