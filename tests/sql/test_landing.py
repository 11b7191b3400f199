"""Spooled ticks into the store, by the same call on both engines: complete, idempotent, and sound beside damage."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core.errors import UnavailableError
from gua.core.ports import SpooledTick
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.otlp.encode import encode
from gua.sim.host import Scenario, simulate
from gua.state.compression import compress
from gua.store import statements
from servers.tap import split
from sql.engine import Engine, same

NOON_MS = 1_774_440_000_000  # 2026-03-25T12:00:00Z
MIDNIGHT_MS = NOON_MS + 12 * 3_600_000
ORIGIN = Origin(host="node-1", source=Source.AGENT, interval_ms=30_000)


def spooled(requests: Iterable[bytes]) -> list[SpooledTick]:
    return [
        SpooledTick(id=number, ts_ms=number, raw_length=len(raw), blob=compress(raw))
        for number, raw in enumerate(requests, start=1)
    ]


def one_card(ts_ms: int, **fields: Any) -> bytes:  # noqa: ANN401 - any field of a card
    card = CardReading(**{"uuid": "GPU-1", "duration_ms": 30_000, "gpu_time_ms": 30_000, **fields})
    return encode(Tick(ts_ms=ts_ms, origin=ORIGIN, cards=(card,)))


# What lands


WHOLE = CardReading(
    uuid="GPU-1",
    duration_ms=30_000,
    gpu_time_ms=12_857,
    process_list=ProcessList.KNOWN,
    index=3,
    name="NVIDIA H100",
    model="H100",
    vendor="NVIDIA",
    driver_version="570.1",
    pci="0000:01:00.0",
    mig=Mig.INSTANCE,
    parent="GPU-0",
    memory_shared=True,
    utilization=0.1,
    utilization_encoder=0.2,
    utilization_decoder=0.3,
    utilization_max=0.4,
    utilization_coverage_ms=29_950,
    idle_time_ms=12_345,
    idle_energy_mj=1_481_234,
    idle_energy_coverage_ms=12_001,
    clock_reasons=0x44,
    xid_errors=2,
    ecc_errors=1,
    xid=79,
    row_remap=1,
    recovery_action=2**32 - 1,
    processes_seen=3,
    sm_utilization=0.5,
    sm_occupancy=1.0,
    tensor_utilization=0.005,
    memory_bandwidth_utilization=0.995,
    memory_used_bytes=8 * 2**30 + 1,
    memory_limit_bytes=80 * 2**30,
    memory_reserved_bytes=500 * 2**20,
    power_watts=71.8,
    temperature_celsius=61,
    energy_total_mj=123_456_789_012,
    energy_mj=2_154_321,
    failed=True,
    allocation=AllocationStatus.ALLOCATED,
    unallocated_gpu_time_ms=2_857,
    processes=(
        ProcessReading(
            pid=4711,
            type=ProcessType.MPS,
            created_ms=NOON_MS - 3_600_123,
            owner="alice",
            uid=1000,
            comm="python3",
            memory_bytes=5,
            utilization=0.5,
            gpu_time_ms=12_857,
            container_id="c0ffee",
            pod_uid="pod-1",
            slurm_job_id="77",
            systemd_unit="user@1000.service",
            workload_kind="serving",
            workload_model="org/model-7b",
        ),
    ),
)
ZERO = CardReading(
    uuid="GPU-1",
    duration_ms=1,
    gpu_time_ms=0,
    process_list=ProcessList.KNOWN,
    index=0,
    mig=Mig.NONE,
    memory_shared=False,
    utilization=0.0,
    utilization_encoder=0.0,
    utilization_decoder=0.0,
    utilization_max=0.0,
    utilization_coverage_ms=0,
    idle_time_ms=0,
    idle_energy_mj=0,
    idle_energy_coverage_ms=0,
    clock_reasons=0,
    xid_errors=0,
    ecc_errors=0,
    row_remap=0,
    recovery_action=0,
    processes_seen=0,
    sm_utilization=0.0,
    sm_occupancy=0.0,
    tensor_utilization=0.0,
    memory_bandwidth_utilization=0.0,
    memory_used_bytes=0,
    memory_limit_bytes=0,
    memory_reserved_bytes=0,
    power_watts=0.0,
    temperature_celsius=0,
    energy_total_mj=0,
    energy_mj=0,
    failed=False,
    allocation=AllocationStatus.UNALLOCATED,
    unallocated_gpu_time_ms=0,
    processes=(ProcessReading(pid=0, created_ms=0, uid=0, memory_bytes=0, utilization=0.0, gpu_time_ms=0),),
)
NOTHING = CardReading(uuid="GPU-1", duration_ms=1, gpu_time_ms=1, processes=(ProcessReading(pid=9),))
ACTIVITY = {"sm_utilization", "sm_occupancy", "tensor_utilization", "memory_bandwidth_utilization"}
SCALED = {"utilization", "utilization_encoder", "utilization_decoder", "utilization_max"}


def stored_card(card: CardReading) -> dict[str, object]:
    """Return the columns in which the reading must lie, in their units."""
    row: dict[str, object] = {
        name: getattr(card, name)
        for name in (
            "duration_ms",
            "gpu_time_ms",
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
            "memory_used_bytes",
            "memory_limit_bytes",
            "memory_reserved_bytes",
            "temperature_celsius",
            "energy_total_mj",
            "energy_mj",
            "process_list",
            "memory_shared",
            "mig",
            "allocation",
            "unallocated_gpu_time_ms",
        )
    }
    row |= {name: None if getattr(card, name) is None else round(getattr(card, name) * 10_000) for name in SCALED}
    row |= {name: None if getattr(card, name) is None else round(getattr(card, name) * 200) for name in ACTIVITY}
    row["power_mw"] = None if card.power_watts is None else round(card.power_watts * 1000)
    row["failed"] = None if card.failed is None else int(card.failed)
    known = card.process_list is ProcessList.KNOWN
    for kind in ProcessType:
        of_type = [process for process in card.processes if process.type is kind]
        row[f"process_count_{kind}"] = len(of_type) if known else None
        row[f"process_memory_{kind}_bytes"] = sum(each.memory_bytes or 0 for each in of_type) if known else None
        row[f"process_unknown_{kind}"] = sum(each.memory_bytes is None for each in of_type) if known else None
    utilization = card.processes[0].utilization
    row["process_utilization_max"] = None if utilization is None else round(utilization * 10_000)
    return row | {"host": "node-1", "gpu": "GPU-1", "source": "agent", "interval_ms": 30_000}


def stored_process(card: CardReading) -> dict[str, object]:
    process = card.processes[0]
    created = datetime.fromtimestamp((process.created_ms or 0) / 1000, UTC)
    return {
        "host": "node-1",
        "gpu": "GPU-1",
        "pid": process.pid,
        "created": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "duration_ms": card.duration_ms,
        "gpu_time_ms": process.gpu_time_ms,
        "memory_bytes": process.memory_bytes,
        "utilization": None if process.utilization is None else round(process.utilization * 10_000),
        "owner": process.owner,
        "program": process.comm,
        "uid": process.uid,
        "type": process.type,
        "container_id": process.container_id,
        "pod_uid": process.pod_uid,
        "slurm_job_id": process.slurm_job_id,
        "systemd_unit": process.systemd_unit,
        "workload_kind": process.workload_kind,
        "workload_model": process.workload_model,
    }


@pytest.mark.parametrize("card", [WHOLE, ZERO, NOTHING], ids=["whole", "zero", "nothing"])
def test_every_field_of_a_reading_lands_as_it_is_known_zero_or_unknown(engine: Engine, card: CardReading) -> None:
    assert engine.writer.land(spooled([encode(Tick(ts_ms=NOON_MS + 43, origin=ORIGIN, cards=(card,)))])) == []
    (row,) = engine.rows("card_ticks", None)
    assert row == {**stored_card(card), "ts": "2026-03-25T12:00:00.043Z"}
    (process,) = engine.rows("process_ticks", None)
    assert process == {**stored_process(card), "ts": "2026-03-25T12:00:00.043Z"}
    (known,) = engine.rows("cards", None)
    assert {name: known[name] for name in ("gpu_index", "name", "model", "driver_version", "pci", "mig", "parent")} == {
        "gpu_index": card.index,
        **{name: getattr(card, name) for name in ("name", "model", "driver_version", "pci", "mig", "parent")},
    }
    (info,) = engine.rows("card_info", None)
    assert info["memory_shared"] is card.memory_shared


HOSTILE = ["'; DROP TABLE gua.card_ticks; --", 'a\\b"c\n\t{x:String}', "\u202eexe.txt", "名前 🙂", "\x1b[31m", " "]


def test_any_name_lands_letter_for_letter(engine: Engine) -> None:
    requests = [
        one_card(
            NOON_MS,
            uuid=f"GPU-{number}",
            name=name,
            utilization=0.5,
            memory_used_bytes=2**33,
            memory_reserved_bytes=0,
            processes=(ProcessReading(pid=number, comm=name, owner=name, gpu_time_ms=30_000),),
        )
        for number, name in enumerate(HOSTILE)
    ]
    assert engine.writer.land(spooled(requests)) == []
    rows = sorted(engine.rows("process_states", None), key=lambda row: row["pid"])
    assert [(row["program"], row["owner"]) for row in rows] == [(name, name) for name in HOSTILE]
    bounds = {"since_ms": NOON_MS - 60_000, "until_ms": NOON_MS}
    cards = engine.rows("overview", {**bounds, "hosts": []})
    assert {row["gpu"]: row["name"] for row in cards} == {f"GPU-{n}": name for n, name in enumerate(HOSTILE)}
    assert not engine.rows("overview", {**bounds, "hosts": HOSTILE})


def test_years_of_imported_days_land_in_one_batch(engine: Engine) -> None:
    day_ms = 24 * 3_600_000
    requests = [one_card(NOON_MS + day * day_ms) for day in range(130)]
    assert engine.writer.land(spooled(requests)) == []
    assert engine.select("SELECT count() AS ticks FROM gua.card_states") == [{"ticks": 130}]


# Idempotence


def by_points(body: bytes) -> Iterator[bytes]:
    """Yield one request for every point of a request."""
    for of_metric in split(body):
        whole = ExportMetricsServiceRequest.FromString(of_metric)
        metric = whole.resource_metrics[0].scope_metrics[0].metrics[0]
        data = metric.gauge if metric.HasField("gauge") else metric.sum
        points = list(data.data_points)
        for point in points:
            del data.data_points[:]
            data.data_points.append(point)
            yield whole.SerializeToString()


# Which hours changed, and how often: that differs by how ticks came, and changes no sum.
BOOKKEEPING = {"hours", "hour_ticks", "due_hours", "changed_hours", "rollups"}
# What is about agents, which these ticks have none of, and about the present, which they are not from.
PRESENT = {
    "fleet",
    "host_name_conflicts",
    "host_status",
    "current_cards",
    "hosts",
    "agent_ticks",
    "current_holders",
    "top_cards",
    "top_holders",
}
# A card's ticks as they are stored: the tables themselves are compared.
OF_A_CARD = {"explain_moments", "explain_ticks", "explain_processes", "explain_allocations"}


def parameters_of(sql: str, values: dict[str, object]) -> dict[str, object]:
    """Return what the view's callers give; which hours are read from ticks is the engine's to find out."""
    return {name: values[name] for name in re.findall(r"\{(\w+):", sql) if name in values}


# Without a row where nothing overlaps, costs or is allocated in vain.
RARE = {
    "overlaps()",
    "prices()",
    "due_days",  # the ticks are of days that are not over
    "empty_limits()",
    "allocations()",
    "current_allocations()",
    "busy_with_few_sms()",
}


TABLES = ("card_ticks", "process_ticks", "allocation_ticks", "allocation_source_ticks", "card_info", "card_seen")


def everything(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return every tick, and the rows of each view that reads ticks itself, in an order that arrival does not change.

    Other views read those views. A server adds the tables only: it has other landing tables and the same views.
    """
    if engine.name == "served":
        return tables(engine)
    values: dict[str, object] = {
        "since_ms": MIDNIGHT_MS - 3_600_000,
        "until_ms": MIDNIGHT_MS + 1_234_567,
        "hosts": [],
        "timezone": "Asia/Kolkata",
        "by": "identity",
        "long_streak_ms": 1_800_000,
        "stuck_ms": 600_000,
        "false_alarm_ms": 600_000,
        "cell_ms": 3_600_000,
        "limits_ms": [0, 300_000],
        "limit": 5,
    }
    reads: list[tuple[str, dict[str, object] | None]] = []
    for one in statements.load(statements.EMBEDDED_TOKENS):
        if (
            one.creates
            and "CREATE OR REPLACE VIEW" in one.sql
            and re.search(rf"\bgua\.({'|'.join(TABLES)})\b", one.sql)
            and one.creates[0] != "gua_public"  # they show what the others do
            and one.creates[1] not in BOOKKEEPING | PRESENT | OF_A_CARD
        ):
            database, view = one.creates
            reads.append((view, parameters_of(one.sql, values) if database == "gua_report" else None))
    return tables(engine) | {
        f"{view}{'' if bound is None else '()'}": ordered(engine.rows(view, bound)) for view, bound in reads
    }


