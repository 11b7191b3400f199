"""The rows of such databases, card by card in the order of time, with the processes of each; memory stays flat."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from gua.imports.legacy_v1.contents import Contents
from gua.imports.legacy_v1.database import LegacyDatabase

_CARD = ("ts", "util_pct", "run_id", "gpu_index", "memory_used_mb", "temperature_c", "power_w", "usage_state")
_PROCESS = ("ts", "run_id", "pid", "mem_used_mb", "owner_user", "loginuid_user", "process_name", "process_type")


class Process(NamedTuple):
    """A row of ``proc_sample``, without what the card's row says already."""

    run: int | None
    pid: int
    mib: int | None
    user: str | None
    login: str | None
    name: str | None
    type: str | None


class Row(NamedTuple):
    """A row of ``gpu_sample`` with the processes that its own report joins to it. ``file`` counts the databases."""

    ts: str
    file: int
    uuid: str
    run: int | None
    util_pct: int | None
    gpu_index: int | None
    used_mib: int | None
    temperature_celsius: int | None
    power_watts: int | None
    usage_state: str | None
    processes: Sequence[Process]


def merged(databases: Sequence[tuple[LegacyDatabase, Contents]]) -> Iterator[Row]:
    """Return the rows of all databases by time: each card of each is read along the database's own index."""
    return heapq.merge(
        *(
            _rows(database, contents, file, uuid)
            for file, (database, contents) in enumerate(databases)
            for uuid in contents.cards
        ),
        key=itemgetter(0),
    )


def _rows(database: LegacyDatabase, contents: Contents, file: int, uuid: str) -> Iterator[Row]:
    columns = _columns(_CARD, contents.card_columns)
    processes = _Processes(database, contents, uuid)
    sql = f"SELECT {columns} FROM gpu_sample WHERE gpu_uuid = ? ORDER BY ts, rowid"  # noqa: S608 - own text
    for ts, util_pct, run, gpu_index, used_mib, celsius, watts, usage_state in database.rows(sql, (uuid,)):
        listed = processes.at(ts, run)
        yield Row(ts, file, uuid, run, util_pct, gpu_index, used_mib, celsius, watts, usage_state, listed)


class _Processes:
    """The processes of one card, asked for in the order of time."""

    def __init__(self, database: LegacyDatabase, contents: Contents, uuid: str) -> None:
        columns = _columns(_PROCESS, contents.process_columns)
        sql = f"SELECT {columns} FROM proc_sample WHERE gpu_uuid = ? ORDER BY ts, rowid"  # noqa: S608 - own text
        self._rows: Iterator[tuple[Any, ...]] = database.rows(sql, (uuid,))
        self._ahead = next(self._rows, None)
        self._ts = ""
        self._found: list[Process] = []

    def at(self, ts: str, run: int | None) -> Sequence[Process]:
        """Return those of this moment and run; a row that belongs to no moment of the card is in no answer."""
        if ts != self._ts:
            self._ts, self._found = ts, []
            while self._ahead is not None and self._ahead[0] <= ts:
                if self._ahead[0] == ts:
                    self._found.append(Process(*self._ahead[1:]))
                self._ahead = next(self._rows, None)
        if all(process.run == run for process in self._found):
            return self._found
        return [process for process in self._found if process.run == run]


def _columns(wanted: Sequence[str], there: frozenset[str]) -> str:
    return ", ".join(column if column in there else "NULL" for column in wanted)
