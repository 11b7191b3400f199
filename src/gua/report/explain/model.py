"""Stored rows on one card's ticks, and the format of their values for people and JSON.

Rows come from the ``explain_*`` views: times in Unix ms, ratios in 1/10,000, ``None`` is unknown.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from gua.core.facts import CardFacts, TypeTotals
from gua.core.view import Count, Moment, ProcessStateName, StateName, View
from gua.core.words import ROW_REMAPS, ProcessList, ProcessType, held_down_by, recovery_action
from gua.report.kit.basis import size
from gua.report.kit.fields import AS_IS, FirstSeen, LastSeen, Seconds
from gua.report.uses import UseName

NOT_KNOWN: Final = "not known"
_CARD: Final = ("host", "gpu", "since_ms", "until_ms")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedCard:
    """A card of a host in the store; times in Unix ms, ``interval_ms`` in ms, ``None`` is unknown."""

    host: str
    gpu: str
    gpu_index: Annotated[Count | None, AS_IS.named("index")]
    name: str | None
    mig: str | None
    parent: str | None
    driver_version: str | None
    pci: str | None
    source: str
    interval_ms: Seconds[Count | None]
    first_ms: FirstSeen[Moment]
    last_ms: LastSeen[Moment]


class MomentRow(NamedTuple):
    """End of a tick (Unix ms) and its duration [ms]."""

    ts_ms: Moment
    duration_ms: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class TickRow:
    """A card tick: every stored value, and the results of the rules."""

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
    without_process: bool | None
    allocation: str | None
    unallocated_gpu_time_ms: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedProcessRow:
    """A process in a card tick."""

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
    """A part of a card tick by allocation; with source ``""`` the part that is unallocated or unknown."""

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

    @property
    def is_allocation_known(self) -> bool:
        """Return whether it is known if the part was allocated, and to which allocation."""
        return bool(self.source) or self.relation is None


EXPLAIN_CARDS: Final = View("explain_cards", ExplainedCard, ("hosts",))
EXPLAIN_MOMENTS: Final = View("explain_moments", MomentRow, (*_CARD, "at_ms", "limit"))
EXPLAIN_TICKS: Final = View("explain_ticks", TickRow, _CARD)
EXPLAIN_PROCESSES: Final = View("explain_processes", ExplainedProcessRow, _CARD)
EXPLAIN_ALLOCATIONS: Final = View("explain_allocations", ExplainedPartRow, _CARD)

YES: Final = "yes"
NO: Final = "no"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a tick: its column, label, JSON unit, and the number of stored parts per unit.

    ``is_optional`` values are left out of the text where no tick has them.
    """

    column: str
    label: str
    unit: str | None = None
    parts: int = 1
    is_optional: bool = False

    def of(self, row: TickRow | ExplainedProcessRow) -> object:
        """Return the row's stored value."""
        return getattr(row, self.column)

    def text(self, stored: object) -> str:
        """Return the value with its unit, ``not known`` for ``None``."""
        if stored is None:
            return NOT_KNOWN
        return _TEXTS.get(self.unit, str)(self.number(stored))

    def number(self, stored: object) -> object:
        """Return the value in its unit: a number, boolean or text; ``None`` if unknown."""
        if self.unit is None or stored is None:
            return stored
        assert isinstance(stored, int)  # noqa: S101 - values with a unit are stored as integers
        if self.unit == FLAG:
            return bool(stored)
        return stored if self.parts == 1 else stored / self.parts


FLAG: Final = "flag"
CLOCKS: Final = "clock reasons"
REMAP: Final = "row remap"
RECOVERY: Final = "recovery action"
_MEGA: Final = 1_000_000


def ratio_text(ten_thousandths: int | None) -> str:
    """Return a ratio in 1/10,000 as an exact percentage, as in ``3.2 %``."""
    if ten_thousandths is None:
        return NOT_KNOWN
    return f"{ten_thousandths / 100:.2f}".rstrip("0").rstrip(".") + " %"


_TEXTS: Final[Mapping[str | None, Callable[[Any], str]]] = {
    "1": lambda value: ratio_text(round(value * 10_000)),
    "By": size,
    "s": lambda value: f"{value:.3f}".rstrip("0").rstrip(".") + " s",
    "W": lambda value: f"{value:.1f} W",
    "J": lambda value: f"{value:,.1f} J" if value < _MEGA / 10 else f"{value / _MEGA:,.3f} MJ",
    "Cel": lambda value: f"{value} °C",
    FLAG: lambda value: YES if value else NO,
    CLOCKS: lambda value: ", ".join(held_down_by(value)) or "nothing",
    REMAP: lambda value: ROW_REMAPS.get(value, str(value)),
    RECOVERY: recovery_action,
}

DECLARED: Final = tomllib.loads(Path(__file__).with_name("explain.toml").read_text("utf-8"))
CARD_VALUES, JUDGED_VALUES, PROCESS_VALUES, PROCESS_FACTS = (
    tuple(Value(**row) for row in DECLARED[name]) for name in ("card", "judged", "process", "fact")
)
"""Values of a card tick, those that the rules derive from it, values of a process, and its identity."""


_AS_STORED: Final = tuple({one.name for one in fields(CardFacts)} - {"process_list", "processes", "failed"})


def facts_of(row: TickRow) -> CardFacts:
    """Return the input of the rules from a row of ``gua_report.explain_ticks``, as ``gua.card_states`` reads it."""
    # An unknown word counts as an absent list.
    listed = ProcessList(row.process_list) if row.process_list in set(ProcessList) else ProcessList.ABSENT
    processes = None
    if listed is ProcessList.KNOWN:
        processes = {
            kind: TypeTotals(
                count=getattr(row, f"process_count_{kind}") or 0,
                memory_bytes=getattr(row, f"process_memory_{kind}_bytes") or 0,
                unknown=getattr(row, f"process_unknown_{kind}") or 0,
            )
            for kind in ProcessType
        }
    return CardFacts(
        **{name: getattr(row, name) for name in _AS_STORED},
        process_list=listed,
        processes=processes,
        failed=None if row.failed is None else row.failed > 0,
    )
