"""``gua schema`` on two shards without Keeper: applied to each, compared on each, rows kept as long on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.clickhouse import ClickHouseServer
from servers.gua import Gua
from servers.shards import CLUSTER, Shards

FORM = ("--cluster", CLUSTER, "--replication", "none")


@pytest.fixture
def shards(_built: None, tmp_path: Path) -> Iterator[Shards]:
    both = Shards(tmp_path / "shards")
    both.start()
    yield both
    both.kill()


def test_it_is_applied_to_each_server_and_stays_as_it_was_set(gua: Gua, shards: Shards) -> None:
    first, second = (server.dsn() for server in shards.servers)
    # The first cannot note what it did while the second has no tables for it.
    alone = gua.run("schema", "apply", "--store", first, *FORM, "--keep-ticks", "90d")
    assert alone.returncode == 3
    assert "apply the schema to every server of the cluster lab, then here again" in alone.stderr
    assert len(alone.stderr.splitlines()) == 1

    for store in (second, first):
        assert "ticks 90d" in gua.must("schema", "apply", "--store", store, *FORM, "--keep-ticks", "90d")
    assert "ticks 90d" in gua.must("schema", "apply", "--store", first)
    gua.must("schema", "check", "--store", first)
    refused = gua.run("schema", "apply", "--store", second, "--cluster", "other")
    assert refused.returncode == 2
    assert "stands on the cluster lab already" in refused.stderr
    for server in shards.servers:
        noted = "SELECT groupUniqArray(value) FROM gua.settings WHERE key = 'keep_ticks_days'"
        assert server.query(noted) == "[90]"
        assert server.query("SELECT value FROM gua.settings FINAL WHERE key = 'keep_ticks_days'") == "90"
        gua.must("schema", "check", "--store", server.dsn("gua_reader"))
        assert "toIntervalDay(90)" in server.query("SHOW CREATE TABLE gua.process_ticks_local")

    for store in (first, second):
        assert "ticks forever" in gua.must("schema", "apply", "--store", store, "--keep-ticks", "forever")
    gua.must("schema", "check", "--store", first)
    assert shards.servers[0].query("SELECT count() FROM gua.settings WHERE key = 'keep_ticks_days'") == "0"


def test_an_owner_without_the_rights_of_a_cluster_gets_an_error_before_anything_changes(
    gua: Gua, clickhouse: ClickHouseServer
) -> None:
    done = gua.run("schema", "apply", "--store", clickhouse.dsn(), *FORM)
    assert done.returncode == 3
    assert "it lacks CLUSTER ON *.*" in done.stderr
    assert clickhouse.query("SELECT count() FROM system.databases WHERE name LIKE 'gua%'") == "0"
