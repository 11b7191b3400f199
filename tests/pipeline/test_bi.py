"""BI tools: the official JDBC driver and SQLAlchemy's dialect on a real server, as the users that are deployed."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from gua.core.plaintext import storable
from gua.core.ports import SpooledTick
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, Source
from gua.otlp.encode import encode
from gua.sim.host import simulate_from
from gua.state.compression import compress
from gua.store.database import open_store
from pipeline.test_access import STRICT
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua
from servers.jdbc import Jdbc, JdbcError
from servers.notebook import Alchemy, AlchemyError, run_cells
from servers.recipes import Recipe, blocks, recipes
from servers.tools import ROOT

VIEWS = ROOT / "docs" / "views.md"
INTERVAL_MS = 600_000
DAY_MS = 86_400_000
DAYS = 8
# Syntax to SQL, to the protocol of the drivers, to C; and longer than any name.
HOST = "o'brien\\s"
OWNERS = ("al'ice\"; DROP TABLE gua.cards; --", "bob\\n\t\\", "nul\0inside", "o" * 65_536, "Zoë 🦊")


RECIPES = recipes()


def public_views() -> list[str]:
    """Return the views that docs/views.md describes for people."""
    _, _, described = VIEWS.read_text("utf-8").partition("\n# Views\n")
    return re.findall(r"^## (\w+)$", described.partition("\n# ")[0], re.MULTILINE)


def described(view: str) -> list[tuple[str, str]]:
    """Return name and type of each column that docs/views.md gives a view."""
    found = []
    for title in [view] if view in {"hosts", "notices"} else ["Columns of the card", view]:
        _, _, after = VIEWS.read_text("utf-8").partition(f"\n## {title}\n")
        found += re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", after.partition("\n#")[0], re.MULTILINE)
    return found


@pytest.fixture(scope="module")
def server(_built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """A server with eight days of a simulated host up to now, and an hour of one whose owners have hostile names."""
    folder = tmp_path_factory.mktemp("bi")
    made = ClickHouseServer(folder / "clickhouse")
    made.configure(STRICT)
    profile = "<profiles><before><readonly>1</readonly></before></profiles>"
    rights = "".join(f"<query>GRANT SELECT ON {each}.*</query>" for each in ("gua", "gua_report"))
    before = f"<profile>before</profile><quota>default</quota><grants>{rights}</grants>"
    (made.folder / "users.d" / "before.xml").write_text(
        f"<clickhouse>{profile}<users><site><password>of another's</password><networks><ip>::/0</ip></networks>"
        f"{before}</site></users></clickhouse>"
    )
    made.start()
    gua = Gua(folder / "home")
    try:
        gua.must("schema", "apply", "--store", made.dsn())
        with open_store(made.dsn()) as store:
            for ticks in (simulated(), hostile()):
                raw = [encode(tick) for tick in ticks]
                spooled = [
                    SpooledTick(id=n, ts_ms=n, raw_length=len(one), blob=compress(one)) for n, one in enumerate(raw)
                ]
                assert store.land(spooled) == []
        gua.must("rollup", "--store", made.dsn())
        made.query(
            "INSERT INTO gua.notices (host, kind, holder, rule, step, reminder, channel, sent, result, since, written) "
            "VALUES ('lab', 'process', 'lab 1 0', 'idle', 1, 1, '1 json://', now64(), 'sent', now64(), now64())"
        )
        model = made.query("SELECT min(model) FROM gua.cards")
        gua.must("prices", "set", model, "2.50", "--currency", "EUR", "--store", made.dsn())
        yield made
    finally:
        made.kill()


def simulated() -> Iterator[Tick]:
    now_ms = int(time.time() * 1000)
    ticks = simulate_from(
        now_ms - DAYS * DAY_MS, seed=7, gpus=4, interval_ms=INTERVAL_MS, origin=origin("lab", Source.SIMULATOR)
    )
    for tick in ticks:
        if tick.ts_ms > now_ms:
            return
        yield tick


def hostile() -> Iterator[Tick]:
    """Yield an hour up to now of a card that five processes hold and do nothing."""
    now_ms = int(time.time() * 1000)
    processes = tuple(
        ProcessReading(
            pid=number,
            created_ms=now_ms - DAY_MS,
            owner=owner,
            comm=owner[:15],
            memory_bytes=2**30,
            utilization=0.0,
            gpu_time_ms=INTERVAL_MS // len(OWNERS),
        )
        for number, owner in enumerate(OWNERS, start=1)
    )
    card = CardReading(
        uuid="GPU-held",
        index=0,
        name="H100",
        duration_ms=INTERVAL_MS,
        gpu_time_ms=INTERVAL_MS,
        mig=Mig.NONE,
        utilization=0.0,
        memory_limit_bytes=80 * 2**30,
        memory_reserved_bytes=0,
        memory_used_bytes=5 * 2**30,
        process_list=ProcessList.KNOWN,
        processes=processes,
    )
    for back in range(11, -1, -1):
        yield Tick(ts_ms=now_ms - back * INTERVAL_MS, origin=origin(HOST, Source.AGENT), cards=(card,))


def origin(host: str, source: Source) -> Origin:
    return Origin(host=host, host_id=host, instance_id="one", source=source, interval_ms=INTERVAL_MS)


@pytest.fixture(scope="module")
def jdbc(server: ClickHouseServer, _bi_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jdbc]:
    with Jdbc(server, tmp_path_factory.mktemp("jdbc")) as connection:
        yield connection


@pytest.fixture(scope="module")
def alchemy(server: ClickHouseServer, _bi_tools: None) -> Iterator[Alchemy]:
    with Alchemy(server) as engine:
        yield engine


@pytest.mark.usefixtures("_bi_tools")
def test_a_user_who_may_change_no_setting_cannot_use_the_jdbc_driver(server: ClickHouseServer, tmp_path: Path) -> None:
    with Jdbc(server, tmp_path, "site") as connection, pytest.raises(JdbcError, match="Cannot modify 'async_insert'"):
        connection.query("SELECT 1")


def test_a_user_who_may_change_no_setting_gets_the_same_report(server: ClickHouseServer, gua: Gua) -> None:
    window = ("--since", "2026-03-01T00:00:00Z", "--until", time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime()))
    theirs, ours = (gua.report(server.dsn(user), *window, "--section", "headline") for user in ("site", "gua_reader"))
    assert theirs["headline"] == ours["headline"]


def test_jdbc_knows_every_public_view_with_types_and_remarks(jdbc: Jdbc) -> None:
    tables = jdbc.tables("gua_public")
    views = public_views()
    assert set(tables) == set(views)
    assert len(views) == len(set(views)) == 12
    for view in views:
        kind, remark = tables[view]
        assert kind == "VIEW"
        assert remark
        columns = jdbc.columns("gua_public", view)
        assert [(name, kind) for name, kind, _ in columns] == described(view)
        assert all(remark for _, _, remark in columns), view


def test_sqlalchemy_knows_every_public_view_with_types_and_comments(alchemy: Alchemy) -> None:
    found = alchemy.ask(views="gua_public")
    views = public_views()
    assert set(found) == set(views)
    for view in views:
        columns = alchemy.ask(columns=view, of="gua_public")
        assert [name for name, _, _ in columns] == [name for name, _ in described(view)]
        assert all(kind and comment for _, kind, comment in columns)


@pytest.mark.parametrize("view", public_views())
def test_each_public_view_is_read_whole(jdbc: Jdbc, alchemy: Alchemy, view: str) -> None:
    rows, characters = jdbc.streamed(f"SELECT * FROM gua_public.{view}")
    assert alchemy.ask(whole=view, of="gua_public") == rows > 0
    assert characters > 0


def test_prepared_statements_bind_what_they_are_given(jdbc: Jdbc, alchemy: Alchemy) -> None:
    sql = "SELECT host, count() FROM gua_public.card_hours WHERE host = {} AND hour >= {} AND ticks < {} GROUP BY host"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 3 * 86_400))
    for host in ("lab", HOST):
        [(found, count)] = jdbc.query(sql.format("?", "?", "?"), host, since, 1_000)
        assert found == host
        values = {"host": host, "since": since, "most": 1_000}
        assert alchemy.ask(sql=sql.format(":host", ":since", ":most"), values=values) == [[host, int(count or 0)]]
    [(newest,)] = jdbc.query("SELECT max(hour) FROM gua_public.card_hours")
    assert jdbc.query_since("SELECT count() > 0 FROM gua_public.card_hours WHERE hour < ?", "2020-01-01T00:00:00") == [
        ("0",)
    ]
    assert newest is not None
    # The driver returns it in the machine's zone; at the turn of a year that is one or the other.
    assert newest[:4] in {time.strftime("%Y", time.gmtime(time.time() + day * 86_400)) for day in (-1, 0, 1)}


def test_an_answer_that_is_larger_than_the_client_s_memory_is_streamed(jdbc: Jdbc) -> None:
    # 400 MB of text through 128 MB of Java's.
    rows, characters = jdbc.streamed("SELECT number, repeat('x', 200) FROM numbers(2000000)")
    assert rows == 2_000_000
    assert characters > 400_000_000


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe.section}: {recipe.title}")
def test_a_recipe_answers_the_same_through_both(jdbc: Jdbc, alchemy: Alchemy, recipe: Recipe) -> None:
    assert not re.search(r"\$|\bLIMIT 0\b", recipe.sql)
    rows = jdbc.query(recipe.sql)
    assert rows
    assert [tuple(map(comparable, row)) for row in rows] == [
        tuple(map(alike, row)) for row in alchemy.ask(sql=recipe.sql.replace(":", "\\:"))
    ]


@pytest.mark.parametrize(
    ("view", "condition"), [("card_ticks", "tick_time >= now() - INTERVAL 1 DAY"), ("idle_streaks", "host LIKE 'o''%'")]
)
@pytest.mark.parametrize("user", ["gua_bi", "gua_reader"])
def test_a_filter_reads_no_ticks_of_other_days_and_hosts(
    server: ClickHouseServer, user: str, view: str, condition: str
) -> None:
    # By the settings of the users' profile: one of them kept filters from the ticks below a view.
    assert rows_read(server, user, f"{view} WHERE {condition}") < rows_read(server, user, view) / 3


def rows_read(server: ClickHouseServer, user: str, what: str) -> int:
    """Return how many rows the server reads to sum a query on gua_public."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/?wait_end_of_query=1",
        data=f"SELECT countIf(card != '') FROM gua_public.{what}".encode(),
        headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS[user]},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the test's own server
        return int(json.loads(answer.headers["X-ClickHouse-Summary"])["read_rows"])


