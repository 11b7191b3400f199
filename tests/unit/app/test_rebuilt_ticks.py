"""Stored ticks made anew: sent again, they fill another store with the very same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gua.app.rebuilt_ticks import Rebuilt
from gua.core.ports import SpooledTick
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, Tick
from gua.core.words import AllocationStatus, Relation, Source
from gua.otlp.encode import encode
from gua.sim.host import HOST, Scenario, demo_origin, simulate
from gua.state.compression import compress
from gua.store.database import Store, open_store
from gua.store.history import card_info, recorded_days, rows_of_ticks

ORIGIN = Origin(host="gpu01", source=Source.AGENT, interval_ms=30_000)
TYPES = ("compute", "graphics", "mps", "ignored")
INTERVAL_MS = 300_000
UNKNOWN = AllocationStatus.UNKNOWN


def card_row(**values: object) -> dict[str, Any]:
    """Return the stored row of a free card with all that an agent reports without a driver's extras."""
    unknown = dict.fromkeys(
        [
            "utilization",
            "utilization_encoder",
            "utilization_decoder",
            "utilization_max",
            "utilization_coverage_ms",
            "idle_time_ms",
            "idle_energy_mj",
            "idle_energy_coverage_ms",
            "clock_reasons",
            "xid_errors",
            "ecc_errors",
            "xid",
            "row_remap",
            "recovery_action",
            "processes_seen",
            "sm_utilization",
            "sm_occupancy",
            "tensor_utilization",
            "memory_bandwidth_utilization",
            "memory_used_bytes",
            "memory_limit_bytes",
            "memory_reserved_bytes",
            "process_utilization_max",
            "power_mw",
            "temperature_celsius",
            "energy_total_mj",
            "energy_mj",
            "failed",
            "memory_shared",
            "mig",
            "allocation",
            "unallocated_gpu_time_ms",
        ]
    )
    processes = {
        name: 0
        for kind in TYPES
        for name in (f"process_count_{kind}", f"process_memory_{kind}_bytes", f"process_unknown_{kind}")
    }
    fields = {
        "ts_ms": 1_774_413_000_000,
        "gpu": "GPU-1",
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "process_list": "known",
        "source": "agent",
        "interval_ms": 30_000,
    }
    return {**unknown, **processes, **fields, **values}


def process_row(**values: object) -> dict[str, Any]:
    unknown = dict.fromkeys(["utilization", "uid", "container_id", "pod_uid", "slurm_job_id", "systemd_unit"])
    unknown |= dict.fromkeys(["workload_kind", "workload_model"])
    fields = {
        "ts_ms": 1_774_413_000_000,
        "gpu": "GPU-1",
        "pid": 7,
        "created_ms": 0,
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "memory_bytes": 5,
        "owner": "ada",
        "program": "python",
        "type": "compute",
    }
    return {**unknown, **fields, **values}


def allocation_row(**values: object) -> dict[str, Any]:
    unknown = dict.fromkeys(["owner", "uid", "kind", "until_ms", "job_name", "pod_uid", "pod_name", "pod_namespace"])
    unknown |= dict.fromkeys(["workload_kind", "workload_model"])
    fields = {
        "ts_ms": 1_774_413_000_000,
        "gpu": "GPU-1",
        "source": "slurm",
        "allocation_id": "7",
        "duration_ms": 30_000,
        "gpu_time_ms": 30_000,
        "relation": "nobody",
        "since_ms": 1_774_400_000_000,
    }
    return {**unknown, **fields, **values}


def rebuild(
    cards: Iterable[Mapping[str, Any]],
    processes: Iterable[Mapping[str, Any]] = (),
    allocations: Iterable[Mapping[str, Any]] = (),
    sources: Iterable[Mapping[str, Any]] = (),
) -> tuple[list[Tick], Rebuilt]:
    rebuilt = Rebuilt(ORIGIN, {})
    return [*rebuilt.ticks(cards, processes, allocations, sources)], rebuilt


def test_what_is_unknown_stays_unknown_and_zero_stays_zero() -> None:
    (tick,), _ = rebuild([card_row(utilization=0, failed=0, memory_used_bytes=0)])
    (card,) = tick.cards
    assert (card.utilization, card.failed, card.memory_used_bytes) == (0.0, False, 0)
    assert (card.power_watts, card.energy_mj, card.memory_reserved_bytes, card.mig, card.name) == (None,) * 5


def test_allocations_are_rebuilt() -> None:
    fields = {"ts_ms": 1_774_413_000_000, "duration_ms": 30_000}
    fields |= {"waiting": None, "wait_ms": None, "waited_ms": None}
    failed = {**fields, "source": "kubernetes", "status": "failed", "reason": "no socket"}
    (tick,), rebuilt = rebuild(
        [card_row(allocation="allocated", unallocated_gpu_time_ms=0)],
        allocations=[allocation_row(owner="ada", uid=0)],
        sources=[{**fields, "source": "slurm", "status": "ok", "reason": None}, failed],
    )
    (card,) = tick.cards
    assert (card.allocation, card.unallocated_gpu_time_ms) == (AllocationStatus.ALLOCATED, 0)
    (allocation,) = card.allocations
    assert (allocation.source, allocation.id, allocation.owner, allocation.uid) == ("slurm", "7", "ada", 0)
    assert [(one.source, one.reason) for one in tick.allocation_sources] == [
        ("slurm", None),
        ("kubernetes", "no socket"),
    ]
    assert rebuilt.left_out == 0
    partly = allocation_row(relation=None)
    assert rebuild([card_row(allocation="allocated")], allocations=[partly])[1].left_out == 1
    assert rebuild([card_row(allocation="allocated")], allocations=[allocation_row(gpu_time_ms=None)])[1].left_out == 1


