"""Ticks as rows are what the views make of their points: the same ticks by both ways, and which go by points alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

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
from gua.store.database import Store, open_store
from gua.store.requests import batch
from gua.store.tick_rows import TABLES, TickRows


def as_points(store: Store, ticks: Sequence[Tick]) -> None:
    raws = [encode(one) for one in ticks]
    spooled = [SpooledTick(id=n, ts_ms=0, raw_length=len(raw), blob=compress(raw)) for n, raw in enumerate(raws, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "MOST_BYTES", 0)
        assert store.land(spooled) == []


def as_rows(store: Store, ticks: Sequence[Tick]) -> None:
    rows = TickRows(NOW_MS)
    assert all(map(rows.add, ticks))
    assert rows.ticks == len(ticks)
    store.land_rows(rows)


def stored(address: str, land: Callable[[Store, Sequence[Tick]], None], ticks: Sequence[Tick]) -> dict[str, list[Any]]:
    with open_store(address) as store:
        land(store, ticks)
        return tables_of(store)


@pytest.mark.engine
def test_ticks_land_as_rows_as_they_land_as_points(tmp_path: Path, made_store: Callable[[Path], str]) -> None:
    ticks = every_kind()
    points = stored(made_store(tmp_path / "points"), as_points, ticks)
    rows = stored(made_store(tmp_path / "rows"), as_rows, ticks)
    assert not rows["refused_points"]
    for table, of_points in points.items():
        assert rows[table] == of_points, table
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
def test_a_tick_that_rows_cannot_tell_goes_by_its_points(odd: Tick) -> None:
    rows = TickRows(NOW_MS)
    assert not rows.add(odd)
    assert (rows.ticks, rows.characters, [*rows.parts()]) == (0, 0, [])
    assert rows.add(tick())
