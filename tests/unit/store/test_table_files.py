"""An embedded store stays small: what merges replaced is removed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gua.core.ports import SpooledTick
from gua.otlp.encode import encode
from gua.sim.host import Scenario, simulate
from gua.state.compression import compress
from gua.store import table_files
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine
ROUNDS = 12
TABLES = 4  # card_ticks, process_ticks, card_info, card_seen


def spooled() -> list[SpooledTick]:
    ticks = simulate(Scenario(gpus=2, ticks=ROUNDS, interval_ms=60_000))
    raws = [(tick.ts_ms, encode(tick)) for tick in ticks]
    return [
        SpooledTick(id=number, ts_ms=ts_ms, raw_length=len(raw), blob=compress(raw))
        for number, (ts_ms, raw) in enumerate(raws)
    ]


def cards(store: Store) -> list[object]:
    return [dict(row) for row in store.select("SELECT * FROM gua.card_hours ORDER BY ALL", {})]


def part_directories(path: Path) -> int:
    return sum(1 for _ in (path / "data" / "store").rglob("checksums.txt"))


def test_parts_that_a_merge_replaced_leave_the_disk_and_no_row_goes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(f"chdb://{path}") as store:
        for tick in spooled():
            assert not store.land([tick])
        before = cards(store)
        assert part_directories(path) >= TABLES * ROUNDS
    assert part_directories(path) <= TABLES * table_files.MOST_PARTS
    with open_store(f"chdb://{path}") as store:
        assert cards(store) == before


def test_a_directory_that_is_no_part_or_is_not_covered_stays(tmp_path: Path) -> None:
    table = tmp_path / "data" / "store" / "abc"
    active = table / "20260301_1_9_2"
    stays = ("20260301_1_9_3", "20260301_1_12_3", "20260301_8_10_1", "20260302_3_3_0", "detached", "format_version.txt")
    for name in ("20260301_3_3_0", *stays):
        (table / name).mkdir(parents=True)
    active.mkdir()

    class Engine:
        def query(self, _sql: str) -> object:
            return type("Result", (), {"result_rows": [(f"{active}/",)]})()

    replaced = table_files.replaced_parts(Engine(), tmp_path / "data")
    assert [path.name for path in replaced] == ["20260301_3_3_0"]
    table_files.remove_parts(replaced)
    assert {path.name for path in table.iterdir()} == {active.name, *stays}
