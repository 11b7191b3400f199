"""The real servers, fresh for every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

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
    """Make what tells of pods' devices as a kubelet does."""
    _make(pod_resources_server)


@pytest.fixture(scope="session")
def _bi_tools() -> None:
    """Fetch the JDBC driver, and make the environment that notebooks and Superset have."""
    _make(jdbc_driver, notebook)


@pytest.fixture
def clickhouse(_built: None, tmp_path: Path) -> Iterator[ClickHouseServer]:
    server = ClickHouseServer(tmp_path / "clickhouse")
    server.start()
    yield server
    server.kill()


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
