"""Stored ticks of one host, read by time range.

Rows have the columns of the tables of ``clickhouse/10_ticks``, with times as Unix ms in ``ts_ms``, ``created_ms``,
``since_ms`` and ``until_ms``; amounts are the stored integers (ratios in 1/10,000); ``None`` is unknown, also as a
``duration_ms`` that is partly stored. A ``created_ms`` of 0 is unknown.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gua.core.ports import Row
from gua.store.database import Store

_SLICE: Final = """
WHERE host = {host:String}
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
"""


class Day(NamedTuple):
    """One UTC day with ticks of a host: first and last tick [Unix ms], and the smallest interval [ms]."""

    first_ms: int
    last_ms: int
    smallest_ms: int | None


def recorded_days(store: Store, host: str) -> Sequence[Day]:
    """Return the days with ticks of the host, oldest first."""
    rows = store.select(
        "SELECT toUnixTimestamp64Milli(min(ts)) AS first_ms, toUnixTimestamp64Milli(max(ts)) AS last_ms,"
        " min(interval_ms) AS smallest_ms FROM gua.card_ticks WHERE host = {host:String}"
        " GROUP BY toDate(ts) ORDER BY first_ms",
        {"host": host},
    )
    return [Day(**row) for row in rows]


def rows_of_ticks(store: Store, host: str, *, since_ms: int, until_ms: int) -> tuple[list[Row], ...]:
    """Return the host's card ticks in (since, until], and their processes, allocations and sources, oldest first."""
    parameters = {"host": host, "since_ms": since_ms, "until_ms": until_ms}

    def rows(table: str, order: str, *moments: str) -> list[Row]:
        columns = ", ".join(f"toUnixTimestamp64Milli({name}) AS {name}_ms" for name in ("ts", *moments))
        sql = f"SELECT * EXCEPT ts, {columns} FROM gua.{table} FINAL {_SLICE} ORDER BY ts, {order}"  # noqa: S608 - own names
        return store.select(sql, parameters)

    return (
        rows("card_ticks", "gpu"),
        rows("process_ticks", "gpu, pid, created", "created"),
        rows("allocation_ticks", "gpu, source, allocation_id", "since", "until"),
        rows("allocation_source_ticks", "source"),
    )


def card_info(store: Store, host: str) -> dict[str, Row]:
    """Return the description of each card of the host from its newest tick, by UUID."""
    rows = store.select("SELECT * FROM gua.card_info FINAL WHERE host = {host:String}", {"host": host})
    return {row["gpu"]: row for row in rows}
