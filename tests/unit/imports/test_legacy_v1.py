"""``gua import gua-sqlite``: what every schema of gpu-usage-audit 1.0 to 1.8 becomes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from fakes.older_database import GENERATIONS, OlderDatabase
from gua.core.errors import UsageError
from gua.core.facts import card_facts
from gua.core.rules import Rules, classify
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import ProcessList, ProcessType, Source
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.legacy_v1.histories import Histories

ORIGIN = Origin(host="nobody", source=Source.IMPORT, interval_ms=1)
MIB = 2**20
BUSY, HELD, EMPTY = 0, 30, 60
"""Seconds after the start of three ticks: a job runs, a job holds the card, nothing is there."""


@contextmanager
def opened(*paths: Path, host: str | None = None, interval_ms: int | None = None) -> Iterator[Histories]:
    histories = Histories(paths, host=host, interval_ms=interval_ms, ignored=DEFAULT_IGNORED)
    try:
        yield histories
    finally:
        histories.close()


def ticks_of(*paths: Path, host: str | None = None, interval_ms: int | None = None) -> list[Tick]:
    with opened(*paths, host=host, interval_ms=interval_ms) as histories:
        return list(histories.ticks(ORIGIN))


def readings(ticks: list[Tick]) -> list[CardReading]:
    return [card for tick in ticks for card in tick.cards]


def states(ticks: list[Tick]) -> list[str]:
    return [str(classify(card_facts(card), Rules()).state) for card in readings(ticks)]


def begun(path: Path, generation: str) -> tuple[OlderDatabase, dict[str, object]]:
    """Return a new database and what its rows have besides the least: their run, where there are runs."""
    database = OlderDatabase(path, generation)
    database.host()
    return database, {} if generation == "1.0.0" else {"run_id": database.run(30)}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_each_schema_gives_the_same_states(tmp_path: Path, generation: str) -> None:
    database, more = begun(tmp_path / "gua.db", generation)
    has_list_state = generation in {"1.4", "1.7"}
    for seconds, util, state in ((BUSY, 90, "active"), (HELD, 3, "idle_held"), (EMPTY, 0, "idle")):
        database.card(seconds, util_pct=util, **more, **({"usage_state": state} if has_list_state else {}))
    for seconds in (BUSY, HELD):
        database.process(seconds, mib=70_000, loginuid_user="alice", **more)

    ticks = ticks_of(database.close())

    assert states(ticks) == ["active", "idle-held", "truly-idle"]
    assert [tick.ts_ms for tick in ticks] == [1772442000250, 1772442030250, 1772442060250]
    assert {(tick.origin.host, tick.origin.interval_ms) for tick in ticks} == {("old-node", 30_000)}
    assert {card.duration_ms for card in readings(ticks)} == {30_000}
    held = readings(ticks)[1]
    assert (held.utilization, held.utilization_coverage_ms) == (0.03, 0)
    assert [(one.pid, one.owner, one.memory_bytes, one.gpu_time_ms) for one in held.processes] == [
        (1, "alice", 70_000 * MIB, 30_000)
    ]


def test_rows_of_all_schemas_stand_in_one_database(tmp_path: Path) -> None:
    database = OlderDatabase(tmp_path / "gua.db", GENERATIONS[0])
    database.host()
    for place, generation in enumerate(GENERATIONS):
        database.upgrade(generation)
        more = {"run_id": database.run(60)} if place else {}
        for seconds in (place * 1000, place * 1000 + 60):
            database.card(seconds, **more)
            database.process(seconds, mib=500, **more)
    ticks = ticks_of(database.close())
    assert len(ticks) == 10
    assert {card.process_list for card in readings(ticks)} == {ProcessList.KNOWN}
    assert set(states(ticks)) == {"idle-held"}


def test_values_of_a_card_are_imported(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.connection.execute("INSERT INTO gpu_device VALUES ('GPU-a', 'NVIDIA H100', 81559, '', '')")
    database.card(0, gpu_index=3, memory_used_mb=600, temperature_c=41, power_w=72, usage_state="idle", **more)
    [card] = readings(ticks_of(database.close()))
    assert (card.index, card.name, card.driver_version) == (3, "NVIDIA H100", "580.82.07")
    assert (card.memory_used_bytes, card.memory_limit_bytes, card.memory_reserved_bytes) == (
        600 * MIB,
        81559 * MIB,
        None,
    )
    assert (card.temperature_celsius, card.power_watts) == (41, 72)


def test_runs_of_different_intervals_cover_what_each_says_and_never_overlap(tmp_path: Path) -> None:
    database, _ = begun(tmp_path / "gua.db", "1.0.3")
    quick, slow = database.run(0.5), database.run(60)
    for seconds, run in ((0, quick), (0.5, quick), (1, quick), (11, slow), (71, slow), (171, slow)):
        database.card(seconds, run_id=run)
    ticks = ticks_of(database.close())
    assert [card.duration_ms for card in readings(ticks)] == [500, 500, 500, 10_000, 60_000, 60_000]
    assert [tick.origin.interval_ms for tick in ticks] == [500, 500, 500, 60_000, 60_000, 60_000]


def test_the_interval_of_rows_without_a_run_is_their_median_distance_or_given(tmp_path: Path) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.0.0")
    for seconds in (0, 15.01, 29.99, 45, 200):
        database.card(seconds)
    path = database.close()
    assert [card.duration_ms for card in readings(ticks_of(path))] == [15_000, 15_000, 14_980, 15_000, 15_000]
    assert {card.duration_ms for card in readings(ticks_of(path, interval_ms=10_000))} == {10_000}


def test_one_row_without_a_run_requires_interval(tmp_path: Path) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.0.0")
    database.card(0)
    with pytest.raises(UsageError, match=r"gua\.db: .*--interval"):
        ticks_of(database.close())


def test_processes_that_stay_have_the_time_of_each_tick(tmp_path: Path) -> None:
    """Ten seconds after a tick comes one of ten seconds: the same processes share no more than that."""
    database, more = begun(tmp_path / "gua.db", "1.7")
    for seconds in (0, 30, 40):
        database.card(seconds, util_pct=90, usage_state="active", **more)
        for pid in (1, 2):
            database.process(seconds, pid=pid, **more)
    parts = [[process.gpu_time_ms for process in card.processes] for card in readings(ticks_of(database.close()))]
    assert parts == [[15_000, 15_000], [15_000, 15_000], [5_000, 5_000]]


def test_unknown_memory_of_a_process_is_not_zero(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.4")
    database.card(0, usage_state="idle_held", **more)
    database.process(0, mib=None, process_type="compute", **more)
    ticks = ticks_of(database.close())
    assert readings(ticks)[0].processes[0].memory_bytes is None
    assert states(ticks) == ["idle-held"]


def test_unknown_utilization_is_not_zero(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.0.3")
    database.connection.executescript(
        "DROP TABLE gpu_sample; CREATE TABLE gpu_sample (ts, gpu_uuid, util_pct, run_id);"
    )
    database.card(0, util_pct=None, **more)
    database.process(0, mib=8_000, **more)
    ticks = ticks_of(database.close())
    assert (readings(ticks)[0].utilization, readings(ticks)[0].utilization_coverage_ms) == (None, None)
    assert states(ticks) == ["unknown"]


def test_from_1_4_a_row_shows_that_its_process_list_could_not_be_read(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.4")
    database.card(0, usage_state="idle", **more)
    database.card(30, usage_state=None, **more)
    ticks = ticks_of(database.close())
    assert [card.process_list for card in readings(ticks)] == [ProcessList.KNOWN, ProcessList.FAILED]
    assert states(ticks) == ["truly-idle", "unknown"]


def test_before_1_4_lists_are_believed_where_they_showed_a_process_once(tmp_path: Path) -> None:
    database, _ = begun(tmp_path / "gua.db", "1.1")
    silent, recording = database.run(30), database.run(30)
    for seconds, run in ((0, silent), (30, silent), (60, recording), (90, recording)):
        database.card(seconds, run_id=run)
        database.card(seconds, "GPU-b", run_id=run)
    database.process(90, run_id=recording)
    with opened(database.close()) as histories:
        ticks = list(histories.ticks(ORIGIN))
        assert histories.counts.lists_unknown == 4
    assert [card.process_list for card in readings(ticks)] == [ProcessList.ABSENT] * 4 + [ProcessList.KNOWN] * 4
    assert states(ticks) == ["unknown"] * 4 + ["truly-idle"] * 4


def test_xorg_is_ignored_and_graphics_programs_are_not(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    names = ((1, "Xorg"), (2, "blender"), (3, "nvidia-cuda-mps"))
    database.card(0, usage_state="idle", **more)
    for pid, name in names:
        database.process(0, pid=pid, mib=128, process_name=name, process_type="graphics", **more)
    [card] = readings(ticks_of(database.close()))
    assert [process.type for process in card.processes] == [
        ProcessType.IGNORED,
        ProcessType.GRAPHICS,
        ProcessType.IGNORED,
    ]


def test_the_user_that_a_process_runs_as_comes_before_the_one_who_logged_in(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.card(0, usage_state="active", **more)
    for pid, login, user in ((1, "alice", "svc"), (2, "bob", None), (3, None, None), (4, "a\x1b[31m\u202eb", None)):
        database.process(0, pid=pid, loginuid_user=login, owner_user=user, **more)
    [card] = readings(ticks_of(database.close()))
    assert [process.owner for process in card.processes] == ["svc", "bob", None, "a[31mb"]


def test_a_process_listed_twice_is_one_with_the_memory_of_both(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.1")
    database.card(0, **more)
    database.process(0, mib=60, **more)
    database.process(0, mib=50, **more)
    [card] = readings(ticks_of(database.close()))
    assert [process.memory_bytes for process in card.processes] == [110 * MIB]


def test_processes_of_another_run_or_moment_are_left_out_as_its_own_report_does(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.1")
    other = database.run(30)
    database.card(0, **more)
    database.process(0, pid=1, **more)
    database.process(0, pid=2, run_id=other)
    database.process(0.000001, pid=3, **more)
    with opened(database.close()) as histories:
        [card] = readings(list(histories.ticks(ORIGIN)))
        assert histories.counts.processes == 1
    assert [process.pid for process in card.processes] == [1]


def test_two_daemons_in_one_millisecond_are_two_ticks(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.1")
    other = database.run(30)
    database.card(0.0001, **more)
    database.card(0.0004, run_id=other)
    ticks = ticks_of(database.close())
    assert [card.duration_ms for card in readings(ticks)] == [30_000, 1]
    assert [after.ts_ms - before.ts_ms for before, after in pairwise(ticks)] == [1]


def test_a_copy_of_a_database_adds_nothing(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    for seconds in (0, 30, 60):
        database.card(seconds, usage_state="idle", **more)
    path = database.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    assert ticks_of(path, copy) == ticks_of(path)


def test_hosts_that_recorded_one_after_the_other_keep_their_rows(tmp_path: Path) -> None:
    database = OlderDatabase(tmp_path / "gua.db", "1.7")
    database.host("before", "2026-03-01", "2026-03-02")
    database.host("after", "2026-03-02T10", "2026-03-03")
    database.connection.execute("UPDATE host SET first_seen = '2026-03-02T10:00:00+00:00' WHERE hostname = 'after'")
    run = database.run(30)
    for seconds in (0, 3_599, 3_601):
        database.card(seconds, run_id=run, usage_state="idle")
    path = database.close()
    assert [tick.origin.host for tick in ticks_of(path)] == ["before", "before", "after"]
    assert {tick.origin.host for tick in ticks_of(path, host="mine")} == {"mine"}


def test_several_hosts_at_the_same_time_require_host(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.host("renamed", "2026-02-01", "2026-02-02")
    database.card(0, **more)
    with pytest.raises(UsageError, match="--host"):
        ticks_of(database.close())


def test_nothing_is_written_beside_a_closed_database(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.card(0, usage_state="idle", **more)
    path = database.close()
    before = path.read_bytes()
    assert len(ticks_of(path)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["gua.db"]
    assert path.read_bytes() == before


def test_a_daemon_may_go_on_writing(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.card(0, usage_state="idle", **more)
    with opened(database.path) as histories:
        database.card(30, usage_state="idle", **more)
        assert [tick.ts_ms for tick in histories.ticks(ORIGIN)] == [1772442000250]
    assert len(ticks_of(database.path)) == 2
    assert database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    database.close()


def test_a_database_without_its_indexes_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    database.connection.executescript("DROP INDEX idx_gpu_sample_uuid_ts; DROP INDEX idx_proc_sample_uuid_ts;")
    for seconds in (60, 0, 30):
        database.card(seconds, usage_state="idle", **more)
        database.process(seconds, pid=int(seconds) + 1, **more)
    ticks = ticks_of(database.close())
    assert [[process.pid for process in card.processes] for card in readings(ticks)] == [[1], [31], [61]]


def test_a_rollback_journal_database_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "gua.db"
    database = OlderDatabase(path, "1.7", wal=False)
    run = database.run(30)
    database.card(0, run_id=run, usage_state="idle")
    database.close()
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [tick.origin.host for tick in ticks_of(path)] == ["imported"]


def test_processes_seen_are_those_of_a_row_and_the_row_before(tmp_path: Path) -> None:
    database, more = begun(tmp_path / "gua.db", "1.7")
    for seconds in (0, 30, 60, 90, 200, 260):
        database.card(seconds, usage_state="idle", **more)
    database.process(30, mib=1, **more)
    database.card(230, usage_state=None, **more)
    ticks = ticks_of(database.close())
    assert [card.processes_seen for card in readings(ticks)] == [None, 1, 1, 0, None, None, None]
