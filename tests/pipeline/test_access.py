"""What each user of deploy/clickhouse/users.xml may not do, on a server as strict as the official image's."""

from __future__ import annotations

import http.client
import re
import select
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gua.store.schema import bi_grants, owner_grants, reader_grants, writer_grants
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua, differences
from servers.process import poll
from servers.tls import TlsFront
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
ACCESS_DENIED, READ_ONLY, OUT_OF_BOUNDS, NO_SUCH_FILE, TOO_MANY_QUERIES = 497, 164, 452, 107, 202
DEPLOYED = ROOT / "deploy" / "clickhouse"
# Who may read the views of reports, and not what they are made of.
VIEWS_ALONE = {"views_alone": "", "views_and_version": "<query>GRANT SELECT ON gua.schema_versions</query>"}


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
        f"<profile>gua_reader</profile><quota>default</quota><grants>{one_view}</grants></site>"
        + "".join(
            f"<{user}><password>{PASSWORDS[user]}</password><networks><ip>::/0</ip></networks><profile>gua_reader</profile>"
            "<quota>default</quota><grants><query>GRANT SELECT ON gua_report.*</query>"
            f"{also}</grants></{user}>"
            for user, also in VIEWS_ALONE.items()
        )
        + f"<query_watcher><password>{PASSWORDS['query_watcher']}</password><networks><ip>::/0</ip></networks>"
        "<profile>default</profile><quota>default</quota>"
        "<grants><query>GRANT SELECT ON system.processes</query></grants></query_watcher></users></clickhouse>"
    )
    server.start()
    gua = Gua(tmp_path_factory.mktemp("home"))
    gua.must("schema", "apply", "--store", server.dsn("gua_owner"))
    gua.must(*DEMO, "--store", server.dsn("gua_owner"))
    yield server
    server.kill()


def test_over_tls_without_any_right_of_system_as_in_a_cloud(served: ClickHouseServer, tmp_path: Path) -> None:
    """The server of the tests has no TLS itself, so it is taken in front of it."""
    assert "SYSTEM" not in " ".join(owner_grants(cluster=True))
    with TlsFront(tmp_path, served.http_port) as front:
        address = f"@localhost:{front.port}"
        owner = served.dsn("gua_owner").replace("clickhouse:", "clickhouses:").partition("@")[0] + address
        strange = Gua(tmp_path / "strange").run("schema", "check", "--store", owner)
        assert strange.returncode == 3
        assert "set SSL_CERT_FILE to the authority's" in strange.stderr
        assert len(strange.stderr.splitlines()) == 1
        gua = Gua(tmp_path, SSL_CERT_FILE=str(front.authority))
        assert "as it should be" in gua.must("schema", "check", "--store", owner)
        assert "2 GPUs" in gua.must(
            "report", "--section", "cards", "--store", f"clickhouses://gua_reader:reader{address}"
        )


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize("user", ["gua_owner", "gua_writer", "gua_reader", "gua_bi"])
def test_a_server_that_lacks_a_password_does_not_start_and_names_the_user(tmp_path: Path, user: str) -> None:
    server = ClickHouseServer(tmp_path / "clickhouse", without_password=user)
    with pytest.raises(AssertionError, match=rf"must be specified for user {user} in path"):
        server.start()


def answered(server: ClickHouseServer, user: str, sql: str, **settings: str) -> str:
    """Return what the server answers with these settings in the address, ``session_id`` among them."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/?{urllib.parse.urlencode(settings)}",
        data=sql.encode(),
        headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS[user]},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - of this machine
        return str(answer.read().decode()).removesuffix("\n")


def refused(server: ClickHouseServer, user: str, sql: str, **settings: str) -> int:
    """Return ClickHouse's number of the error with which the statement is refused, in one line."""
    with pytest.raises(urllib.error.HTTPError) as error:
        answered(server, user, sql, **settings)
    assert len(error.value.read().decode().splitlines()) == 1
    return int(error.value.headers["X-ClickHouse-Exception-Code"])


