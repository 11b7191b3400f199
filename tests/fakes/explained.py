"""A store of one host's ticks that answers the queries of gua explain, as the shipped views do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from fakes.store import whole
from gua.core.rules import Rules, classify, counted, without_process
from gua.report.explain.model import EXPLAIN_ALLOCATIONS, EXPLAIN_TICKS, TickRow, facts_of

GIB = 2**30
NOON_MS = 1_774_440_000_000  # 2026-03-25T12:00:00Z
HOST = "node-1"


def card(gpu: str, index: int | None = 0, **values: object) -> dict[str, Any]:
    """Return a row of ``explain_cards``."""
    return {
        "host": HOST,
        "gpu": gpu,
        "gpu_index": index,
        "name": "NVIDIA H100 80GB HBM3",
        "mig": "none",
        "parent": None,
        "driver_version": "580.95.05",
        "pci": "00000000:10:00.0",
        "source": "agent",
        "interval_ms": 30_000,
        "first_ms": NOON_MS - 3_600_000,
        "last_ms": NOON_MS + 3_600_000,
        **values,
    }


def tick_row(values: Mapping[str, Any]) -> TickRow:
    """Return a row of ``explain_ticks`` as an object; what is left out is unknown."""
    (row,) = EXPLAIN_TICKS.parsed([whole(EXPLAIN_TICKS, values)])
    return row


def tick(second: int, **values: object) -> dict[str, Any]:
    """Return a row of ``explain_ticks`` that ends so many seconds after noon, judged by the shipped rules."""
    listed = ("process_count", "process_memory", "process_unknown")
    row = {name: 0 for name in EXPLAIN_TICKS.columns if name.startswith(listed)} | {
        "ts_ms": NOON_MS + second * 1000,
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "interval_ms": 30_000,
        "utilization": 320,
        "utilization_coverage_ms": 29_000,
        "idle_time_ms": 28_000,
        "memory_used_bytes": 8 * GIB + GIB // 2,
        "memory_limit_bytes": 80 * GIB,
        "memory_reserved_bytes": GIB // 2,
        "memory_shared": False,
        "process_list": "known",
        "process_count_compute": 1,
        "process_memory_compute_bytes": 8 * GIB,
        "failed": 0,
        "source": "agent",
        **values,
    }
    row = asdict(tick_row(row))
    facts = facts_of(tick_row(row))
    verdict, processes = classify(facts, Rules()), counted(facts)
    judged = {
        "state": verdict.state,
        "reason": verdict.reason,
        "busiest_utilization": verdict.utilization,
        "threshold_bytes": verdict.threshold_bytes,
        "held_lower_bytes": verdict.held_lower_bytes,
        "held_upper_bytes": verdict.held_upper_bytes,
        "without_process": without_process(facts, Rules()),
        "unattributed_lower_bytes": 0 if processes.unknown else verdict.held_lower_bytes - processes.memory_bytes,
    }
    return {**row, **judged, **{name: values[name] for name in judged if name in values}}


def process(second: int, pid: int, **values: object) -> dict[str, Any]:
    """Return a row of ``explain_processes``."""
    return {
        "ts_ms": NOON_MS + second * 1000,
        "pid": pid,
        "created_ms": NOON_MS - 3_600_000,
        "owner": "alice",
        "uid": 1001,
        "program": "python",
        "type": "compute",
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "memory_bytes": 8 * GIB,
        "utilization": 0,
        "container_id": None,
        "pod_uid": None,
        "slurm_job_id": None,
        "systemd_unit": None,
        "workload_kind": None,
        "workload_model": None,
        "state": "idle",
        **values,
    }


def part(second: int, source: str = "slurm", **values: object) -> dict[str, Any]:
    """Return a row of ``explain_allocations``: job 1234 of alice by default, unallocated if ``source`` is empty."""
    of_job = {"allocation_id": "1234", "owner": "alice", "uid": 1001, "kind": "job", "job_name": "train"}
    fields = {"use": "held" if source else "unallocated-use", **values}
    # The relation of an unallocated part of unknown use is unknown.
    relation_or_unknown = "unknown" if fields["use"] == "unknown" else None
    return {
        **dict.fromkeys(EXPLAIN_ALLOCATIONS.columns),
        "ts_ms": NOON_MS + second * 1000,
        "source": source,
        **(of_job if source else {"allocation_id": ""}),
        "since_ms": NOON_MS - 3_600_000 if source else None,
        "relation": "owner" if source else relation_or_unknown,
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        **fields,
    }


class ExplainedStore:
    """Cards, ticks and processes of one host; ``asked`` keeps the queries."""

    def __init__(
        self,
        cards: Iterable[Mapping[str, Any]],
        ticks: Iterable[Mapping[str, Any]],
        processes: Iterable[Mapping[str, Any]] = (),
        *,
        source: str = "agent",
        changed: Mapping[str, float] | None = None,
        parts: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self.cards = [dict(card) for card in cards]
        self.ticks = list(ticks)
        self.processes = list(processes)
        self.parts = list(parts)
        self.hosts: tuple[str, ...] = (HOST,)
        self.source = source
        self.changed = dict(changed or {})
        self.asked: list[tuple[str, Mapping[str, object]]] = []

    @property
    def is_concurrent(self) -> bool:
        return False

    def rows(self, view: str, parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        self.asked.append((view, parameters))
        if view == "extent":
            newest = max((row["last_ms"] for row in self.cards), default=0)
            known = {"source": self.source, "cards": len(self.cards), "interval_ms": 30_000}
            span = {"first_ms": NOON_MS - 3_600_000, "last_ms": newest}
            return [{"host": host, **known, **span} for host in self.hosts] if self.cards else []
        if view == "explain_cards":
            return self.cards
        if view == "rules":
            shipped = {"active_utilization": 0.1, "held_memory_bytes": 104_857_600.0, "held_memory_ratio": 0.0}
            return [
                {"key": key, "value": self.changed.get(key, value), "is_default": key not in self.changed}
                for key, value in shipped.items()
            ]
        of_view = {"explain_processes": self.processes, "explain_allocations": self.parts}
        rows = of_view.get(view, self.ticks)
        found = [row for row in rows if parameters["since_ms"] < row["ts_ms"] <= parameters["until_ms"]]
        if view == "explain_moments":
            most = parameters["limit"]
            before = [row for row in found if row["ts_ms"] < parameters["at_ms"]][-most:]
            return before + [row for row in found if row["ts_ms"] >= parameters["at_ms"]][:most]
        return found
