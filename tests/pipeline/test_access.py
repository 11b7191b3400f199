"""What each user of deploy/clickhouse/users.xml may not do, on a server as strict as the official image's."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from gua.store.grants import owner_grants, reader_grants, writer_grants
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua
from servers.tools import ROOT

DEMO = ("demo", "--seed", "7", "--ticks", "30", "--gpus", "2")
# As in the config.xml of the official image.
STRICT = """
<access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <select_from_information_schema_requires_grant>true</select_from_information_schema_requires_grant>
    <on_cluster_queries_require_cluster_grant>true</on_cluster_queries_require_cluster_grant>
    <settings_constraints_replace_previous>true</settings_constraints_replace_previous>
    <table_engines_require_grant>true</table_engines_require_grant>
</access_control_improvements>
"""
ACCESS_DENIED, READ_ONLY, OUT_OF_BOUNDS = 497, 164, 452
DEPLOYED = ROOT / "deploy" / "clickhouse"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ClickHouseServer]:
    """A server with the schema and some ticks, which no test changes: all that is tried here is refused."""
    request.getfixturevalue("_built")
    server = ClickHouseServer(tmp_path_factory.mktemp("clickhouse"))
    server.configure(STRICT)
    one_view = "<query>GRANT SELECT ON gua.card_states</query><query>GRANT SELECT ON gua.card_hours</query>"
    users = server.folder / "users.d" / "analyst.xml"
    users.write_text(
        "<clickhouse><users><site><password>of another's</password><networks><ip>::/0</ip></networks>"
        f"<profile>gua_reader</profile><quota>default</quota><grants>{one_view}</grants></site></users></clickhouse>"
    )
    server.start()
    gua = Gua(tmp_path_factory.mktemp("home"))
    gua.must("schema", "apply", "--store", server.dsn("gua_owner"))
    gua.must(*DEMO, "--store", server.dsn("gua_owner"))
    yield server
    server.kill()


def refused(server: ClickHouseServer, user: str, sql: str) -> int:
    """Return ClickHouse's number of the error with which the statement is refused."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/",
        data=sql.encode(),
        headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS[user]},
    )
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - of this machine
    return int(error.value.headers["X-ClickHouse-Exception-Code"])


# Statements that nobody of the three may run.
FOREIGN = [
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "SELECT * FROM system.users",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.parts",
    "CREATE DATABASE other",
    "CREATE TABLE default.other (a UInt8) ENGINE = MergeTree ORDER BY a",
    "CREATE USER other",
    "CREATE ROLE other",
    "GRANT SELECT ON gua.* TO default",
    "DROP USER default",
    "KILL QUERY WHERE 1",
    "SYSTEM SHUTDOWN",
    "SYSTEM STOP MERGES gua.card_ticks",
    "BACKUP DATABASE gua TO Disk('default', 'a')",
    "CREATE FUNCTION other AS x -> x",
    "INSERT INTO FUNCTION file('other', 'TSV', 'a UInt8') VALUES (1)",
]


@pytest.mark.parametrize("user", ["gua_owner", "gua_writer", "gua_reader"])
@pytest.mark.parametrize("sql", FOREIGN)
def test_nobody_leaves_the_two_databases(served: ClickHouseServer, user: str, sql: str) -> None:
    assert refused(served, user, sql) in {ACCESS_DENIED, READ_ONLY}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count() FROM gua.otel_metrics_gauge",
        "SELECT Value FROM gua.otel_metrics_sum",
        "SELECT * FROM gua.card_ticks",
        "SELECT * FROM gua.cards",
        "SELECT * FROM gua.settings",
        "SELECT * FROM gua_report.rules",
        "INSERT INTO gua.card_ticks (host) VALUES ('a')",
        "INSERT INTO gua.process_ticks (host) VALUES ('a')",
        "INSERT INTO gua.settings (key, value) VALUES ('active_utilization', 0)",
        "INSERT INTO gua.schema_versions (version) VALUES (9)",
        "CREATE TABLE gua.other (a UInt8) ENGINE = MergeTree ORDER BY a",
        "CREATE VIEW gua.other AS SELECT 1",
        "ALTER TABLE gua.otel_metrics_gauge DELETE WHERE 1",
        "ALTER TABLE gua.otel_metrics_gauge ADD COLUMN a UInt8",
        "TRUNCATE TABLE gua.otel_metrics_gauge",
        "DROP TABLE gua.otel_metrics_gauge",
        "DROP DATABASE gua",
        "SHOW TABLES FROM gua",
    ],
)
def test_the_collector_may_only_add_points(served: ClickHouseServer, sql: str) -> None:
    if sql.startswith("SHOW"):
        assert set(served.query(sql, user="gua_writer").split()) == {"otel_metrics_gauge", "otel_metrics_sum"}
    else:
        assert refused(served, "gua_writer", sql) == ACCESS_DENIED


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM gua.otel_metrics_gauge",
        "SELECT * FROM gua.otel_metrics_sum",
        "INSERT INTO gua.card_ticks (host) VALUES ('a')",
        "INSERT INTO gua.settings (key, value) VALUES ('active_utilization', 0)",
        "INSERT INTO gua.otel_metrics_gauge (Value) VALUES (1)",
        "CREATE TABLE gua.other (a UInt8) ENGINE = MergeTree ORDER BY a",
        "CREATE TEMPORARY TABLE other (a UInt8)",
        "CREATE VIEW gua.other AS SELECT 1",
        "ALTER TABLE gua.card_ticks DELETE WHERE 1",
        "ALTER TABLE gua.card_ticks MODIFY TTL toDate(ts) + INTERVAL 1 DAY",
        "OPTIMIZE TABLE gua.card_ticks",
        "TRUNCATE TABLE gua.card_ticks",
        "DROP VIEW gua.cards",
        "DROP DATABASE gua_report",
        "SET max_memory_usage = 0",
        "SET readonly = 0",
        "SELECT 1 SETTINGS max_rows_to_read = 0",
        "SELECT 1 SETTINGS max_execution_time = 0",
        "SELECT 1 SETTINGS max_execution_time = 86400",
    ],
)
def test_a_reader_may_only_read_and_only_within_limits(served: ClickHouseServer, sql: str) -> None:
    assert refused(served, "gua_reader", sql) in {ACCESS_DENIED, READ_ONLY, OUT_OF_BOUNDS}


