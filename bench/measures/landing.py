"""Land a spool in a store, beside the engine reading the same bytes and keeping nothing. A process of its own; JSON.

Run by bench_store.py: python -m measures.landing SPOOL DSN [merge]. CPU time of all threads, wall beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from gua.agent.delivery import BATCH_TICKS, drain
from gua.spool.queue import Spool
from gua.store.database import Store, open_store
from gua.store.landing import MESSAGE, batch_bytes
from gua.store.statements import proto_file

_COLUMNS = "SELECT name, type FROM system.columns WHERE database = 'gua' AND table = 'otlp_requests' ORDER BY position"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall seconds and the CPU seconds of some work."""
    begun, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - spent


def reading(store: Store, spool: Spool) -> Callable[[], object]:
    """Return what reads the spool's first batch as a landing does, every column of it, and keeps nothing."""
    columns = ", ".join(f"{row['name']} {row['type']}" for row in store.select(_COLUMNS))

    def work() -> object:
        with TemporaryDirectory() as folder:
            file = Path(folder, "batch")
            file.write_bytes(batch_bytes(spool.peek("store", BATCH_TICKS)))
            return store.select(
                f"SELECT count() AS requests FROM file('{file}', 'ProtobufList', '{columns}', 'zstd') "  # noqa: S608 - our own
                f"WHERE NOT ignore(*) SETTINGS format_schema = '{proto_file()}:{MESSAGE}'"
            )

    return work


def main() -> None:
    path, dsn, *merged = sys.argv[1:]
    found: dict[str, float] = {}
    opened: list[Store] = []
    found["open"], _ = timed(lambda: opened.append(open_store(dsn)))
    with opened[0] as store, Spool(Path(path), max_bytes=None) as spool:
        read = reading(store, spool)
        read()
        batch = len(spool.peek("store", BATCH_TICKS))
        found["read_cpu_ms"] = min(timed(read)[1] for _ in range(3)) * 1000 / batch
        ticks = spool.depth("store")
        found["land"], cpu = timed(lambda: drain(spool, "store", store))
        found |= {"ticks": ticks, "land_cpu_ms": cpu * 1000 / ticks}
        if merged:
            found["merge"], _ = timed(store.merge)
            found["hours"], cpu = timed(store.count_hours)
            found["hours_cpu_ms"] = cpu * 1000 / ticks
    print(json.dumps(found))


if __name__ == "__main__":
    main()