def test_each_recipe_has_three_charts() -> None:
    sections = [recipe.section for recipe in RECIPES]
    assert {section: sections.count(section) for section in sections} == dict.fromkeys(
        ("DBeaver", "Metabase", "Superset", "Power BI and Excel", "Jupyter", "Grafana"), 3
    )


def comparable(value: object) -> object:
    """Return a value as both write it: numbers by their size, times without what follows the seconds."""
    if value is None:
        return None
    try:
        return float(str(value).replace("True", "1").replace("False", "0").replace("true", "1").replace("false", "0"))
    except ValueError:
        return re.sub(r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d).*", r"\1 \2", str(value))


def alike(value: object) -> object:
    """Return what equals the value of a repeated query: the server adds up fractions in any order."""
    found = comparable(value)
    return pytest.approx(found, rel=1e-9, abs=1e-9) if isinstance(found, float) else found


@pytest.mark.usefixtures("_bi_tools")
def test_the_cells_of_a_notebook_run(server: ClickHouseServer, tmp_path: Path) -> None:
    cells = "\n".join(blocks("python"))
    url = f"http://127.0.0.1:{server.http_port}/gua_public"
    printed = run_cells(cells, tmp_path, GUA_CLICKHOUSE_URL=url, GUA_BI_PASSWORD=PASSWORDS["gua_bi"])
    assert "shape: (8, " in printed or "shape: (7, " in printed or "shape: (9, " in printed


