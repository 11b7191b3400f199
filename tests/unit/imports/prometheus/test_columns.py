"""Ticks of an import land in columns as they land as ticks; a block has the bytes of ClickHouse's format."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.every_tick import tables_of
from gua.app.prometheus_rows import table_lines, ticks_of
from gua.core.words import Mig
from gua.imports.prometheus.card_ticks import CardTicks
from gua.imports.prometheus.cards import KUBERNETES, SLURM, Attribution, ScrapedCard
from gua.imports.prometheus.exporters import EXPORTERS
from gua.imports.prometheus.series import Numbers, Scrapes
from gua.imports.prometheus.survey import Inventory
from gua.store.database import open_store
from gua.store.native import block, size
from gua.store.tick_rows import TickColumn, TickRows

DAY_MS = 86_400_000
COUNT = 6
HOSTILE = "o'hara \"\\' \t [null,{}] 😀%s"
POD = Attribution(KUBERNETES, f"ml/{HOSTILE}", HOSTILE, pod_name=HOSTILE, pod_namespace="ml")
OTHER = Attribution(KUBERNETES, "ml/other", "ml", pod_uid="u", pod_name="other", pod_namespace="ml")
JOB = Attribution(SLURM, "77", "1000", uid=1000)


def ticks(card: ScrapedCard, scrapes: list[Scrapes], *, is_mapped: bool, **columns: Numbers) -> CardTicks:
    end_ms = (time.time_ns() // 1_000_000 - 2 * DAY_MS) // DAY_MS * DAY_MS
    return CardTicks(
        card=card,
        exporter=EXPORTERS[1],
        interval_ms=30_000,
        step_ms=0,
        full=1,
        is_mapped=is_mapped,
        ts_ms=[end_ms + (place - 3) * 30_000 for place in range(COUNT)],
        duration_ms=[30_000, 29_998, 30_000, 7, 30_000, 29_998],
        columns={"utilization": [0, 10_000, None, 5, 999, 1_000], **columns},
        scrapes=scrapes,
    )


def every_kind() -> list[CardTicks]:
    """Return ticks of cards with all forms of allocations, around midnight."""
    alone, none, both, job = Scrapes({POD: 1}), Scrapes({None: 1}), Scrapes({POD: 1, OTHER: 1}), Scrapes({JOB: 1})
    whole = ScrapedCard(uuid="GPU-a", host=HOSTILE, gpu_index=0, name="H100", model="H100", driver_version="550.1")
    instance = ScrapedCard(
        uuid="MIG-1", host="n1", name="H100 MIG 3g", mig=Mig.INSTANCE, parent="GPU-b", slices=3, total=7
    )
    used: Numbers = [2**50 - 1, None, 0, 1, 2, 3]
    return [
        ticks(whole, [alone, none, both, alone, none, both], is_mapped=True, memory_used_bytes=used),
        ticks(instance, [job] * COUNT, is_mapped=False, temperature_celsius=[-5, 30, None, 40, 41, 42]),
        ticks(whole._replace(uuid="GPU-c", host="n1"), [none] * COUNT, is_mapped=True, power_mw=[None] * COUNT),
        ticks(whole._replace(uuid="GPU-d", host="n2"), [none] * COUNT, is_mapped=False),
    ]


@pytest.mark.engine
def test_ticks_land_in_columns_as_they_land_as_ticks(tmp_path: Path, made_store: Callable[[Path], str]) -> None:
    made, found = every_kind(), Inventory()
    with open_store(made_store(tmp_path / "columns")) as store:
        store.land_lines(table_lines(made, found))
        in_columns = tables_of(store)
    rows = TickRows(time.time_ns() // 1_000_000)
    assert all(map(rows.add, ticks_of(made, found)))
    with open_store(made_store(tmp_path / "ticks")) as store:
        store.land_lines(rows.parts())
        as_ticks = tables_of(store)
    assert [len(in_columns[table]) for table in ("card_ticks", "allocation_ticks")] == [24, 12]
    for table, expected in as_ticks.items():
        assert in_columns[table] == expected, table


@pytest.mark.engine
def test_ticks_without_an_allocation_source_land_too(tmp_path: Path, made_store: Callable[[Path], str]) -> None:
    with open_store(made_store(tmp_path / "store")) as store:
        store.land_lines(table_lines(every_kind()[3:], Inventory()))
        found = tables_of(store)
    assert [len(found[one]) for one in ("card_ticks", "allocation_ticks", "allocation_source_ticks")] == [6, 0, 0]
    assert {row["allocation"] for row in found["card_ticks"]} == {None}


def test_a_block_has_columns_with_names_types_and_values() -> None:
    columns = [TickColumn("a", "Int64", "a"), TickColumn("b", "Nullable(String)", "b")]
    values = [[1, -1], ["x", None]]
    first = b"\x01a\x05Int64\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
    second = b"\x01b\x10Nullable(String)\x00\x01\x01x\x00"
    assert block(columns, values, 2) == b"\x02\x02" + first + second
    assert block(columns, [[7, 7], None], 2) == block(columns, [7, [None, None]], 2)


def test_numbers_of_bytes_are_written_in_sevens_of_bits() -> None:
    assert [size(one) for one in (0, 127, 128, 300)] == [b"\x00", b"\x7f", b"\x80\x01", b"\xac\x02"]