# Statements that none of the three may run.
FOREIGN = [
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "SELECT * FROM s3('http://127.0.0.1:1/bucket/key', 'TSV', 'a UInt8')",
    "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM jdbc('a', 'b')",
    "SELECT * FROM icebergLocal('/etc')",
    "SELECT * FROM system.server_settings",
    "SELECT * FROM system.grants",
    "SELECT * FROM system.settings_profiles",
    "SHOW CREATE USER gua_owner",
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
def test_no_user_can_read_outside_of_the_two_databases(served: ClickHouseServer, user: str, sql: str) -> None:
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
        "SELECT * FROM executable('a', 'TSV', 'a UInt8')",
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


def held(profile: str) -> dict[str, dict[str, str]]:
    """Return the constraints of a deployed profile: by setting its bounds, or ``readonly``."""
    constraints = ET.parse(DEPLOYED / "users.xml").find(f"profiles/{profile}/constraints")  # noqa: S314 - ours
    assert constraints is not None
    return {setting.tag: {bound.tag: bound.text or "" for bound in setting} for setting in constraints}


def lifted(profile: str) -> Iterator[tuple[str, str]]:
    """Yield each held setting with values that a user would want: none at all, and more."""
    own = ET.parse(DEPLOYED / "users.xml").find(f"profiles/{profile}")  # noqa: S314 - ours
    assert own is not None
    for name, bounds in held(profile).items():
        if "readonly" in bounds:
            # Any other value than the one in force will do.
            yield name, {"workload": "other", "log_queries": "0", "use_concurrency_control": "0"}.get(name, "7")
            continue
        assert {"max"} <= set(bounds) <= {"min", "max"}, name
        yield name, str(int(bounds["max"]) + 1)
        # The server takes no threads as as many as it has cores.
        if bounds.get("min", "0") != "0" and name != "max_threads":
            yield name, "0"


LIFTED = [(f"gua_{user}", *each) for user in ("reader", "writer") for each in lifted(f"gua_{user}")]


@pytest.mark.parametrize(("user", "setting", "value"), LIFTED)
def test_no_limit_can_be_lifted_in_a_statement_an_address_or_a_session(
    served: ClickHouseServer, user: str, setting: str, value: str
) -> None:
    assert refused(served, user, f"SELECT 1 SETTINGS {setting} = '{value}'") == OUT_OF_BOUNDS
    assert refused(served, user, "SELECT 1", **{setting: value}) == OUT_OF_BOUNDS
    session = {"session_id": f"{user} {setting} {value}"}
    assert refused(served, user, f"SET {setting} = '{value}'", **session) == OUT_OF_BOUNDS
    assert refused(served, user, f"SET profile = 'default', {setting} = '{value}'", **session) == OUT_OF_BOUNDS
    answered(served, user, "SET profile = 'default'", **session)
    assert refused(served, user, f"SET {setting} = '{value}'", **session) == OUT_OF_BOUNDS


def test_a_reader_may_not_take_the_writer_s_limits(served: ClickHouseServer) -> None:
    for how in ({"profile": "gua_writer"}, {"session_id": "writer"}):
        sql = "SELECT 1" if "profile" in how else "SET profile = 'gua_writer'"
        assert refused(served, "gua_reader", sql, **how) == OUT_OF_BOUNDS
    assert refused(served, "gua_reader", "SET readonly = 1") == READ_ONLY


@pytest.mark.parametrize(
    ("setting", "sql"),
    [
        ("max_memory_usage", "SELECT groupArray(repeat('a', 1000)) FROM numbers(10000000) FORMAT Null"),
        ("max_rows_to_read", "SELECT count() FROM numbers(5000000001)"),
        ("max_result_rows", "SELECT * FROM numbers(10000001) FORMAT Null"),
        (
            "max_execution_time",
            "SELECT sleepEachRow(0.5) FROM numbers(600) SETTINGS max_execution_time = 1, max_block_size = 1",
        ),
    ],
)
def test_a_reader_s_query_ends_at_its_limits(served: ClickHouseServer, setting: str, sql: str) -> None:
    codes = {"max_memory_usage": 241, "max_rows_to_read": 158, "max_result_rows": 396, "max_execution_time": 159}
    assert refused(served, "gua_reader", sql, wait_end_of_query="1") == codes[setting]


def test_a_reader_has_a_hundred_queries_at_once_and_no_more(served: ClickHouseServer) -> None:
    # A query whose client goes away is ended.
    question = urllib.parse.urlencode(
        {
            "query": "SELECT sleepEachRow(1) FROM numbers(50) SETTINGS max_block_size = 1",
            "cancel_http_readonly_queries_on_client_close": "1",
        }
    )
    secret = {"X-ClickHouse-User": "gua_reader", "X-ClickHouse-Key": PASSWORDS["gua_reader"]}
    poll(lambda: running(served) == 0, "the queries of other tests to end")
    with ExitStack() as open_ones:
        connections: list[http.client.HTTPConnection] = []
        for _ in range(101):
            connections.append(
                open_ones.enter_context(closing(http.client.HTTPConnection("127.0.0.1", served.http_port, timeout=60)))
            )
            connections[-1].request("GET", f"/?{question}", headers=secret)
        ready = select.poll()  # unlike select, of descriptors above 1023 too
        for each in connections:
            ready.register(each.sock, select.POLLIN)
        answering = {descriptor for descriptor, _ in ready.poll(30_000)}
        (refusal,) = (each.getresponse() for each in connections if each.sock.fileno() in answering)
        assert int(refusal.headers["X-ClickHouse-Exception-Code"]) == TOO_MANY_QUERIES
        assert len(refusal.read().decode().splitlines()) == 1
        assert served.query("SELECT 1", user="gua_owner") == "1"
        assert running(served) == 100
    # All of them, or the next who reads finds no place: one place free would answer a SELECT 1.
    poll(lambda: running(served) == 0, "the reader's queries to end")
    assert answered(served, "gua_reader", "SELECT 1") == "1"


def running(server: ClickHouseServer) -> int:
    """Return how many queries of the reader run."""
    return int(server.query("SELECT count() FROM system.processes WHERE user = 'gua_reader'", user="query_watcher"))


def test_a_reader_reads_every_view_and_may_set_what_is_not_held(gua: Gua, served: ClickHouseServer) -> None:
    assert gua.report(served.dsn("gua_reader"), "--section", "headline")["headline"]["card_ticks"] > 0
    assert served.query("SELECT 1 SETTINGS max_execution_time = 5, async_insert = 1", user="gua_reader") == "1"
    assert served.query("SELECT 1 SETTINGS max_threads = 2, max_memory_usage = 1000000", user="gua_reader") == "1"
    assert "as it should be" in gua.must("schema", "check", "--store", served.dsn("gua_reader"))


def test_who_may_read_the_views_of_reports_alone_has_the_same_report(gua: Gua, served: ClickHouseServer) -> None:
    expected = gua.report(served.dsn("gua_reader"))
    for user in VIEWS_ALONE:
        assert not [*differences(gua.report(served.dsn(user)), expected)]


@pytest.mark.parametrize("user", ["gua_owner", "gua_writer", "gua_reader"])
def test_the_function_file_finds_nothing(served: ClickHouseServer, user: str) -> None:
    # If the server's version requires no right (docs/fleet.md), there is nothing to be read.
    for name in ("a", "data.csv", "user_files/a"):
        assert refused(served, user, f"SELECT file('{name}')") in {ACCESS_DENIED, NO_SUCH_FILE}
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert "user_files" not in compose + (DEPLOYED / "users.xml").read_text("utf-8")


def test_who_may_read_one_view_needs_nothing_below_it(served: ClickHouseServer) -> None:
    assert int(served.query("SELECT count() FROM gua.card_states", user="site")) > 0
    assert int(served.query("SELECT count() FROM gua.card_hours", user="site")) > 0
    for below in ("card_ticks", "cards", "rules"):
        assert refused(served, "site", f"SELECT * FROM gua.{below}") == ACCESS_DENIED
    assert refused(served, "site", "SELECT count() FROM gua.card_states SETTINGS max_rows_to_read = 0") == OUT_OF_BOUNDS


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
def test_a_user_without_rights_is_refused_before_anything_is_changed(
    gua: Gua, served: ClickHouseServer, user: str
) -> None:
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


def test_the_user_of_bi_tools_has_what_is_public_in_both_forms(gua: Gua, served: ClickHouseServer) -> None:
    xml = (DEPLOYED / "users-bi.xml").read_text("utf-8")
    sql = (DEPLOYED / "roles-bi.sql").read_text("utf-8")
    one_server = re.sub(r"<!--.*?-->", "", xml, flags=re.DOTALL)
    assert granted(one_server, "gua_bi") == re.findall(r"^(GRANT .*);$", sql, re.MULTILINE) == bi_grants()
    assert granted(xml, "gua_bi") == bi_grants(cluster=True)
    grants = ("schema", "grants", "--store", "clickhouse://owner@db.example:8123")
    printed, on_cluster = gua.must(*grants), gua.must(*grants, "--cluster", "lab")
    assert [line for line in printed.splitlines() if "gua_bi" in line] == [f"{line};" for line in bi_grants()]
    assert all(f"{line};\n" in on_cluster for line in bi_grants(cluster=True))
    assert ET.fromstring(xml).findtext("users/gua_bi/profile") == "gua_reader"  # noqa: S314 - ours
    assert "ALTER USER gua_bi SETTINGS PROFILE 'gua_reader';" in sql
    shown = served.query("SELECT DISTINCT database FROM system.tables WHERE database LIKE 'gua%'", user="gua_bi")
    assert shown == "gua_public"
    for hidden in ("gua.cards", "gua.card_ticks", "gua.otel_metrics_gauge", "gua.described_cards"):
        assert refused(served, "gua_bi", f"SELECT * FROM {hidden}") == ACCESS_DENIED
    assert int(served.query("SELECT count() FROM gua_public.card_hours", user="gua_bi")) > 0


def granted(xml: str, user: str) -> list[str]:
    """Return what the XML grants to a user, as statements."""
    section = xml.partition(f"<{user}>\n            <password")[2].partition(f"</{user}>")[0]
    found = re.findall(r"<query>(.*)</query>", section)
    return [f"{each} {'FROM' if each.startswith('REVOKE') else 'TO'} {user}" for each in found]


def test_the_sql_for_users_is_understood_by_the_engine(served: ClickHouseServer) -> None:
    text = (DEPLOYED / "roles.sql").read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    statements = [part.strip().removesuffix(";") for part in code.split(";\n") if part.strip()]
    assert len(statements) == 7 + len(owner_grants() + writer_grants() + reader_grants())
    for statement in statements:
        quoted = statement.replace("\\", "\\\\").replace("'", "\\'")
        assert served.query(f"SELECT formatQuery('{quoted}')", user="gua_reader")


@pytest.mark.parametrize("name", ["gua_reader", "gua_writer"])
def test_limits_are_the_same_in_both(name: str) -> None:
    profile = ET.parse(DEPLOYED / "users.xml").find(f"profiles/{name}")  # noqa: S314 - ours
    assert profile is not None
    values = {each.tag: each.text or "" for each in profile if each.tag != "constraints"}
    bounds = {
        setting: " CONST"
        if "readonly" in each
        else "".join(f" {bound.upper()} {each[bound]}" for bound in ("min", "max") if bound in each)
        for setting, each in held(name).items()
    }
    sql = (DEPLOYED / "roles.sql").read_text("utf-8")
    (made,) = re.findall(
        rf"^CREATE SETTINGS PROFILE OR REPLACE {name} SETTINGS\n(.*?);$", sql, re.MULTILINE | re.DOTALL
    )
    limits = [f"{setting} = {each if each.isdecimal() else repr(each)}" for setting, each in values.items()]
    expected = {limit + bounds.pop(limit.partition(" = ")[0], "") for limit in limits}
    expected |= {setting + bound for setting, bound in bounds.items()}
    assert set(made.strip().replace("\n    ", "").split(",")) == expected


def test_the_users_limits_hold_memory_time_rows_threads_and_concurrency() -> None:
    limits = {"memory_usage", "memory_usage_for_user", "execution_time", "rows_to_read", "threads"}
    for name in ("gua_reader", "gua_writer"):
        assert {f"max_{limit}" for limit in (*limits, "concurrent_queries_for_user")} <= held(name).keys()
    users = ET.parse(DEPLOYED / "users.xml")  # noqa: S314 - ours
    assert users.findtext("profiles/gua_reader/readonly") == "2"
    for name in ("gua_reader", "gua_writer"):
        assert users.findtext(f"users/{name}/profile") == name