def test_the_cards_of_a_moment_become_one_tick_per_source() -> None:
    rows = [card_row(), card_row(gpu="GPU-2"), card_row(gpu="GPU-3", source="import", interval_ms=None)]
    ticks, rebuilt = rebuild(rows)
    assert [(tick.origin.source, tick.origin.interval_ms, len(tick.cards)) for tick in ticks] == [
        (Source.AGENT, 30_000, 2),
        (Source.IMPORT, 30_000, 1),
    ]
    assert (rebuilt.card_ticks, rebuilt.left_out) == (3, 0)


def test_a_process_without_a_known_start_has_none() -> None:
    (tick,), _ = rebuild([card_row(process_count_compute=1, process_memory_compute_bytes=5)], [process_row()])
    assert tick.cards[0].processes[0].created_ms is None


@pytest.mark.parametrize(
    ("card", "processes"),
    [
        (card_row(duration_ms=None), []),
        (card_row(gpu_time_ms=None), []),
        (card_row(gpu_time_ms=30_001), []),
        (card_row(process_list=None), []),
        (card_row(source=None), []),
        (card_row(process_count_compute=1, process_memory_compute_bytes=5), []),
        (card_row(), [process_row()]),
        (card_row(process_count_compute=None), []),
        (card_row(process_count_compute=1, process_memory_compute_bytes=5), [process_row(type=None)]),
        (card_row(process_count_compute=1, process_memory_compute_bytes=5), [process_row(duration_ms=None)]),
        (card_row(process_utilization_max=1), []),
    ],
)
def test_a_card_that_is_stored_in_part_is_left_out_and_counted(
    card: dict[str, Any], processes: list[dict[str, Any]]
) -> None:
    ticks, rebuilt = rebuild([card, card_row(gpu="GPU-2")], processes)
    assert [reading.uuid for tick in ticks for reading in tick.cards] == ["GPU-2"]
    assert (rebuilt.card_ticks, rebuilt.left_out) == (1, 1)


def land(store: Store, ticks: Iterable[Tick]) -> None:
    batch = [
        SpooledTick(id=number, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw))
        for number, tick in enumerate(ticks, 1)
        for raw in [encode(tick)]
    ]
    assert store.land(batch) == []


def again(store: Store, slice_ms: int) -> Iterator[Tick]:
    rebuilt = Rebuilt(demo_origin(INTERVAL_MS), card_info(store, HOST))
    for day in recorded_days(store, HOST):
        for since_ms in range(day.first_ms - 1, day.last_ms, slice_ms):
            until_ms = min(since_ms + slice_ms, day.last_ms)
            yield from rebuilt.ticks(*rows_of_ticks(store, HOST, since_ms=since_ms, until_ms=until_ms))
    assert rebuilt.left_out == 0


def with_allocations(tick: Tick) -> Tick:
    """Return the tick with its cards allocated to somebody, or with a source that failed."""
    is_known = tick.ts_ms // INTERVAL_MS % 3 > 0
    reading = AllocationSourceReading(
        source="slurm",
        duration_ms=INTERVAL_MS,
        reason=None if is_known else "squeue takes too long",
        waiting=3 if is_known else None,
        wait_ms=2 * INTERVAL_MS if is_known else None,
        waited_ms=INTERVAL_MS if is_known else None,
    )
    cards = tuple(allocated(card) if is_known else replace(card, allocation=UNKNOWN) for card in tick.cards)
    return replace(tick, cards=cards, allocation_sources=(reading,))


def allocated(card: CardReading) -> CardReading:
    half = card.gpu_time_ms // 2
    allocation = AllocationReading(
        source="slurm",
        id="7",
        relation=Relation.OWNER,
        duration_ms=card.duration_ms // 2,
        gpu_time_ms=half,
        since_ms=1_774_400_000_123,
        until_ms=1_774_500_000_000,
        owner="ada",
        uid=0,
        kind="job",
        job_name="train",
        pod_uid="u",
        pod_name="p",
        pod_namespace="n",
        workload_kind="serving",
        workload_model="qwen",
    )
    left = card.gpu_time_ms - half
    return replace(card, allocation=AllocationStatus.ALLOCATED, allocations=(allocation,), unallocated_gpu_time_ms=left)


@pytest.mark.engine
def test_a_store_filled_from_history_has_every_row_of_the_first(
    made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    stranger = Tick(ts_ms=1, origin=Origin(host="other", source=Source.AGENT, interval_ms=1), cards=())
    with open_store(made_store(tmp_path / "first")) as first:
        land(first, [stranger, *map(with_allocations, simulate(Scenario(ticks=400, interval_ms=INTERVAL_MS)))])
        tables = (
            "card_ticks",
            "process_ticks",
            "allocation_ticks",
            "allocation_source_ticks",
            "card_seen",
            "card_info",
        )
        expected = {name: first.select(f"SELECT * FROM gua.{name} FINAL ORDER BY ALL", {}) for name in tables}
        history = [*again(first, 50 * INTERVAL_MS)]
    assert len(expected["card_ticks"]) > 3_000
    with open_store(made_store(tmp_path / "second")) as second:
        land(second, history)
        for name in tables:
            assert second.select(f"SELECT * FROM gua.{name} FINAL ORDER BY ALL", {}) == expected[name], name
