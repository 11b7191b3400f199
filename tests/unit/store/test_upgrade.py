"""An embedded store of each released schema version, opened by this gua: it grows by itself and keeps every tick."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gua.core.untrusted import LAST_MS
from gua.report.hours import choose_hours, tick_hours
from gua.report.sections.right_size import CARD_SIZES
from gua.report.sections.slow_cards import SLOW_CARDS_VIEW
from gua.store import statements
from gua.store.database import open_store
from servers.gua import Gua, differences
from servers.released import VERSIONS

pytestmark = pytest.mark.engine

TESTS = Path(__file__).resolve().parents[2]
# What the way between does not change is held for the longest and the shortest.
ENDS = pytest.mark.parametrize("imported", [VERSIONS[0], VERSIONS[-1]], indirect=True)
RECORDINGS = sorted((TESTS / "fixtures").rglob("*_dose_response.jsonl"))
# A gua of that version: this one, with the scope and the statements of then.
IMPORT_AS_VERSION = """
import sys
sys.path.insert(0, sys.argv[1])
from gua.core import metrics
metrics.SCOPE = "gpu_usage_audit"
from gua.cli.main import main
from gua.store import topology, statements, tick_rows, upgrade
from gua.store.statements import Statement, _created
from servers.released import released
version = int(sys.argv[2])
then = [Statement(name=name, sql=sql, creates=_created(sql)) for name, sql in released(version, "embedded")]
topology.load = lambda tokens: list(then)
statements.SCHEMA_VERSION = version
tick_rows.TickRows.add = lambda *_: False  # as points, whose views are of then
upgrade.AFTER_UPGRADE = {since: after for since, after in upgrade.AFTER_UPGRADE.items() if since <= version}
sys.exit(main(["import", "nvidia-smi", *sys.argv[4:], "--store", sys.argv[3]]))
"""


@pytest.fixture(scope="module", params=VERSIONS)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a store into which a gua of a released version has imported the recordings but one."""
    folder = tmp_path_factory.mktemp("imported") / "old"
    arguments = [str(TESTS), str(request.param), f"chdb://{folder}", *map(str, RECORDINGS[1:])]
    subprocess.run([sys.executable, "-c", IMPORT_AS_VERSION, *arguments], check=True, capture_output=True)
    return folder


