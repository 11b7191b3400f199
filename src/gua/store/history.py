"""Stored ticks of one host as typed rows, read by time range.

Times are Unix ms; amounts are the stored integers (ratios in 1/10,000); ``None`` is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gua.core.stored import CardValues, ProcessValues
from gua.core.view import Count, Moment, R, View
from gua.store.database import Store

_SLICE: Final = """
WHERE host = {host:String}
    AND ts > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND ts <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardRow(CardValues):
    """One card's tick; ``duration_ms`` is ``None`` if it was only partly stored."""

    ts_ms: Moment
    gpu: str
    duration_ms: Count | None
    gpu_time_ms: Count | None
    allocation: str | None
    unallocated_gpu_time_ms: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRow(ProcessValues):
    """One process on a card in a tick; ``created_ms`` is 0 if unknown."""

    ts_ms: Moment
    gpu: str
    created_ms: Count
    duration_ms: Count | None
    gpu_time_ms: Count | None
    uid: Count | None
    workload_kind: str | None
    workload_model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationRow:
    """One allocation of a card in a tick."""

    ts_ms: Moment
    gpu: str
    source: str
    allocation_id: str
    duration_ms: Count | None
    gpu_time_ms: Count | None
    relation: str | None
    owner: str | None
    uid: Count | None
    kind: str | None
    since_ms: Moment | None
    until_ms: Moment | None
    job_name: str | None
    pod_uid: str | None
    pod_name: str | None
    pod_namespace: str | None
    workload_kind: str | None
    workload_model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocationSourceRow:
    """One allocation source in a tick."""

    ts_ms: Moment
    source: str
    duration_ms: Count | None
    status: str | None
    reason: str | None
    waiting: Count | None
    wait_ms: Count | None
    waited_ms: Count | None


class CardInfo(NamedTuple):
    """Description of a card from its newest tick."""

    gpu: str
    gpu_index: Count | None = None
    name: str | None = None
    model: str | None = None
    vendor: str | None = None
    driver_version: str | None = None
    pci: str | None = None
    parent: str | None = None


CARDS: Final = View("card_ticks", CardRow)
PROCESSES: Final = View("process_ticks", ProcessRow)
ALLOCATIONS: Final = View("allocation_ticks", AllocationRow)
SOURCES: Final = View("allocation_source_ticks", AllocationSourceRow)
_INFOS: Final = View("card_info", CardInfo)
_MOMENTS: Final = {
    name: f"toUnixTimestamp64Milli({name[:-3]}) AS {name}" for name in ("ts_ms", "created_ms", "since_ms", "until_ms")
}


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


def rows_of_ticks(
    store: Store, host: str, *, since_ms: int, until_ms: int
) -> tuple[list[CardRow], list[ProcessRow], list[AllocationRow], list[AllocationSourceRow]]:
    """Return the host's card ticks in (since, until], and their processes, allocations and sources, oldest first."""
    parameters = {"host": host, "since_ms": since_ms, "until_ms": until_ms}

    def rows(table: View[R], order: str) -> list[R]:
        return table.parsed(store.select(f"{_selected(table)} {_SLICE} ORDER BY ts, {order}", parameters))

    return (
        rows(CARDS, "gpu"),
        rows(PROCESSES, "gpu, pid, created"),
        rows(ALLOCATIONS, "gpu, source, allocation_id"),
        rows(SOURCES, "source"),
    )


def card_info(store: Store, host: str) -> Mapping[str, CardInfo]:
    """Return the description of each card of the host, by UUID."""
    rows = store.select(f"{_selected(_INFOS)} WHERE host = {{host:String}}", {"host": host})
    return {info.gpu: info for info in _INFOS.parsed(rows)}


def _selected(table: View[Any]) -> str:
    columns = ", ".join(_MOMENTS.get(name, name) for name in table.columns)
    return f"SELECT {columns} FROM gua.{table.name} FINAL"  # noqa: S608 - gua's own names