def test_a_reader_reads_every_view_and_may_shorten_its_time(gua: Gua, served: ClickHouseServer) -> None:
    assert gua.report(served.dsn("gua_reader"))["headline"]["card_ticks"] > 0
    assert served.query("SELECT 1 SETTINGS max_execution_time = 5", user="gua_reader") == "1"
    assert "as it should be" in gua.must("schema", "check", "--store", served.dsn("gua_reader"))


def test_who_may_read_one_view_needs_nothing_below_it(served: ClickHouseServer) -> None:
    assert int(served.query("SELECT count() FROM gua.card_states", user="site")) > 0
    assert int(served.query("SELECT count() FROM gua.card_hours", user="site")) > 0
    for below in ("card_ticks", "cards", "rules"):
        assert refused(served, "site", f"SELECT * FROM gua.{below}") == ACCESS_DENIED
    assert refused(served, "site", "SELECT count() FROM gua.card_states SETTINGS max_rows_to_read = 0") == READ_ONLY


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE gua.other (a String) ENGINE = File('LineAsString')",
        "CREATE TABLE gua.other (a String) ENGINE = URL('http://127.0.0.1:1/', 'LineAsString')",
        "CREATE TABLE gua.other (a UInt8) ENGINE = Distributed('a', 'system', 'one')",
        "CREATE DICTIONARY gua.other (a UInt64) PRIMARY KEY a SOURCE(FILE(path 'a' format 'TSV')) LAYOUT(FLAT())",
        "CREATE VIEW gua.other DEFINER = default SQL SECURITY DEFINER AS SELECT 1",
        "SELECT * FROM default.other",
        "DROP DATABASE gua",
        "DROP DATABASE default",
    ],
)
def test_the_owner_stays_within_the_schema(served: ClickHouseServer, sql: str) -> None:
    assert refused(served, "gua_owner", sql) in {ACCESS_DENIED, 60}


@pytest.mark.parametrize("user", ["gua_reader", "gua_writer", "site"])
def test_who_may_not_apply_is_told_before_anything_is_changed(gua: Gua, served: ClickHouseServer, user: str) -> None:
    done = gua.run("schema", "apply", "--store", served.dsn(user))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "gua schema grants" in line
    assert served.query("SELECT count() FROM gua.schema_versions") == "1"


def test_grants_that_are_printed_are_those_that_are_deployed(gua: Gua) -> None:
    xml = (DEPLOYED / "users.xml").read_text("utf-8")
    sql = (DEPLOYED / "roles.sql").read_text("utf-8")
    one_server = re.sub(r"<!--.*?-->", "", xml, flags=re.DOTALL)
    printed = gua.must("schema", "grants", "--store", "clickhouse://owner@db.example:8123")
    on_cluster = gua.must("schema", "grants", "--store", "clickhouse://owner@db.example:8123", "--cluster", "lab")
    for user, grants in {"gua_owner": owner_grants, "gua_writer": writer_grants, "gua_reader": reader_grants}.items():
        lines = grants()
        assert granted(one_server, user) == lines
        assert [
            each for each in re.findall(r"^((?:GRANT|REVOKE) .*);$", sql, re.MULTILINE) if each.endswith(user)
        ] == lines
        assert all(f"{line};\n" in printed for line in lines)
        assert sorted(granted(xml, user)) == sorted(grants(cluster=True))
        assert all(f"{line};\n" in on_cluster for line in grants(cluster=True))


def granted(xml: str, user: str) -> list[str]:
    """Return what the XML grants to a user, as statements."""
    section = xml.partition(f"<{user}>\n            <password")[2].partition(f"</{user}>")[0]
    found = re.findall(r"<query>(.*)</query>", section)
    return [f"{each} {'FROM' if each.startswith('REVOKE') else 'TO'} {user}" for each in found]


def test_the_sql_for_users_is_understood_by_the_engine(served: ClickHouseServer) -> None:
    text = (DEPLOYED / "roles.sql").read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    statements = [part.strip().removesuffix(";") for part in code.split(";\n") if part.strip()]
    assert len(statements) == 4 + len(owner_grants() + writer_grants() + reader_grants())
    for statement in statements:
        quoted = statement.replace("\\", "\\\\").replace("'", "\\'")
        assert served.query(f"SELECT formatQuery('{quoted}')", user="gua_reader")


def test_a_reader_has_the_same_limits_in_both() -> None:
    xml = (DEPLOYED / "users.xml").read_text("utf-8")
    sql = (DEPLOYED / "roles.sql").read_text("utf-8")
    profile = xml.partition("<gua_reader>")[2].partition("<constraints>")[0]
    limits = dict(re.findall(r"<(\w+)>(\w+)</", profile))
    assert set(limits) == {
        "readonly",
        "max_memory_usage",
        "max_execution_time",
        "max_rows_to_read",
        "max_result_rows",
        "session_timezone",
        "query_plan_merge_expressions",
        "compile_expressions",
        "compile_aggregate_expressions",
    }
    for name, value in limits.items():
        assert re.search(rf"\b{name} = '?{value}\b", sql), name
