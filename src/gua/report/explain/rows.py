"""Rows of the views that explain a card's state; times in Unix ms, ratios in 1/10,000, ``None`` is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.core.stored import CardValues, ProcessValues
from gua.core.view import Count, Moment, ProcessStateName, StateName, View
from gua.report.explain.card import ExplainedCard
from gua.report.uses import UseName

_CARD: Final = ("host", "gpu", "since_ms", "until_ms")


class MomentRow(NamedTuple):
    """Where a tick ends, and how long it is."""

    ts_ms: Moment
    duration_ms: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class TickRow(CardValues):
    """A card's tick: every value that it came with, and what the rules made of them."""

    ts_ms: Moment
    duration_ms: Count
    gpu_time_ms: Count
    state: StateName
    reason: str | None
    busiest_utilization: Count | None
    threshold_bytes: Count
    held_lower_bytes: Count
    held_upper_bytes: Count | None
    unattributed_lower_bytes: Count
    allocation: str | None
    unallocated_gpu_time_ms: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedProcessRow(ProcessValues):
    """A process of a card's tick."""

    ts_ms: Moment
    created_ms: Moment | None
    uid: Count | None
    workload_kind: str | None
    workload_model: str | None
    duration_ms: Count
    gpu_time_ms: Count | None
    state: ProcessStateName


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedPartRow:
    """A part of a card's tick: an allocation's, or (source ``""``) of what nobody was promised, or nobody knows."""

    ts_ms: Moment
    source: str
    allocation_id: str
    owner: str | None
    uid: Count | None
    kind: str | None
    job_name: str | None
    pod_uid: str | None
    pod_name: str | None
    pod_namespace: str | None
    since_ms: Moment | None
    until_ms: Moment | None
    relation: str | None
    use: UseName
    duration_ms: Count
    gpu_time_ms: Count


EXPLAIN_CARDS: Final = View("explain_cards", ExplainedCard, ("hosts",))
EXPLAIN_MOMENTS: Final = View("explain_moments", MomentRow, (*_CARD, "at_ms", "limit"))
EXPLAIN_TICKS: Final = View("explain_ticks", TickRow, _CARD)
EXPLAIN_PROCESSES: Final = View("explain_processes", ExplainedProcessRow, _CARD)
EXPLAIN_ALLOCATIONS: Final = View("explain_allocations", ExplainedPartRow, _CARD)
