"""Both engines with the shipped schema, each made once, and empty for every test.

A process can hold one embedded store at a time, so it is closed after each file of tests; opening it again
takes a tenth of a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gua.store import statements
from gua.store.database import open_store
from servers.clickhouse import ClickHouseServer
from servers.tools import MissingToolError, clickhouse_library
from sql.cases import runs_on
from sql.engine import Engine
from sql.older import OldestEngine

ENGINES = [
    pytest.param("embedded", marks=pytest.mark.engine),
    pytest.param("served", marks=pytest.mark.pipeline),
    pytest.param("oldest", marks=pytest.mark.pipeline),
]
# What they read is tried on every engine. On servers tests/pipeline/test_bi.py reads public views, and
# tests/pipeline/test_cluster.py whole reports of hours that were rolled up.
OF_THE_NEWEST = {"test_public_views.py", "test_merged_days.py"}
# No embedded store has a cluster's tables.
OF_SERVERS = {"test_cluster_forms.py"}
OF_THE_OLDEST = {"test_views.py", "test_rule_cases.py", "test_allocation_cases.py", "test_cluster_forms.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the oldest engine the cases alone, and give each engine all of its tests: it is started once.

    What lands in the oldest comes from a Collector, into the landing tables.
    """
    kept = []
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        engine = parameters.get("opened")
        if engine == "served" and item.path.name in OF_THE_NEWEST:
            continue
        if engine == "embedded" and item.path.name in OF_SERVERS:
            continue
        if engine == "oldest" and item.path.name not in OF_THE_OLDEST:
            continue
        case = parameters.get("case")
        if engine and case and not runs_on(engine, case, counted=parameters["counted"]):
            continue
        if engine:
            item.add_marker(pytest.mark.xdist_group(f"sql-{engine}"))
        kept.append(item)
    items[:] = kept


@pytest.fixture(scope="session")
def embedded_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded") / "store"


def count_hours_only_on_request(process: ClickHouseServer) -> None:
    """Let the server not count hours by itself in the middle of a test, and not wait for rows that are there."""
    process.query("DROP VIEW gua.look_for_due_hours")
    process.query("DROP VIEW gua.look_for_due_days")
    (due,) = [
        one
        for one in statements.load({**statements.server_tokens(), "SETTLE_SECONDS": "0"})
        if one.creates == ("gua", "due_hours")
    ]
    process.query(due.sql)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """Start a server and give it the schema; where it cannot be made, leave its tests out or fail if none may be."""
    try:
        clickhouse_library()
    except MissingToolError as missing:
        reason = f"left out: the server's library comes with npm, and {missing}"
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    process = ClickHouseServer(tmp_path_factory.mktemp("clickhouse"))
    process.start()
    try:
        with open_store(process.dsn()) as store:
            store.schema.apply()
        count_hours_only_on_request(process)
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="session")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldestEngine]:
    with closing(OldestEngine(tmp_path_factory.mktemp("oldest") / "store")) as engine:
        yield engine


@pytest.fixture(scope="module", params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with ExitStack() as stores:
        if request.param == "embedded":
            folder = request.getfixturevalue("embedded_folder")
            store = stores.enter_context(open_store(f"chdb://{folder}"))
            yield Engine("embedded", store, store)
        elif request.param == "oldest":
            oldest = request.getfixturevalue("oldest")
            yield Engine("oldest", oldest, oldest)
        else:
            process = request.getfixturevalue("server")
            writer = stores.enter_context(open_store(process.dsn()))
            reader = stores.enter_context(open_store(process.dsn("gua_reader")))
            yield Engine("served", writer, reader)


@pytest.fixture
def engine(opened: Engine) -> Engine:
    opened.clear()
    return opened
