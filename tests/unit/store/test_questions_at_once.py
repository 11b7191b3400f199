"""How many queries a server gets at the same time."""

from __future__ import annotations

import threading
from typing import Any

from clickhouse_connect.driver.query import QueryResult

from gua.store.database import MOST_QUERIES_AT_ONCE, Store
from gua.store.dsn import ServerDsn

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
