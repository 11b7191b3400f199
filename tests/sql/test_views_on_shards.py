"""Views on two shards, written through one server and read through the other: the cases that shards can change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gua.store.database import Store, open_store
from servers.shards import UNREPLICATED, Shards
from servers.tools import MissingToolError, clickhouse_library
from sql import test_views
from sql.cases import on_shards, runs
from sql.engine import Engine

pytestmark = pytest.mark.pipeline


# What each shard has to do for its own hosts.
OF_EACH_SHARD = {"changed_hours", "due_hours"}


class ShardedEngine(Engine):
    """Two shards as one engine."""

    def __init__(self, shards: Shards, writers: Sequence[Store], reader: Store) -> None:
        super().__init__("sharded", writers[0], reader)
        self._shards = shards
        self._writers = writers

    def _truncate(self) -> None:
        """Empty every table on each server; a Distributed one has no rows of its own."""
        for server in self._shards.servers:
            names = server.query(
                "SELECT name FROM system.tables WHERE database = 'gua' AND name LIKE '%\\_local' "
                "AND engine LIKE '%MergeTree' AND name != 'schema_versions_local'"
            )
            for name in names.split():
                server.query(f"TRUNCATE TABLE gua.{name}")

    def rows(self, view: str, parameters: Mapping[str, object] | None) -> list[dict[str, Any]]:
        """Return the rows as one server returns them for all, or each of its own."""
        if view not in OF_EACH_SHARD:
            return super().rows(view, parameters)
        engines = [Engine("sharded", writer, writer) for writer in self._writers]
        return [row for engine in engines for row in engine.rows(view, parameters)]

    def count_hours(self) -> None:
        """Count every hour: each shard counts those of its own hosts."""
        for writer in self._writers:
            writer.count_hours()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Start both servers; where they cannot be made, leave these tests out or fail if none may be."""
    try:
        clickhouse_library()
    except MissingToolError as missing:
        reason = f"left out: the server's library comes with npm, and {missing}"
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    shards = Shards(tmp_path_factory.mktemp("shards"))
    try:
        shards.start()
        # Hours are counted when the test says so, and no row waits to become visible.
        shards.apply_schema({**UNREPLICATED, "SETTLE_SECONDS": "0"})
        for server in shards.servers:
            server.query("DROP VIEW gua.look_for_due_hours")
            server.query("DROP VIEW gua.look_for_due_days")
        first, second = shards.servers
        with (
            open_store(first.dsn()) as writer,
            open_store(second.dsn()) as other,
            open_store(second.dsn("gua_reader")) as reader,
        ):
            yield ShardedEngine(shards, (writer, other), reader)
    finally:
        shards.kill()


@runs(on_shards(), "sharded")
def test_case(opened: Engine, case: Path, *, counted: bool) -> None:
    test_views.test_case(opened, case, counted=counted)
