"""Opening an embedded store: made, completed, shared, refused. What lands in it is held in tests/sql."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gua.core.errors import TransientError, UnavailableError
from gua.store import statements
from gua.store.database import Store, open_store
from gua.store.engine import engine_version, install_command

pytestmark = pytest.mark.engine


def command(store: Store, sql: str) -> None:
    store._client.command(sql)  # noqa: SLF001 - damage is done below the store's own interface


def insert_version(store: Store, version: int, digest: str) -> None:
    store.insert_json("schema_versions", [{"version": version, "digest": digest}])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a store that has the schema; a test leaves it so."""
    address = f"chdb://{tmp_path_factory.mktemp('made') / 'store'}"
    open_store(address).close()
    return address


@pytest.fixture
def whole(made: str) -> Iterator[str]:
    yield made
    with open_store(made) as store:
        assert store.schema.check().lines == []


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below the folder; the lock is everybody's."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_a_store_is_made_where_there_is_none_whatever_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a new" / "store #1 50% 'q' \\"
    address = f"chdb://{str(path).replace('%', '%25').replace('#', '%23')}"
    with open_store(address) as store:
        assert store.schema.check().lines == []
        assert store.engine() == engine_version()
        assert str(store.dsn).startswith("chdb:///")
    assert json.loads((path / "gua-store.json").read_text()) == {"engine": engine_version()}
    assert (path / "data" / "store").is_dir()
    assert [each.name for each in tmp_path.iterdir()] == ["a new"]
    with open_store(str(store.dsn)) as again:
        assert again.schema.check().lines == []


def test_a_store_that_a_newer_engine_wrote_is_refused_and_not_touched(whole: str) -> None:
    path = Path(whole.removeprefix("chdb://"))
    stamp = (path / "gua-store.json").read_text()
    (path / "gua-store.json").write_text('{"engine": "99.1.2.3"}')
    before = contents(path)
    with pytest.raises(UnavailableError, match=r"written by engine 99\.1\.2\.3"):
        open_store(whole)
    assert contents(path) == before
    (path / "gua-store.json").write_text(stamp)


def test_a_store_that_an_older_engine_wrote_is_stamped_before_it_is_opened(whole: str) -> None:
    stamp = Path(whole.removeprefix("chdb://")) / "gua-store.json"
    stamp.write_text('{"engine": "25.8.2.29"}')
    open_store(whole).close()
    assert json.loads(stamp.read_text()) == {"engine": engine_version()}


def test_a_damaged_stamp_is_refused_and_the_store_left_free_for_others(whole: str) -> None:
    path = Path(whole.removeprefix("chdb://"))
    stamp = (path / "gua-store.json").read_text()
    (path / "gua-store.json").write_text('{"engi')
    before = contents(path)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="is damaged"):
            open_store(whole, patience_seconds=0)
    assert contents(path) == before
    (path / "gua-store.json").write_text(stamp)


def test_a_store_whose_making_was_cut_off_is_completed(whole: str) -> None:
    with open_store(whole) as store:
        command(store, "DROP DATABASE gua_public")
        command(store, "DROP TABLE gua.card_states")
        command(store, "DROP TABLE gua.sum_to_card_ticks")
        command(store, "TRUNCATE TABLE gua.schema_versions")
        assert any("gua.card_states is missing (20_rules/" in line for line in store.schema.check().lines)


def test_other_statements_than_this_versions_are_applied_again(whole: str) -> None:
    with open_store(whole) as store:
        command(store, "CREATE OR REPLACE VIEW gua.card_states AS SELECT 1 AS x")
        insert_version(store, statements.SCHEMA_VERSION, "of another day")
        assert "gua.card_states has another query" in store.schema.check().lines
    with open_store(whole) as store:
        assert store.select("SELECT state FROM gua.card_states", {}) == []


def test_a_schema_that_is_as_it_should_be_is_not_applied_again(whole: str) -> None:
    with open_store(whole) as store:
        before = store.select("SELECT count() FROM gua.schema_versions")
    with open_store(whole) as store:
        assert store.select("SELECT count() FROM gua.schema_versions") == before


def test_a_later_schema_is_refused_and_left_as_it_is(whole: str) -> None:
    later = statements.SCHEMA_VERSION + 1
    with open_store(whole) as store:
        insert_version(store, later, "of a later day")
        assert store.schema.check().lines == [
            f"the schema is version {later}, this gua knows {statements.SCHEMA_VERSION}: upgrade gua"
        ]
        with pytest.raises(UnavailableError, match=f"the schema is version {later}, this gua knows .*: upgrade gua"):
            store.schema.complete()
        with pytest.raises(UnavailableError, match="upgrade gua"):
            store.schema.require()
        command(store, f"ALTER TABLE gua.schema_versions DELETE WHERE version = {later} SETTINGS mutations_sync = 1")


