"""Rows of ticks are what the views make of their points: the same ticks each way, and which go by points alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.every_tick import AGENT, ALLOCATION, FULL, NOW_MS, ORIGIN, every_kind, tables_of, tick
from gua.core import metrics
from gua.core.metrics import Subject
from gua.core.ports import SpooledTick
from gua.core.tick import (
    AllocationSourceReading,
    ProcessReading,
    Tick,
)
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.store.connection import QueryError
from gua.store.database import Store, open_store
from gua.store.landing import land_rows
from gua.store.tick_rows import TABLES, TickRows


def spooled(*raws: bytes) -> list[SpooledTick]:
    return [SpooledTick(id=n, ts_ms=0, raw_length=len(raw), blob=compress(raw)) for n, raw in enumerate(raws, 1)]


def as_requests(store: Store, ticks: Sequence[Tick]) -> None:
    assert store.land(spooled(*map(encode, ticks))) == []


def as_points(store: Store, ticks: Sequence[Tick]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TickRows, "add", lambda *_: False)
        as_requests(store, ticks)


def as_rows(store: Store, ticks: Sequence[Tick]) -> None:
    rows = TickRows(NOW_MS)
    assert all(map(rows.add, ticks))
    assert rows.ticks == len(ticks)
    store.land_lines(rows.parts())


def stored(address: str, land: Callable[[Store, Sequence[Tick]], None], ticks: Sequence[Tick]) -> dict[str, list[Any]]:
    with open_store(address) as store:
        land(store, ticks)
        return tables_of(store)


@pytest.mark.engine
def test_ticks_land_as_rows_as_they_land_as_points(tmp_path: Path, made_store: Callable[[Path], str]) -> None:
    ticks = every_kind()
    points = stored(made_store(tmp_path / "points"), as_points, ticks)
    for land in (as_rows, as_requests):
        rows = stored(made_store(tmp_path / land.__name__), land, ticks)
        assert not rows["refused_points"]
        for table, of_points in points.items():
            assert rows[table] == of_points, (land, table)
            assert of_points or table == "refused_points", table


def test_every_column_of_the_catalogue_is_made() -> None:
    tables = {
        Subject.CARD: "card_ticks",
        Subject.PROCESS: "process_ticks",
        Subject.ALLOCATION: "allocation_ticks",
        Subject.SOURCE: "allocation_source_ticks",
    }
    for metric in metrics.CATALOGUE:
        for column in metric.columns:
            of_table = {one.name: one for one in TABLES[tables[metric.subject]]}
            assert f"'{column.type}'" in of_table[column.name].sql, column.name


@pytest.mark.parametrize(
    "odd",
    [
        tick(0, replace(FULL, utilization=nan)),
        tick(0, replace(FULL, power_watts=inf)),
        tick(0, replace(FULL, energy_total_mj=2**50)),
        tick(0, replace(FULL, duration_ms=2**32)),
        tick(0, replace(FULL, processes=(ProcessReading(pid=2**32),))),
        tick(0, replace(FULL, processes=(ProcessReading(pid=1, created_ms=-1),))),
        tick(0, replace(FULL, processes=(ProcessReading(pid=1, memory_bytes=2**63),))),
        tick(0, replace(FULL, allocations=(replace(ALLOCATION, id=""),))),
        tick(0, replace(FULL, allocations=(replace(ALLOCATION, until_ms=2**50),))),
        tick(0, allocation_sources=(AllocationSourceReading(source="", duration_ms=1),)),
        tick(0, agent=replace(AGENT, tick_duration_seconds=nan)),
        tick(0, origin=replace(ORIGIN, host="")),
        tick(0, ts_ms=946_684_799_999),
        tick(0, ts_ms=NOW_MS + 1),
    ],
)
def test_a_tick_that_rows_cannot_represent_is_stored_by_its_points(odd: Tick) -> None:
    rows = TickRows(NOW_MS)
    assert not rows.add(odd)
    assert (rows.ticks, rows.characters, [*rows.parts()]) == (0, 0, [])
    assert rows.add(tick())


def changed(change: Callable[[Any], None]) -> bytes:
    """Return the request of a tick with something that our encoder does not write."""
    message = ExportMetricsServiceRequest.FromString(encode(tick()))
    change(message)
    raw: bytes = message.SerializeToString()
    return raw


def point_of(message: Any, name: str) -> Any:  # noqa: ANN401 - the generated classes have no types
    (metric,) = [one for one in message.resource_metrics[0].scope_metrics[0].metrics if one.name == name]
    return (metric.sum if metric.HasField("sum") else metric.gauge).data_points[0]


def two_resources(message: Any) -> None:  # noqa: ANN401 - as above
    message.resource_metrics.add().CopyFrom(message.resource_metrics[0])


def another_time(message: Any) -> None:  # noqa: ANN401 - as above
    point_of(message, "hw.power").time_unix_nano += 1_000_000_000


def not_finite(message: Any) -> None:  # noqa: ANN401 - as above
    point_of(message, "hw.power").as_double = nan


def no_identity(message: Any) -> None:  # noqa: ANN401 - as above
    del point_of(message, "gua.gpu.info").attributes[:]


@pytest.mark.parametrize("change", [two_resources, another_time, not_finite, no_identity])
def test_a_request_that_is_not_of_our_encoder_goes_by_its_points(change: Callable[[Any], None]) -> None:
    (odd, good) = spooled(changed(change), encode(tick()))
    inserted: list[str] = []
    assert land_rows([odd, good], lambda parts: inserted.extend(part.table for part in parts)) == [odd]
    assert "card_ticks" in inserted


def test_no_cut_or_changed_byte_of_a_request_is_an_error() -> None:
    raw = encode(tick())
    for at in range(0, len(raw), 41):
        cut, flipped = raw[:at], raw[:at] + bytes((raw[at] ^ 0x80,)) + raw[at + 1 :]
        land_rows(spooled(cut, flipped, raw + raw[:at]), lambda parts: [*parts].clear())


def test_ticks_refused_as_rows_and_damaged_ones_are_left_for_points() -> None:
    good, damaged = spooled(encode(tick()), encode(tick(1)))
    damaged = replace(damaged, blob=damaged.blob[:-5])
    refusal = "Cannot parse input"

    def refuse(_: object) -> None:
        raise QueryError(refusal, code=27)

    assert land_rows([good, damaged], refuse) == [damaged, good]
