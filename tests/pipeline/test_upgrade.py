"""Applying the schema to a server: a later version's adds its columns, no row is lost, and none counts twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes import later_schema
from gua.store.statements import SCHEMA_VERSION
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.process import poll

DEMO = ("demo", "--seed", "7", "--ticks", "60", "--gpus", "4")
LONGER = ("demo", "--seed", "7", "--ticks", "1000", "--gpus", "4")
TICKS = "SELECT count(), sum(duration_ms), sum(gpu_time_ms) FROM gua.card_ticks FINAL"
SERIALS = "SELECT host, serial FROM gua.cards ORDER BY host"


@pytest.fixture
def later(tmp_path: Path) -> Gua:
    """Return a gua of an invented later version."""
    return Gua(tmp_path / "later", command=later_schema.command(later_schema.write(tmp_path / "of_later")))


def land(gua: Gua, collector: Collector, *demo: str) -> None:
    gua.must(*demo, "--endpoint", collector.endpoint)
    collector.wait_until_delivered()


@pytest.mark.usefixtures("applied")
def test_a_column_that_is_new_is_unknown_of_old_rows_and_stored_of_new_ones(
    gua: Gua, later: Gua, clickhouse: ClickHouseServer, collector: Collector, reported: Callable[..., dict[str, Any]]
) -> None:
    land(gua, collector, *DEMO)
    before = clickhouse.query(TICKS)
    (host,) = clickhouse.query("SELECT DISTINCT host FROM gua.cards").splitlines()

    printed = later.must("schema", "apply", "--store", clickhouse.dsn())

    assert printed.startswith(f"schema version {later_schema.LATER} (was {SCHEMA_VERSION}): ")
    later.must("schema", "check", "--store", clickhouse.dsn())
    assert clickhouse.query(TICKS) == before
    assert set(clickhouse.query(SERIALS).splitlines()) == {f"{host}\t\\N"}
    # Ticks of before land once, also from agents that do not know the new column.
    land(gua, collector, *DEMO)
    assert clickhouse.query(TICKS) == before
    assert not [*differences(later.report(clickhouse.dsn("gua_reader"), *SUMS), reported(DEMO, options=SUMS))]
    clickhouse.query(later_schema.info_point("node-9", int(time.time() * 1000), "SN-9"), user="gua_writer")
    assert clickhouse.query("SELECT serial FROM gua.card_info WHERE host = 'node-9'") == "SN-9"


@pytest.mark.usefixtures("applied")
def test_what_lands_meanwhile_counts_once(
    gua: Gua, later: Gua, clickhouse: ClickHouseServer, collector: Collector, reported: Callable[..., dict[str, Any]]
) -> None:
    sending = threading.Thread(target=land, args=(gua, collector, *LONGER))
    sending.start()
    for _ in range(2):
        later.must("schema", "apply", "--store", clickhouse.dsn())
    sending.join()

    assert not [*differences(later.report(clickhouse.dsn("gua_reader"), *SUMS), reported(LONGER, options=SUMS))]


@pytest.mark.usefixtures("applied")
def test_a_server_counts_what_is_due_by_itself(clickhouse: ClickHouseServer) -> None:
    hour = "toDateTime64('2026-03-01 12:30:00', 3, 'UTC')"
    clickhouse.query(
        "INSERT INTO gua.card_ticks (host, gpu, ts, duration_ms, gpu_time_ms, utilization, memory_used_bytes, "
        "memory_reserved_bytes, process_list, allocation) "
        f"SELECT 'h', 'g', {hour}, 30000, 30000, 0, 0, 0, 'known', 'allocated'"
    )
    clickhouse.query(
        "INSERT INTO gua.allocation_ticks (host, gpu, ts, source, allocation_id, duration_ms, gpu_time_ms, relation) "
        f"SELECT 'h', 'g', {hour}, 'slurm', '7', 30000, 30000, 'nobody'"
    )
    # It looks once a minute.
    clickhouse.query("ALTER TABLE gua.look_for_due_hours MODIFY REFRESH EVERY 1 SECOND APPEND")
    rolled_up = "SELECT toHour(hour) FROM gua.rollups FINAL"
    poll(lambda: clickhouse.query(rolled_up) == "12", "the hour to be rolled up", seconds=60)
    hourly = "SELECT toHour(hour), use FROM gua.allocation_intervals FINAL WHERE gpu != ''"
    assert clickhouse.query(hourly) == "12\t4"
    assert clickhouse.query("SELECT toHour(hour), use, gpu_time_ms FROM gua.allocation_hours") == "12\tempty\t30000"


@pytest.mark.usefixtures("applied")
def test_one_that_was_cut_off_is_completed_by_the_next(
    gua: Gua, later: Gua, clickhouse: ClickHouseServer, collector: Collector
) -> None:
    land(gua, collector, *DEMO)
    before = clickhouse.query(TICKS)
    query = clickhouse.query("SELECT as_select FROM system.tables WHERE name = 'gauge_to_card_info' FORMAT TSVRaw")
    later.must("schema", "apply", "--store", clickhouse.dsn())
    # As a cut leaves it: some new objects not yet there, some old ones not yet changed, the version not noted.
    clickhouse.query(f"ALTER TABLE gua.gauge_to_card_info MODIFY QUERY {query}")
    clickhouse.query("DROP VIEW gua.card_states")
    clickhouse.query(
        f"ALTER TABLE gua.schema_versions DELETE WHERE version = {later_schema.LATER} SETTINGS mutations_sync=1"
    )
    told = later.run("report", "--store", clickhouse.dsn("gua_reader"))
    assert told.returncode == 3
    assert "has schema version 1, this gua needs 2: run gua schema apply --store " in told.stderr

    later.must("schema", "apply", "--store", clickhouse.dsn())

    later.must("schema", "check", "--store", clickhouse.dsn())
    assert clickhouse.query(TICKS) == before


@pytest.mark.usefixtures("applied")
def test_a_newer_schema_is_left_alone(gua: Gua, clickhouse: ClickHouseServer) -> None:
    later = SCHEMA_VERSION + 1
    clickhouse.query(f"INSERT INTO gua.schema_versions (version, digest) VALUES ({later}, 'later')")
    tables = "SELECT groupArray((name, metadata_modification_time)) FROM system.tables WHERE database LIKE 'gua%'"
    before = clickhouse.query(tables)
    for command in (("schema", "apply"), ("schema", "check"), ("report",)):
        done = gua.run(*command, "--store", clickhouse.dsn())
        assert done.returncode == 3
        assert "upgrade gua" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert clickhouse.query(tables) == before


def test_how_long_rows_are_kept_is_set_and_stays_set(gua: Gua, clickhouse: ClickHouseServer) -> None:
    store = ("--store", clickhouse.dsn())
    noted = "SELECT value FROM gua.settings FINAL WHERE key = 'keep_ticks_days'"
    assert "kept: raw points 3d, ticks forever, hours forever" in gua.must("schema", "apply", *store)
    assert clickhouse.query(noted) == ""
    printed = gua.must("schema", "apply", *store, "--keep-raw", "7d", "--keep-ticks", "90d", "--keep-hours", "104w")
    assert "kept: raw points 7d, ticks 90d, hours 728d" in printed
    assert "kept: raw points 7d, ticks 90d, hours 728d" in gua.must("schema", "apply", *store)
    assert clickhouse.query(noted) == "90"
    gua.must("schema", "check", *store)
    for table, days in {"card_ticks": 90, "process_ticks": 90, "hourly_cards": 728, "otel_metrics_sum": 7}.items():
        engine = clickhouse.query(f"SHOW CREATE TABLE gua.{table}")
        assert f"toIntervalDay({days})" in engine, (table, engine)
    assert "ticks forever" in gua.must("schema", "apply", *store, "--keep-ticks", "forever", "--keep-hours", "forever")
    assert clickhouse.query(noted) == ""
    gua.must("schema", "check", *store)


@pytest.mark.usefixtures("applied")
def test_ticks_older_than_they_are_kept_go(gua: Gua, clickhouse: ClickHouseServer) -> None:
    for days in (0, 40):
        clickhouse.query(
            f"INSERT INTO gua.card_ticks (host, gpu, ts, duration_ms) SELECT 'a', 'b', now() - INTERVAL {days} DAY, 1"
        )
    gua.must("schema", "apply", "--store", clickhouse.dsn(), "--keep-ticks", "30d")
    clickhouse.query("OPTIMIZE TABLE gua.card_ticks FINAL")
    assert clickhouse.query("SELECT count() FROM gua.card_ticks") == "1"


def test_what_makes_no_sense_is_refused(gua: Gua, clickhouse: ClickHouseServer) -> None:
    for options, told in (
        (("--keep-ticks", "1d"), "--keep-ticks 1d is too short"),
        (("--keep-ticks", "90d", "--keep-hours", "30d"), "hours would go (30d) before the ticks"),
        (("--keep-hours", "30d"), "hours would go (30d) before the ticks"),
        (("--keep-raw", "36h"), "--keep-raw '36h': write whole days"),
        (("--keep-raw", "0d"), "--keep-raw '0d': write whole days"),
        (("--keep-ticks", "soon"), "--keep-ticks 'soon': write whole days"),
    ):
        done = gua.run("schema", "apply", "--store", clickhouse.dsn(), *options)
        assert done.returncode == 2, options
        assert told in done.stderr, options
        assert len(done.stderr.splitlines()) == 1, options
    assert clickhouse.query("SELECT count() FROM system.databases WHERE name LIKE 'gua%'") == "0"