@pytest.fixture
def old(imported: Path, tmp_path: Path) -> str:
    """Return the address of a store like it, for one test."""
    shutil.copytree(imported, tmp_path / "old", symlinks=True)
    return f"chdb://{tmp_path / 'old'}"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reports of a new store with the same recordings, and with all of them."""
    folder = tmp_path_factory.mktemp("expected")
    gua, fresh = Gua(folder / "home"), f"chdb://{folder / 'fresh'}"
    gua.must("import", "nvidia-smi", *RECORDINGS[1:], "--store", fresh)
    some = gua.report(fresh)
    assert some["headline"]["card_ticks"] == 640
    gua.must("import", "nvidia-smi", RECORDINGS[0], "--store", fresh)
    return some, gua.report(fresh)


def test_it_grows_when_it_is_opened_and_reports_as_a_new_one(
    old: str, expected: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    gua = Gua(tmp_path / "home")
    some, every = expected
    assert not [*differences(gua.report(old), some)]
    # What it holds already lands no second time.
    gua.must("import", "nvidia-smi", *RECORDINGS, "--store", old)
    assert not [*differences(gua.report(old), every)]


@ENDS
def test_one_that_was_cut_off_is_completed_at_the_next_opening(old: str) -> None:
    before = rows(old)
    with open_store(old) as store:
        client = store._client  # noqa: SLF001 - the damage is done below the store's own interface
        client.command(
            f"ALTER TABLE gua.schema_versions DELETE WHERE version = {statements.SCHEMA_VERSION} "
            "SETTINGS mutations_sync = 1"
        )
        client.command("DROP VIEW gua.card_states")
        client.command("DROP VIEW gua.sum_to_card_ticks")
    with open_store(old) as store:
        assert store.schema.check().lines == []
        assert store.schema.applied()[0] == statements.SCHEMA_VERSION
        packed = store.select(
            "SELECT name, compression_codec AS codec FROM system.columns "
            "WHERE table = 'host_hours' AND name IN ('process_runs.start_ms', 'process_runs.pid') ORDER BY name"
        )
        assert [row["codec"] for row in packed] == ["CODEC(ZSTD(6))", "CODEC(Delta(8), ZSTD(6))"]
        stepped = store.select(
            "SELECT name, compression_codec AS codec FROM system.columns "
            "WHERE table = 'card_ticks' AND name IN ('idle_energy_mj', 'idle_time_ms') ORDER BY name"
        )
        assert [row["codec"].replace("(4)", "").replace("(8)", "") for row in stepped] == ["CODEC(GCD, ZSTD(1))"] * 2
    assert rows(old) == before > 0


@pytest.mark.parametrize("imported", [VERSIONS[-1]], indirect=True)
def test_why_cards_were_slow_is_not_known_of_hours_that_were_counted_before_it_was_kept(
    old: str, tmp_path: Path
) -> None:
    columns = "SELECT name FROM system.columns WHERE table = 'host_hours' AND match(name, '^(sizes|health)[.]')"
    with open_store(old) as store:
        assert store.count_hours() > 0
        client = store._client  # noqa: SLF001 - as above
        for row in store.select(columns):
            client.command(f"ALTER TABLE gua.host_hours DROP COLUMN `{row['name']}`")
        client.command(
            f"ALTER TABLE gua.schema_versions DELETE WHERE version = {statements.SCHEMA_VERSION} "
            "SETTINGS mutations_sync = 1"
        )
        for table in ("card_ticks", "process_ticks"):
            client.command(f"TRUNCATE TABLE gua.{table}")
        store.insert_json("settings", [{"key": "keep_ticks_days", "value": 30}])
    with open_store(old) as store:
        assert len(store.select(columns)) == 7 + 10
        bounds = {"since_ms": 0, "until_ms": LAST_MS, "hosts": []}
        read = {**bounds, "tick_hours": tick_hours(choose_hours(store, bounds)), "use_hourly": 1}
        cards = SLOW_CARDS_VIEW.rows(store, read)
        sizes = CARD_SIZES.rows(store, read)
    assert sum(card.observed_ms for card in cards) > 0
    assert {card[5:] for card in cards} == {(0, 0, 0, 0, 0, None, None, None, None)}
    assert sizes == []
    said = Gua(tmp_path / "home").must("report", "--section", "slow-cards", "--store", old, "--since", "3650d")
    assert "Not known: no tick tells why clocks were held down, or of errors." in said


def test_how_long_ticks_are_kept_stays_set(tmp_path: Path) -> None:
    gua = Gua(tmp_path / "home")
    address = f"chdb://{tmp_path / 'store'}"
    gua.must("import", "nvidia-smi", RECORDINGS[0], "--store", address)
    assert rows(address) > 0

    assert "ticks 2d" in gua.must("schema", "apply", "--store", address, "--keep-ticks", "2d")

    assert rows(address) == 0
    with open_store(address) as store:
        assert store.schema.check().lines == []
        assert store.schema.retention().ticks_days == 2
    assert "ticks forever" in gua.must("schema", "apply", "--store", address, "--keep-ticks", "forever")
    refused = gua.run("schema", "apply", "--store", address, "--keep-raw", "3d")
    assert refused.returncode == 2
    assert "keeps no raw points" in refused.stderr


def rows(address: str) -> int:
    """Return how many card ticks a store holds."""
    with open_store(address) as store:
        store.merge()
        found = store.select("SELECT count() AS ticks FROM gua.card_ticks FINAL")
    return int(found[0]["ticks"])