def tables(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    return {table: ordered(engine.rows(table, None)) for table in TABLES}


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr([*row.items()]))


def assert_same(found: dict[str, list[dict[str, Any]]], expected: dict[str, list[dict[str, Any]]]) -> None:
    for view, rows in expected.items():
        assert rows or view in RARE, f"{view} has no row, which would compare nothing"
        assert len(found[view]) == len(rows), view
        for row, want in zip(found[view], rows, strict=True):
            differing = {column: (row[column], want[column]) for column in want if not same(row[column], want[column])}
            assert not differing, (view, differing)


def land_in_batches(engine: Engine, requests: Sequence[bytes], sizes: random.Random, largest: int) -> None:
    waiting = spooled(requests)
    while waiting:
        size = sizes.randint(1, largest)
        assert engine.writer.land(waiting[:size]) == []
        waiting = waiting[size:]


@pytest.fixture(scope="module")
def requests() -> list[bytes]:
    """Return the requests of 8 ticks of two cards, over midnight, people on them, and of a card that is lost.

    One card is reserved meanwhile, and somebody waits.
    """
    ticks = simulate(
        Scenario(seed=3, gpus=2, ticks=8, interval_ms=600_000),
        end_ms=MIDNIGHT_MS + 2_400_000,
        origin=replace(ORIGIN, interval_ms=600_000),
    )
    return [*(encode(queued(tick)) for tick in ticks), one_card(MIDNIGHT_MS - 1_000, failed=True)]


