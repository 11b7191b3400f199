"""Servers in bad condition: one line with what to do, exit code 3, and right numbers afterwards."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gua.core.errors import UnavailableError
from gua.store.catalog import SHUT
from gua.store.connection import check_version
from gua.store.dsn import ServerDsn
from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import SUMS, Gua, differences
from servers.process import poll

DEMO = ("demo", "--seed", "7", "--ticks", "60", "--gpus", "4")
NO_ROOM = """
<storage_configuration><disks><default>
    <keep_free_space_bytes>1000000000000000</keep_free_space_bytes>
</default></disks></storage_configuration>
"""


def refusal(gua: Gua, *arguments: str) -> str:
    """Return the line on standard error, which must be the only one."""
    done = gua.run(*arguments)
    assert done.returncode == 3, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(("gua: clickhouse://", "gua: the disk of clickhouse://"))
    assert len(line) < 500
    return line


@pytest.fixture
def expected(reported: Callable[..., dict[str, object]]) -> dict[str, object]:
    """Return the report of the same ticks from the embedded store."""
    return reported(DEMO, options=SUMS)


@pytest.mark.usefixtures("_built")
def test_a_server_in_another_time_zone_reports_the_same_numbers(
    gua: Gua, tmp_path: Path, expected: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = "America/St_Johns"
    monkeypatch.setenv("TZ", zone)
    server = ClickHouseServer(tmp_path / "elsewhere")
    collector = Collector(tmp_path / "collector", server)
    server.start()
    collector.start()
    try:
        assert server.query("SELECT timezone()") == zone
        gua.must("schema", "apply", "--store", server.dsn())
        gua.must(*DEMO, "--endpoint", collector.endpoint)
        collector.wait_until_delivered()

        for user in ("gua_reader", "gua_owner"):
            assert not [*differences(gua.report(server.dsn(user), *SUMS), expected)]
            # The hours that were rolled up by then report the same.
            gua.must("rollup", "--store", server.dsn())
        gua.must("schema", "check", "--store", server.dsn())
    finally:
        collector.kill()
        server.kill()


@pytest.mark.usefixtures("applied")
def test_a_full_server_gives_an_error_and_has_lost_nothing_once_it_has_room(
    gua: Gua, clickhouse: ClickHouseServer, collector: Collector, expected: dict[str, object]
) -> None:
    clickhouse.stop()
    clickhouse.configure(NO_ROOM)
    clickhouse.start()
    line = refusal(gua, *DEMO, "--store", clickhouse.dsn())
    assert "the disk of" in line
    assert "free some space" in line
    assert "free some space" in refusal(gua, "schema", "apply", "--store", clickhouse.dsn())
    gua.must(*DEMO, "--endpoint", collector.endpoint)
    assert clickhouse.query("SELECT count() FROM gua.card_ticks") == "0"

    clickhouse.stop()
    clickhouse.configure()
    clickhouse.start()
    collector.wait_until_delivered()

    assert not [*differences(gua.report(clickhouse.dsn("gua_reader"), *SUMS), expected)]


POINT = """
INSERT INTO gua.otel_metrics_{kind} (
    ResourceAttributes, ScopeName, MetricName, Attributes, StartTimeUnix, TimeUnix, Value
)
VALUES (
    {{'host.name': 'early'}},
    'gua',
    '{metric}',
    {{'hw.id': 'GPU-1', 'hw.gpu.task': 'general'}},
    {start}, {start} + 1, 0.5
)
"""
METRICS = {"gauge": "hw.gpu.utilization", "sum": "gua.gpu.time"}


@pytest.mark.usefixtures("_built")
def test_what_lands_while_the_schema_is_applied_is_refused_or_read(gua: Gua, clickhouse: ClickHouseServer) -> None:
    over = threading.Event()
    lines: Counter[str] = Counter()
    # Of the last day, as raw points of before are dropped.
    begun = int(time.time()) - 40_000

    def deliver(kind: str) -> None:
        for start in itertools.count(begun + 20_000 * (kind == "sum")):
            sql = POINT.format(kind=kind, metric=METRICS[kind], start=start)
            try:
                clickhouse.query(sql, user="gua_writer")
            except AssertionError as error:
                lines.update(re.findall(r"\((\w+)\) \(version", str(error)) or [str(error)])
            else:
                lines["taken"] += 1
                if over.is_set():
                    return

    senders = [threading.Thread(target=deliver, args=(kind,)) for kind in METRICS]
    for sender in senders:
        sender.start()
    try:
        gua.must("schema", "apply", "--store", clickhouse.dsn())
    finally:
        over.set()
        for sender in senders:
            sender.join()

    assert lines.keys() <= {"taken", "UNKNOWN_DATABASE", "UNKNOWN_TABLE", "VIOLATED_CONSTRAINT"}
    for kind in METRICS:
        landed = clickhouse.query(f"SELECT uniqExact(TimeUnix) FROM gua.otel_metrics_{kind}")
        moments = f"ts IN (SELECT TimeUnix FROM gua.otel_metrics_{kind})"
        read = clickhouse.query(f"SELECT uniqExact(ts) FROM gua.card_ticks WHERE {moments}")
        assert int(read) == int(landed) > 0
    assert lines["VIOLATED_CONSTRAINT"] > 0
    gua.must("schema", "check", "--store", clickhouse.dsn())


@pytest.mark.usefixtures("applied")
def test_an_apply_that_was_cut_off_lets_no_point_in_and_the_next_one_does(
    gua: Gua, clickhouse: ClickHouseServer
) -> None:
    clickhouse.query(f"ALTER TABLE gua.otel_metrics_sum ADD CONSTRAINT {SHUT} CHECK 0")
    with pytest.raises(AssertionError, match=SHUT):
        clickhouse.query(
            POINT.format(kind="sum", metric=METRICS["sum"], start=int(time.time()) - 60), user="gua_writer"
        )
    done = gua.run("schema", "check", "--store", clickhouse.dsn())
    assert done.returncode == 3
    assert "gua.otel_metrics_sum takes no points, as gua schema apply was cut off" in done.stdout

    gua.must("schema", "apply", "--store", clickhouse.dsn())

    gua.must("schema", "check", "--store", clickhouse.dsn())
    clickhouse.query(POINT.format(kind="sum", metric=METRICS["sum"], start=int(time.time()) - 60), user="gua_writer")
    assert clickhouse.query("SELECT count() FROM gua.card_ticks") == "1"


def attach_again(clickhouse: ClickHouseServer, table: str) -> None:
    """Attach a table that was detached, as soon as the last question that read it has ended."""

    def attached() -> bool:
        try:
            clickhouse.query(f"ATTACH TABLE {table}")
        except AssertionError as error:
            if "still used by some query" not in str(error):
                raise
            return False
        return True

    poll(attached, f"questions to let go of {table}")


@pytest.mark.usefixtures("applied")
def test_half_a_schema_is_named(gua: Gua, clickhouse: ClickHouseServer) -> None:
    gua.must(*DEMO, "--store", clickhouse.dsn())
    every = ("gua.card_states", "gua.cards", "gua_report.tick_cards", "gua.card_ticks")
    for lost in every:
        clickhouse.query(f"DETACH TABLE {lost}")
        line = refusal(gua, "report", "--store", clickhouse.dsn("gua_reader"))
        assert f"lacks {lost}: run gua schema apply" in line
        attach_again(clickhouse, lost)
    for lost in every:
        clickhouse.query(f"DROP TABLE {lost}")
    done = gua.run("schema", "check", "--store", clickhouse.dsn())
    assert done.returncode == 3
    for lost in every:
        assert f"{lost} is missing (" in done.stdout
    gua.must("schema", "apply", "--store", clickhouse.dsn())
    gua.must("schema", "check", "--store", clickhouse.dsn())


@pytest.mark.usefixtures("applied")
def test_what_somebody_changed_is_named_and_repaired(gua: Gua, clickhouse: ClickHouseServer) -> None:
    for sql in (
        "ALTER TABLE gua.card_ticks DROP COLUMN power_mw",
        "ALTER TABLE gua.process_ticks MODIFY TTL toDate(ts) + INTERVAL 5 DAY",
        "ALTER TABLE gua.sum_to_card_seen MODIFY QUERY SELECT '' AS host, '' AS gpu FROM gua.otel_metrics_sum",
        "CREATE OR REPLACE VIEW gua.cards AS SELECT 1 AS host",
        "CREATE VIEW gua.mine AS SELECT 1",
    ):
        clickhouse.query(sql)
    done = gua.run("schema", "check", "--store", clickhouse.dsn())
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert "gua.card_ticks lacks the column power_mw SimpleAggregateFunction(anyLast, Nullable(UInt32))" in lines
    assert "gua.process_ticks keeps rows by TTL toDate(ts) + toIntervalDay(5), not none" in lines
    assert "gua.sum_to_card_seen has another query" in lines
    assert "gua.cards has another query" in lines
    assert "gua.cards does not run with the rights of its definer" in lines
    assert "note: gua.mine is not gua's (View)" in lines
    gua.must("schema", "apply", "--store", clickhouse.dsn())
    assert "note: gua.mine" in gua.must("schema", "check", "--store", clickhouse.dsn())


def test_a_read_only_owner_gets_an_error_before_anything_changes(gua: Gua, clickhouse: ClickHouseServer) -> None:
    users = clickhouse.folder / "users.d" / "gua.xml"
    owner, rest = users.read_text().split("</gua_owner>")
    users.write_text(owner.replace("<profile>default<", "<profile>gua_reader<") + "</gua_owner>" + rest)
    clickhouse.stop()
    clickhouse.start()
    assert "the user is read-only" in refusal(gua, "schema", "apply", "--store", clickhouse.dsn())
    assert clickhouse.query("SELECT count() FROM system.databases WHERE name LIKE 'gua%'") == "0"


def test_an_error_names_the_missing_right_before_anything_changes(gua: Gua, clickhouse: ClickHouseServer) -> None:
    users = clickhouse.folder / "users.d" / "gua.xml"
    users.write_text(users.read_text().replace("ALTER TABLE, ", ""))
    clickhouse.stop()
    clickhouse.start()
    line = refusal(gua, "schema", "apply", "--store", clickhouse.dsn())
    assert "it lacks ALTER TABLE ON gua.* and 2 more" in line
    assert "gua schema grants" in line
    assert clickhouse.query("SELECT count() FROM system.databases WHERE name LIKE 'gua%'") == "0"


@pytest.mark.parametrize("version", ["23.8.16.40", "24.12.1.1", "25.7.9.9"])
def test_a_server_that_is_too_old_is_refused(version: str) -> None:
    dsn = ServerDsn(host="db.example", port=8123, secure=False, user="u", password="")
    with pytest.raises(UnavailableError, match=rf"runs ClickHouse {version}, gua needs 25\.8 or newer"):
        check_version(dsn, version)


@pytest.mark.parametrize("version", ["25.8.1.1", "25.10.2.2", "26.7.3.1", "26.9.2.1"])
def test_a_server_that_is_new_enough_is_taken(version: str) -> None:
    check_version(ServerDsn(host="db.example", port=8123, secure=False, user="u", password=""), version)
