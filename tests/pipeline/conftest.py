"""The real servers, fresh for every test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from servers.clickhouse import ClickHouseServer
from servers.collector import Collector
from servers.gua import Gua
from servers.tools import (
    MissingToolError,
    checkers,
    clickhouse_library,
    collector_binary,
    helm,
    jdbc_driver,
    kustomize,
    notebook,
    pod_resources_server,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.pipeline)


@pytest.fixture(scope="session")
def _built() -> None:
    """Make both servers once; where that is impossible, leave the tests out, or fail if none may be."""
    _make(collector_binary, clickhouse_library)


@pytest.fixture(scope="session")
def _kubernetes_tools() -> None:
    """Make what puts manifests together and what checks them."""
    _make(kustomize, checkers)


@pytest.fixture(scope="session")
def _helm() -> None:
    """Make what puts the chart together."""
    _make(helm)


@pytest.fixture(scope="session")
def _pod_resources() -> None:
    """Build the server that reports the devices of pods as a kubelet does."""
    _make(pod_resources_server)


@pytest.fixture(scope="session")
def _bi_tools() -> None:
    """Fetch the JDBC driver, and make the environment that notebooks and Superset have."""
    _make(jdbc_driver, notebook)


@pytest.fixture
def clickhouse(request: pytest.FixtureRequest, _built: None, tmp_path: Path) -> Iterator[ClickHouseServer]:
    server = ClickHouseServer(tmp_path / "clickhouse")
    if "applied" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("applied_once"), server.data, symlinks=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def applied(clickhouse: ClickHouseServer) -> ClickHouseServer:
    """Return the server as `gua schema apply` leaves it. Not for a test of the applying."""
    return clickhouse


@pytest.fixture(scope="session")
def applied_once(_built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a server to which the schema was applied: a copy starts in less time than it is applied."""
    folder = tmp_path_factory.mktemp("applied")
    server = ClickHouseServer(folder / "clickhouse")
    server.start()
    Gua(folder / "home").must("schema", "apply", "--store", server.dsn())
    server.stop()
    return server.data


@pytest.fixture
def collector(clickhouse: ClickHouseServer, tmp_path: Path) -> Iterator[Collector]:
    process = Collector(tmp_path / "collector", clickhouse)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def gua(tmp_path: Path) -> Gua:
    return Gua(tmp_path / "home")


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Return a function that reports an embedded store into which commands have put their ticks: made once for all."""

    @cache
    def stored(*commands: tuple[str | Path, ...]) -> tuple[Gua, str]:
        folder = tmp_path_factory.mktemp("reported")
        gua, store = Gua(folder / "home"), f"chdb://{folder / 'store'}"
        for command in commands:
            gua.must(*command, "--store", store)
        return gua, store

    @cache
    def report(*commands: tuple[str | Path, ...], options: tuple[str, ...] = ()) -> dict[str, Any]:
        gua, store = stored(*commands)
        return gua.report(store, *options)

    return report


@pytest.fixture(scope="session")
def recordings() -> list[Path]:
    """Return the recordings of an A100, an H100 and an L40S card, oldest name first."""
    found = sorted((Path(__file__).parents[1] / "fixtures").rglob("*_dose_response.jsonl"))
    assert len(found) == 3
    return found


def _make(*tools: Callable[[], object]) -> None:
    try:
        for make in tools:
            make()
    except MissingToolError as missing:
        reason = f"left out: the pipeline tests make their tools with Go, npm, Java and Maven, and {missing}"
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