def test_applying_the_schema_again_keeps_the_rows(whole: str) -> None:
    with open_store(whole) as store:
        store.insert_json("settings", [{"key": "held_memory_bytes", "value": 5}])
        store.schema.apply()
        assert [row["value"] for row in store.rows("rules", {}) if row["key"] == "held_memory_bytes"] == [5]
        command(store, "TRUNCATE TABLE gua.settings")


OPEN = """
import sys
from gua.store.database import open_store
with open_store(sys.argv[1]) as store:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_another_process_has_to_wait_and_then_opens_it(whole: str) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", OPEN, whole], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "open\n"
    with pytest.raises(TransientError, match=f"in use by pid {first.pid}"):
        open_store(whole, patience_seconds=0)
    first.communicate()
    open_store(whole).close()


def test_a_killed_process_leaves_a_store_that_opens(whole: str) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", OPEN, whole], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "open\n"
    first.kill()
    first.wait()
    open_store(whole, patience_seconds=0).close()


WITHOUT_ENGINE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "chdb":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from gua.core.errors import UnavailableError
from gua.store.database import open_store
try:
    open_store(sys.argv[1])
except UnavailableError as error:
    print(error)
"""


@pytest.mark.parametrize("use", ["open_store(sys.argv[1]).close()", "engine_version()"])
def test_the_working_directory_of_other_threads_is_left_alone(whole: str, use: str) -> None:
    code = f"""
import sys
from gua.store.engine import engine_version
from gua.store.database import open_store
sys.addaudithook(lambda event, arguments: print(arguments) if event == "os.chdir" else None)
{use}
"""
    done = subprocess.run([sys.executable, "-c", code, whole], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_without_the_engine_one_line_names_the_command_that_installs_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ENGINE, f"chdb://{tmp_path / 'store'}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        f"the embedded store needs an engine that is not installed (chdb): run {install_command()}\n"
    )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("limit", "needed"),
    [
        *((f"-n {allowed}", "up to 192 open files (Too many open files)") for allowed in (20, 60, 120)),
        ("-v 1600000", "3 GiB of address space"),
    ],
)
def test_too_little_room_for_the_engine_is_one_line_and_no_fault(tmp_path: Path, limit: str, needed: str) -> None:
    command = f"ulimit {limit}; exec {sys.executable} -m gua schema apply --store chdb://{tmp_path / 'store'}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert done.stderr.startswith(f"gua: chdb://{tmp_path / 'store'} needs {needed}: allow more, as with ulimit -")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("zone", ["Nowhere/Here", "CET-1CEST", ":/etc/localtime", None])
def test_the_zone_of_the_host_is_nothing_to_the_engine(tmp_path: Path, zone: str | None) -> None:
    code = (
        "import os, sys\nfrom gua.store.database import open_store\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    print(*store.select('SELECT serverTimezone() AS zone')[0].values(), os.environ.get('TZ'))"
    )
    ours = {name: value for name, value in os.environ.items() if name != "TZ"}
    done = subprocess.run(
        [sys.executable, "-c", code, f"chdb://{tmp_path / 'store'}"],
        env=ours if zone is None else {**ours, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"UTC {zone}\n"


def test_a_server_that_is_down_is_one_line_without_the_password() -> None:
    with pytest.raises(TransientError, match=r"cannot reach clickhouse://u@127\.0\.0\.1:1 \(.*\): start the server"):
        open_store("clickhouse://u:s3cr3t@127.0.0.1:1")
    with pytest.raises(TransientError) as refused:
        open_store("clickhouse://u@127.0.0.1:1", password="s3cr3t")  # noqa: S106 - what must not show
    assert "s3cr3t" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_concurrent_queries_share_the_memory_of_one_and_all_are_answered(whole: str) -> None:
    results: list[object] = []

    def run_query(store: Store) -> None:
        # About 190 MB each, of 300: no two at a time, each once it is alone.
        results.append(store.select("SELECT length(groupArray(number)) AS long FROM numbers(10000000)", {})[0]["long"])

    with open_store(whole) as store:
        threads = [threading.Thread(target=run_query, args=(store,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [10_000_000] * 4