def test_a_table_for_excel_comes_as_csv(server: ClickHouseServer) -> None:
    (command,) = (block for block in blocks("sh") if block.startswith("curl"))
    done = subprocess.run(
        ["sh", "-c", command.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)],
        env={
            "PATH": "/usr/bin:/bin",
            "GUA_BI_PASSWORD": PASSWORDS["gua_bi"],
            "GUA_CLICKHOUSE_URL": f"http://127.0.0.1:{server.http_port}/",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    header, *lines = done.stdout.splitlines()
    assert header == '"day","host","state","gpu_hours"'
    assert len(lines) > 10


def test_gua_sql_queries_as_the_user_for_bi_tools(server: ClickHouseServer, gua: Gua) -> None:
    (command,) = (block for block in blocks("sh") if block.startswith("gua sql"))
    _, _, sql = shlex.split(command)
    assert "idle-held" in gua.must("sql", sql, "--store", server.dsn("gua_bi"))
    for act in ("SELECT * FROM system.users", "SELECT * FROM gua.cards"):
        done = gua.run("sql", act, "--store", server.dsn("gua_bi"))
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    # The owner may change all that is there, but not so.
    assert "0\n1 row" in gua.must("sql", "SELECT getSetting('readonly') = 0 AS a", "--store", server.dsn())
    done = gua.run("sql", "SELECT * FROM numbers(100001)", "--store", server.dsn("gua_reader"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


# What no user may do through a tool; the reader and the owner differ in what is refused by the first.
FORBIDDEN = [
    "SELECT * FROM system.users",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.query_log",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "CREATE DATABASE other",
    "CREATE USER other",
    "GRANT SELECT ON gua.* TO gua_reader",
    "DROP DATABASE gua",
    "KILL QUERY WHERE 1",
]
OF_READER = [
    "INSERT INTO gua.card_ticks (host) VALUES ('a')",
    "INSERT INTO gua.settings (key, value) VALUES ('active_utilization', 0)",
    "CREATE VIEW gua.other AS SELECT 1",
    "CREATE TEMPORARY TABLE other (a UInt8)",
    "ALTER TABLE gua.card_ticks DELETE WHERE 1",
    "DROP VIEW gua.cards",
    "TRUNCATE TABLE gua.card_ticks",
    "SELECT * FROM gua.otel_metrics_gauge",
    "SET readonly = 0",
    "SET max_memory_usage = 0",
    "SET max_execution_time = 0",
    "SET max_threads = 64",
    "SET max_concurrent_queries_for_user = 0",
    "SET profile = 'gua_writer'",
]
OF_BI = [
    "SELECT * FROM gua.cards",
    "SELECT * FROM gua.card_hours",
    "SELECT * FROM gua.hourly_cards",
    "SELECT * FROM gua.described_cards",
    "SELECT * FROM gua.changed_hours",
    "INSERT INTO gua_public.cards (host) VALUES ('a')",
    "CREATE VIEW gua_public.other AS SELECT 1",
    "DROP VIEW gua_public.cards",
    "DROP DATABASE gua_public",
    "SHOW CREATE TABLE gua.card_ticks",
]
ACTS = {
    "gua_owner": FORBIDDEN,
    "gua_writer": [
        *FORBIDDEN,
        *(act for act in OF_READER if "profile" not in act and "readonly" not in act),
        "SELECT * FROM gua.cards",
    ],
    "gua_reader": [*FORBIDDEN, *OF_READER],
    "gua_bi": [*FORBIDDEN, *OF_READER, *OF_BI],
}
REFUSAL = re.compile(r"Code: (497|164|452|60)\b")


@pytest.mark.usefixtures("_bi_tools")
@pytest.mark.parametrize("user", list(ACTS))
def test_forbidden_acts_are_refused_in_a_line_through_both(server: ClickHouseServer, tmp_path: Path, user: str) -> None:
    with (
        Jdbc(server, tmp_path, user, database="gua") as connection,
        Alchemy(server, user, database="gua") as engine,
    ):
        for act in ACTS[user]:
            with pytest.raises(JdbcError, match=REFUSAL) as by_driver:
                connection.query(act)
            assert len(str(by_driver.value).strip().splitlines()) == 1
            with pytest.raises(AlchemyError, match=REFUSAL.pattern.lower().replace("code", "(?i:code)")):
                engine.ask(sql=act)
    assert int(server.query("SELECT count() FROM gua.cards")) > 0


def test_the_numbers_are_those_of_a_report(server: ClickHouseServer, gua: Gua, alchemy: Alchemy) -> None:
    # All of it: a report cuts the ticks at its edges, hours have them whole.
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 9 * 86_400))
    report = gua.report(server.dsn("gua_reader"), "--since", since)

    def rows_of(sql: str) -> dict[Any, list[float]]:
        return {tuple(row[:2]): row[2:] for row in alchemy.ask(sql=sql)}

    states = rows_of("SELECT state, '', sum(gpu_hours) FROM gua_public.card_hours GROUP BY state")
    reported = report["headline"]["states"]
    assert {state: hours for (state, _), (hours,) in states.items()} == pytest.approx(
        {state: reported[state]["gpu_hours"] for state, _ in states}, rel=1e-6
    )
    assert len(states) >= 3
    # A host of another name has more owners than a report lists.
    mine = [each for each in report["owners"] if each["kind"] == "listed"]
    sums: dict[tuple[str, str], list[float]] = {}
    for each in mine:
        for state, amount in each["states"].items():
            if amount["gpu_hours"]:
                key = (each["owner"] or "", state)
                sums.setdefault(key, [0.0])[0] += amount["gpu_hours"]
    costs = rows_of("SELECT ifNull(owner, ''), state, sum(gpu_hours), sum(cost) FROM gua_public.costs GROUP BY 1, 2")
    usage = rows_of("SELECT ifNull(owner, ''), state, sum(gpu_hours) FROM gua_public.usage_hours GROUP BY 1, 2")
    assert len(sums) > 4
    for key, (hours,) in sums.items():
        assert usage[key][0] == pytest.approx(hours, abs=1e-5), key
        assert costs[key][0] == pytest.approx(hours, abs=1e-5), key
        # All cards of the lab are of one model, with one price from the beginning; that of the other host has none.
        cost = None if key[0] in map(storable, OWNERS) else pytest.approx(2.5 * hours, abs=1e-4)
        assert costs[key][1] == cost, key


# A sum of each view of hours that is the same from ticks and from rolled up hours.
HOUR_SUMS = {
    "card_hours": "sum(card_ticks)",
    "owner_hours": "sum(gpu_time_ms)",
    "allocation_hours": "sum(gpu_time_ms)",
    "execution_idle_hours": "sum(sampled_gpu_us)",
}
STEPS = 8


def test_hours_that_are_rolled_up_during_a_query_count_once(server: ClickHouseServer) -> None:
    # So slow that the hours can be counted at each moment of a question: while it takes the rows of each of its tables.
    asked = {
        view: f"SELECT {total} FROM gua.{view} SETTINGS merge_tree_storage_snapshot_sleep_ms = 80"
        for view, total in HOUR_SUMS.items()
    }
    server.query("CREATE TABLE gua.kept_rollups AS gua.rollups")
    try:
        with open_store(server.dsn()) as store:  # what arrived within the last moments waits
            while int(server.query("SELECT uniq(hour) FROM gua.rollups")) < (DAYS - 1) * 24:
                time.sleep(0.0 if store.count_hours() else 1.0)
        server.query("INSERT INTO gua.kept_rollups SELECT * FROM gua.rollups FINAL")
        with ThreadPoolExecutor(len(asked)) as threads:
            begun = time.monotonic()
            reported = dict(zip(asked, threads.map(server.query, asked.values()), strict=True))
            took = time.monotonic() - begun
            assert all(int(total) > 0 for total in reported.values())
            for step in range(STEPS):
                server.query("TRUNCATE TABLE gua.rollups")
                answers = threads.map(server.query, asked.values())
                time.sleep(took * step / STEPS)
                server.query("INSERT INTO gua.rollups SELECT * FROM gua.kept_rollups")
                assert dict(zip(asked, answers, strict=True)) == reported, step
    finally:
        server.query("INSERT INTO gua.rollups SELECT * FROM gua.kept_rollups")
        server.query("DROP TABLE gua.kept_rollups")


def test_hostile_names_come_through_whole(server: ClickHouseServer, jdbc: Jdbc, alchemy: Alchemy) -> None:
    # Agents cut and clean names; other producers need not.
    longer = "concat(owner, char(0), repeat('o', 65536)) AS owner, pid + 9 AS pid"
    theirs = "SELECT * FROM gua.process_ticks FINAL WHERE host LIKE 'o%' AND pid = 1"
    server.query(f"INSERT INTO gua.process_ticks SELECT * REPLACE({longer}) FROM ({theirs})")
    sql = "SELECT DISTINCT owner FROM gua_public.idle_streaks WHERE host LIKE 'o%' ORDER BY owner"
    found = [str(owner) for (owner,) in jdbc.query(sql)]
    assert found == [owner for (owner,) in alchemy.ask(sql=sql)]
    assert set(found) == {*map(storable, OWNERS), f"{OWNERS[0]}\0{'o' * 65_536}"}


WRITTEN = """
INSERT INTO gua.otel_metrics_gauge (ScopeName, MetricName, TimeUnix)
SELECT 'other', 'a', now64(9) FROM numbers(1000)
"""


def test_twenty_dashboards_at_once_leave_the_server_and_its_writer_alone(server: ClickHouseServer) -> None:
    charts = [recipe.sql for recipe in RECIPES]
    whole = [f"SELECT * FROM gua_public.{view}" for view in public_views()]
    codes: list[int] = []
    written: list[int] = []
    ended = threading.Event()

    def look(number: int) -> None:
        shown = [charts[number % len(charts)], whole[number % len(whole)]]
        codes.extend(asked(server, "gua_bi", sql) for sql in shown)

    def write() -> None:
        while not ended.is_set():
            written.append(asked(server, "gua_writer", WRITTEN))

    before = int(server.query("SELECT count() FROM gua.otel_metrics_gauge"))
    writer = threading.Thread(target=write)
    writer.start()
    run_together([partial(look, number) for number in range(20)])
    ended.set()
    writer.join()
    # A reader who takes all that readers may have is refused, in a line; nothing else goes wrong.
    assert len(codes) == 40
    assert set(codes) <= {0, 241, 202}
    assert codes.count(0) > len(codes) // 2
    assert set(written) == {0}
    assert int(server.query("SELECT count() FROM gua.otel_metrics_gauge")) - before == 1_000 * len(written)


def asked(server: ClickHouseServer, user: str, sql: str) -> int:
    """Run a statement, read all of its answer, and return the number of the error, 0 if there is none."""
    http_connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=600)
    secret = {"X-ClickHouse-User": user, "X-ClickHouse-Key": PASSWORDS[user]}
    with closing(http_connection):
        http_connection.request("POST", "/?wait_end_of_query=1", body=sql.encode(), headers=secret)
        answer = http_connection.getresponse()
        if answer.status == HTTPStatus.OK:
            while answer.read(1 << 20):
                pass
            return 0
        assert len(answer.read().decode().strip().splitlines()) == 1
        return int(answer.headers["X-ClickHouse-Exception-Code"])


def run_together(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