def queued(tick: Tick) -> Tick:
    """Return the tick with a reservation of its first card, and with a request that waits."""
    card, *others = tick.cards
    reserved = AllocationReading(
        source="gua",
        id="r1",
        relation=Relation.NOBODY,
        duration_ms=card.duration_ms,
        gpu_time_ms=card.gpu_time_ms,
        owner="ana",
        kind="run",
    )
    waits = AllocationSourceReading(
        source="gua", duration_ms=card.duration_ms, waiting=1, wait_ms=card.duration_ms, waited_ms=card.duration_ms
    )
    return replace(
        tick,
        cards=(replace(card, allocations=(*card.allocations, reserved)), *others),
        allocation_sources=(*tick.allocation_sources, waits),
    )


@pytest.fixture(scope="module")
def once(opened: Engine, requests: list[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Return everything of a store in which each request landed once, whole and in order."""
    opened.clear()
    assert opened.writer.land(spooled(requests)) == []
    return everything(opened)


def test_ticks_land_alike_however_often_and_in_whatever_order_and_pieces(
    once: dict[str, list[dict[str, Any]]], engine: Engine, requests: list[bytes]
) -> None:
    chance = random.Random(7)  # noqa: S311 - a fixed order, not a secret
    arrivals = [
        *requests * 3,
        *(piece for request in requests for piece in split(request)),
        *(piece for request in requests for piece in by_points(request)),
    ]
    chance.shuffle(arrivals)
    half = len(arrivals) // 2
    land_in_batches(engine, arrivals[:half], chance, 300)
    engine.writer.merge()
    land_in_batches(engine, arrivals[half:], chance, 300)
    assert_same(everything(engine), once)


def test_ticks_land_alike_in_pieces_alone(
    once: dict[str, list[dict[str, Any]]], engine: Engine, requests: list[bytes]
) -> None:
    pieces = [piece for request in requests for piece in by_points(request)]
    random.Random(8).shuffle(pieces)  # noqa: S311 - as above
    land_in_batches(engine, pieces, random.Random(9), 400)  # noqa: S311 - as above
    # What views make of pieces that no merge has put together yet is in the test before.
    expected = {table: once[table] for table in TABLES}
    assert_same(tables(engine), expected)
    engine.writer.merge()
    assert_same(tables(engine), expected)


# Damage


def damaged(tick: SpooledTick, how: str) -> SpooledTick:
    if how == "no zstd":
        return replace(tick, blob=b"\x00" * len(tick.blob))
    if how == "cut":
        return replace(tick, blob=tick.blob[:-20])
    if how == "another length":
        return replace(tick, raw_length=tick.raw_length + 5)
    garbage = b"\xff" * tick.raw_length
    return replace(tick, blob=compress(garbage))


@pytest.mark.parametrize("hows", [("no zstd", "cut"), ("another length", "no protobuf")], ids=" and ".join)
def test_damaged_ticks_are_found_among_good_ones_and_handed_back(engine: Engine, hows: tuple[str, str]) -> None:
    batch = spooled(one_card(NOON_MS + second * 30_000) for second in range(9))
    bad = dict(zip((2, 7), hows, strict=True))
    batch = [damaged(tick, bad[tick.id]) if tick.id in bad else tick for tick in batch]
    assert engine.writer.land(batch) == [tick for tick in batch if tick.id in bad]
    landed = engine.select("SELECT toUnixTimestamp64Milli(ts) AS at FROM gua.card_states ORDER BY ts")
    assert [row["at"] for row in landed] == [NOON_MS + n * 30_000 for n in range(9) if n + 1 not in bad]


def test_a_single_damaged_tick_is_handed_back(engine: Engine) -> None:
    (tick,) = (damaged(tick, "no protobuf") for tick in spooled([one_card(NOON_MS)]))
    assert engine.writer.land([tick]) == [tick]


def test_a_batch_that_is_refused_whole_raises_an_error(engine: Engine) -> None:
    batch = [damaged(tick, "no zstd") for tick in spooled(one_card(NOON_MS + n) for n in range(3))]
    with pytest.raises(UnavailableError, match="refused"):
        engine.writer.land(batch)


def test_nothing_lands_from_an_empty_batch(engine: Engine) -> None:
    assert engine.writer.land([]) == []
    assert engine.rows("card_ticks", None) == []
