"""An embedded store of this version grows to an invented later one when a gua of that opens it, and keeps its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import later_schema
from fakes.fleet import agent_tick, spooled_ticks
from gua.store import statements
from gua.store.catalog import read_catalog
from gua.store.database import Store, open_store
from gua.store.topology import retained
from servers.gua import Gua

pytestmark = pytest.mark.engine

TICKS = [agent_tick("node-1", 1_700_000_000_000 + number * 30_000) for number in range(4)]
LATER_MS = TICKS[-1].ts_ms + 30_000
NUMBERS = "SELECT count() AS ticks, sum(duration_ms) AS ms FROM gua.card_ticks FINAL"


@pytest.fixture
def filled(tmp_path: Path) -> str:
    """Return the address of a store of this version with ticks."""
    address = f"chdb://{tmp_path / 'store'}"
    with open_store(address) as store:
        assert store.land([*spooled_ticks(TICKS)]) == []
    return address


@pytest.fixture
def grown(filled: str, tmp_path: Path) -> Iterator[str]:
    """Return its address; as long as the test runs this is a gua of the later version."""
    directory = later_schema.write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(statements, "schema_directory", lambda: directory)
        patched.setattr(statements, "SCHEMA_VERSION", later_schema.LATER)
        yield filled


def serials(store: Store) -> list[Any]:
    return [row["serial"] for row in store.select("SELECT serial FROM gua.cards ORDER BY host")]


def command(store: Store, sql: str) -> None:
    store._client.command(sql)  # noqa: SLF001 - what is done here stands below the store's own interface


def test_a_column_that_is_new_is_unknown_of_old_rows_and_stored_of_new_ones(grown: str) -> None:
    with open_store(grown) as store:
        assert store.schema.check().lines == []
        assert store.schema.applied()[0] == later_schema.LATER
        assert serials(store) == [None]
        assert store.select(NUMBERS) == [{"ticks": 4, "ms": 120_000}]
        command(store, later_schema.info_point("node-1", LATER_MS, "SN-1"))
        assert serials(store) == ["SN-1"]
        assert store.land([*spooled_ticks([agent_tick("node-2", LATER_MS)])]) == []
        assert serials(store) == ["SN-1", None]


def test_one_that_was_cut_off_is_completed_at_the_next_opening(grown: str) -> None:
    open_store(grown).close()
    with open_store(grown) as store:
        command(
            store,
            f"ALTER TABLE gua.schema_versions DELETE WHERE version = {later_schema.LATER} SETTINGS mutations_sync = 1",
        )
        command(store, "ALTER TABLE gua.card_info DROP COLUMN serial")
        command(store, "DROP VIEW gua.gauge_to_card_info")
    with open_store(grown) as store:
        assert store.schema.check().lines == []
        assert store.schema.applied()[0] == later_schema.LATER
        assert serials(store) == [None]
        assert store.select(NUMBERS) == [{"ticks": 4, "ms": 120_000}]


def test_a_gua_that_is_too_old_for_it_says_so_and_leaves_it_alone(grown: str, tmp_path: Path) -> None:
    open_store(grown).close()
    done = Gua(tmp_path / "home").run("report", "--store", grown)
    assert done.returncode == 3
    assert done.stderr == f"gua: {grown}: the schema is version 2, this gua knows 1: upgrade gua\n"
    with open_store(grown) as store:
        assert store.schema.check().lines == []


def test_how_long_ticks_are_kept_stays_set(filled: str, tmp_path: Path) -> None:
    gua = Gua(tmp_path / "home")

    assert "ticks 2d" in gua.must("schema", "apply", "--store", filled, "--keep-ticks", "2d")

    with open_store(filled) as store:
        store.merge()
        assert store.select("SELECT count() AS ticks FROM gua.card_ticks") == [{"ticks": 0}]
        assert store.schema.check().lines == []
        assert retained(read_catalog(store.select)).ticks_days == 2
    assert "ticks forever" in gua.must("schema", "apply", "--store", filled, "--keep-ticks", "forever")
    refused = gua.run("schema", "apply", "--store", filled, "--keep-raw", "3d")
    assert refused.returncode == 2
    assert "keeps no raw points" in refused.stderr
