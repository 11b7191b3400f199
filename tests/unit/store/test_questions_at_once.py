"""How many queries a server gets at the same time, and on how many threads each."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from clickhouse_connect.driver.query import QueryResult

from gua.store.database import MOST_QUERIES_AT_ONCE, Store
from gua.store.dsn import ServerDsn
from gua.store.statements import load, server_tokens

DSN = ServerDsn(host="db.example", port=8123, secure=False, user="gua_reader", password="")


class Crowded:
    """A client that answers its queries once the maximum number is waiting, and counts them."""

    def __init__(self) -> None:
        self.server_settings: dict[str, Any] = {}
        self.most = self._now = 0
        self._lock = threading.Lock()
        self._full = threading.Barrier(MOST_QUERIES_AT_ONCE)

    def query(self, *_: object, **__: object) -> QueryResult:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._full.wait(timeout=60)
        with self._lock:
            self._now -= 1
        return QueryResult(block_gen=iter([[(1,)]]), column_names=("one",))  # type: ignore[arg-type]


def test_the_questions_of_many_hosts_wait_for_one_another() -> None:
    client = Crowded()
    store = Store(DSN, client, None)  # type: ignore[arg-type] # what a question needs of it
    threads = [threading.Thread(target=store.select, args=("SELECT 1",)) for _ in range(4 * MOST_QUERIES_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert client.most == MOST_QUERIES_AT_ONCE


class Recorder:
    """A client of a server that lets its user set the number of threads, or not; it records the settings of queries."""

    def __init__(self, *, readonly: int) -> None:
        self.server_settings = {"max_threads": SimpleNamespace(readonly=readonly)}
        self.settings: list[Mapping[str, object]] = []

    def query(self, *_: object, settings: Mapping[str, object], **__: object) -> QueryResult:
        self.settings.append(settings)
        return QueryResult(block_gen=iter([]), column_names=())  # type: ignore[arg-type]


@pytest.mark.parametrize(("view", "readonly", "threads"), [("usage", 0, 1), ("usage", 1, None), ("rules", 0, None)])
def test_views_of_parts_of_a_fleet_are_queried_on_one_thread(view: str, readonly: int, threads: int | None) -> None:
    client = Recorder(readonly=readonly)
    parameters = {
        "since_ms": 0,
        "until_ms": 1,
        "hosts": [],
        "tick_hours": [],
        "use_hourly": 1,
        "days": [],
        "unmerged_since_ms": 0,
        "by": "owner",
    }
    Store(DSN, client, None).rows(view, parameters | {"price_models": [], "price_starts": []})  # type: ignore[arg-type]
    assert client.settings[-1].get("max_threads") == threads


def test_no_view_sets_the_threads_of_a_subquery() -> None:
    """Windows over a Distributed table are incomplete then: ``bench_equal.py --on shards`` found it."""
    assert [one.name for one in load(server_tokens()) if "max_threads" in one.sql] == []
