"""Databases that ``gua import gua-sqlite`` refuses: one clear line each, and nothing of them is delivered."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.older_database import OlderDatabase
from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.core.tick import Origin
from gua.core.words import Source
from gua.imports.legacy_v1 import contents as legacy_v1_database
from gua.imports.legacy_v1.histories import Histories

ORIGIN = Origin(host="nobody", source=Source.IMPORT, interval_ms=1)


def refused(path: Path) -> tuple[type[GuaError], str]:
    with pytest.raises(GuaError) as caught:
        Histories([path], host=None, interval_ms=None, ignored=())
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return type(caught.value), text.replace(str(path), "FILE")


@pytest.fixture
def database(tmp_path: Path) -> OlderDatabase:
    made = OlderDatabase(tmp_path / "gua.db", "1.7")
    made.host()
    run = made.run(30)
    for tick in range(200):
        made.card(tick * 30, run_id=run, usage_state="idle_held")
        made.process(tick * 30, run_id=run, mib=800, process_name="python3")
    return made


def test_no_such_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "gua.db") == (
        UsageError,
        "FILE does not exist: give the path of a database, as in ~/.gua/gua.db",
    )


def test_a_directory(tmp_path: Path) -> None:
    assert refused(tmp_path)[0] is UsageError


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"timestamp, uuid, memory.used [MiB]\n", "is not a SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "is not a SQLite database, or encrypted"),
    ],
)
def test_what_is_no_database(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "gua.db"
    path.write_bytes(content)
    kind, text = refused(path)
    assert kind is DataError
    assert text.startswith(f"FILE {why}")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE places (url)")
    assert refused(path) == (
        DataError,
        "FILE has no table gpu_sample: give the database of gpu-usage-audit 1.0 to 1.8",
    )


def test_no_samples(tmp_path: Path) -> None:
    path = OlderDatabase(tmp_path / "gua.db", "1.7").close()
    assert refused(path) == (DataError, "FILE holds no samples: there is nothing to import")


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("PRAGMA user_version = 9", "user_version 9"),
        ("ALTER TABLE gpu_sample ADD COLUMN mig_uuid TEXT", "column gpu_sample.mig_uuid"),
        ("ALTER TABLE proc_sample ADD COLUMN container TEXT", "column proc_sample.container"),
    ],
)
def test_a_newer_schema(database: OlderDatabase, sql: str, what: str) -> None:
    database.connection.execute(sql)
    kind, text = refused(database.close())
    assert kind is DataError
    assert text == f"FILE has the {what}, which no version up to 1.8 made: import it with a newer gua"


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE gpu_sample SET util_pct = 101 WHERE rowid = 3", "gpu_sample.util_pct is 101 in row 3"),
        ("UPDATE gpu_sample SET util_pct = 'many' WHERE rowid = 3", "gpu_sample.util_pct is 'many' in row 3"),
        ("UPDATE gpu_sample SET ts = '2026-13-02T09:00:00+00:00' WHERE rowid = 5", "gpu_sample.ts is '2026-13-02"),
        ("UPDATE gpu_sample SET ts = '2026-02-30T09:00:00+00:00' WHERE rowid = 5", "gpu_sample.ts is '2026-02-30"),
        ("UPDATE gpu_sample SET ts = '2026-03-02T24:00:00+00:00' WHERE rowid = 5", "gpu_sample.ts is '2026-03-02T24"),
        (
            "UPDATE gpu_sample SET ts = '2026-03-02T09:00:00.1x+00:00' WHERE rowid = 5",
            "gpu_sample.ts is '2026-03-02T09",
        ),
        ("UPDATE gpu_sample SET ts = '2026-03-02T09:00:00+09:00' WHERE rowid = 5", "gpu_sample.ts is '2026-03-02"),
        ("UPDATE gpu_sample SET gpu_uuid = ' ' WHERE rowid = 5", "gpu_sample.gpu_uuid is ' ' in row 5"),
        ("UPDATE proc_sample SET mem_used_mb = -1 WHERE rowid = 7", "proc_sample.mem_used_mb is -1 in row 7"),
        ("UPDATE proc_sample SET pid = 5000000000 WHERE rowid = 7", "proc_sample.pid is 5000000000 in row 7"),
        ("UPDATE proc_sample SET process_type = 'tensor' WHERE rowid = 7", "proc_sample.process_type is 'tensor'"),
        ("UPDATE daemon_run SET interval_seconds = 0", "the interval of run 1 is 0.0 seconds"),
    ],
)
def test_values_that_no_version_wrote(database: OlderDatabase, sql: str, what: str) -> None:
    database.connection.execute(sql)
    kind, text = refused(database.close())
    assert kind is DataError
    assert what in text
    assert "nothing was imported" in text


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.99])
def test_a_database_that_is_cut_short(database: OlderDatabase, kept: float) -> None:
    path = database.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    kind, text = refused(path)
    assert kind is DataError
    assert "is cut short" in text
    assert ".recover" in text


@pytest.mark.parametrize("page", [3, 8, 12])
def test_a_page_of_nonsense(database: OlderDatabase, page: int) -> None:
    path = database.close()
    content = bytearray(path.read_bytes())
    content[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    kind, text = refused(path)
    assert kind is DataError
    assert "FILE is damaged" in text


def test_an_index_that_lacks_rows(database: OlderDatabase) -> None:
    path = database.close()
    index = "name = 'idx_gpu_sample_uuid_ts'"
    changes = (
        ("CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE " + index, "DELETE FROM sqlite_schema WHERE " + index),
        ("INSERT INTO gpu_sample SELECT * FROM gpu_sample LIMIT 3",),
        ("INSERT INTO sqlite_schema SELECT * FROM kept",),
    )
    for statements in changes:  # each as a connection of its own: a schema is read once
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
        connection.close()
    kind, text = refused(path)
    assert kind is DataError
    assert "FILE is damaged: row 201 missing from index" in text


def test_bytes_that_changed_anywhere_end_in_one_line_or_in_ticks(database: OlderDatabase) -> None:
    path = database.close()
    whole = path.read_bytes()
    seeded = random.Random(5)  # noqa: S311 - the same changes every time
    outcomes, messages = set(), []
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(seeded.choice((1, 3, 20))):
            content[seeded.randrange(len(content))] = seeded.randrange(256)
        path.write_bytes(content)
        try:
            histories = Histories([path], host=None, interval_ms=None, ignored=())
        except GuaError as error:
            messages.append(str(error))
            outcomes.add(type(error))
        else:
            assert len(list(histories.ticks(ORIGIN))) == 200
            outcomes.add(Histories)
            histories.close()
    assert outcomes == {DataError, Histories}
    assert "\n" not in "".join(messages)


def test_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_v1_database, "_PATIENCE_SECONDS", 0.05)
    database = OlderDatabase(tmp_path / "gua.db", "1.7", wal=False)
    database.card(0)
    database.connection.execute("BEGIN EXCLUSIVE")
    assert refused(database.path) == (
        UnavailableError,
        "FILE is locked by another program: import it when that is done, or import a copy",
    )


@pytest.mark.parametrize(
    "disturb",
    [
        lambda database: database.card(9_000, run_id=1),
        lambda database: (database.card(9_000, run_id=1), database.connection.execute("PRAGMA wal_checkpoint")),
    ],
    ids=["into its log", "into the file"],
)
def test_a_daemon_that_starts_while_it_is_read(
    database: OlderDatabase, disturb: Callable[[OlderDatabase], object]
) -> None:
    path = database.close()
    histories = Histories([path], host=None, interval_ms=None, ignored=())
    again = OlderDatabase.reopened(path)
    disturb(again)
    with pytest.raises(UnavailableError, match="was written to while it was read: import it again"):
        histories._databases[0][0].value("SELECT 1")  # noqa: SLF001 - the next read, whenever that is
    histories.close()
    again.close()
