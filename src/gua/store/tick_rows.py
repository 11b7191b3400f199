"""Ticks as rows of an embedded store's tables, equal to what its views compute from OTLP points.

All ticks of an embedded store take this path. As points, the engine would parse 35 per card and 6 per process only
to combine each set into one row. A test lands the same ticks both ways.

Numbers are written in stored units. The engine turns those that the column's type cannot represent into NULL, as
the views of ``clickhouse/10_ticks`` do.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from operator import attrgetter
from typing import Any, Final, NamedTuple

from gua.core import fields, metrics
from gua.core.facts import RATIO_SCALE, busiest, type_totals
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric, StoredColumn
from gua.core.moments import DAY_MS
from gua.core.plaintext import storable
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, ProcessReading, Tick
from gua.core.words import ProcessList, ProcessType

_YEAR_2000_MS: Final = 946_684_800_000
_YEAR_2100_MS: Final = 4_102_444_800_000
_MOST_UINT32: Final = 0xFFFF_FFFF
# A point's value is a double in whole units: larger numbers may lose their last digit there.
_MOST: Final = 1 << 50
_NO_TOTALS: Final = (None,) * 3 * len(ProcessType)
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class TickColumn(NamedTuple):
    """An inserted column: ``read`` is its type in the file, ``sql`` the expression that converts it."""

    name: str
    read: str
    sql: str


class TableLines(NamedTuple):
    """Rows of one table: pieces of a file in ``form``, by default JSON arrays of the values of ``columns`` in order."""

    table: str
    columns: Sequence[TickColumn]
    pieces: Iterable[bytes]
    form: str = "JSONCompactEachRow"


class _Part(NamedTuple):
    """Adjacent columns, and the function that returns their values for a reading."""

    columns: tuple[TickColumn, ...]
    values: Callable[[Any], Iterable[object]]


class _NotPlainError(Exception):
    """The tick has a value that rows cannot represent exactly: land its points."""


def _plain(name: str, read: str) -> TickColumn:
    return TickColumn(name, read, name)


def _integer(name: str, sql_type: str) -> TickColumn:
    return TickColumn(name, "Nullable(Int64)", f"accurateCastOrNull({name}, '{sql_type}')")


def _moment(name: str, read: str = "Int64") -> TickColumn:
    return TickColumn(name, read, f"fromUnixTimestamp64Milli({name}, 'UTC')")


def _text(name: str) -> TickColumn:
    return TickColumn(name, "Nullable(String)", f"nullIf({name}, '')")


def _integers(columns: Iterable[StoredColumn], values: Callable[[Any], Iterable[int | None]]) -> _Part:
    return _Part(tuple(_integer(column.name, column.type) for column in columns), values)


def _ratios(every: Iterable[Field]) -> _Part:
    """Return the ratio columns in their stored steps, rounded half to even as ClickHouse does."""
    stored = [(one.name, one.column) for one in every if one.form is PointForm.DOUBLE and one.column]
    scales = [(name, column.scale) for name, column in stored]

    def values(reading: object) -> list[int | None]:
        ratios = [(getattr(reading, name), scale) for name, scale in scales]
        return [None if ratio is None else round(ratio * scale) for ratio, scale in ratios]

    return _integers([column for _, column in stored], values)


def _counts(every: Iterable[Field], **more: StoredColumn) -> _Part:
    """Return the columns of integers and thousandths, stored as in a reading, and of the fields in ``more``."""
    forms = PointForm.MILLI, PointForm.INTEGER
    stored = {one.name: one.column for one in every if one.form in forms and one.column} | more
    return _integers(stored.values(), attrgetter(*stored))


def _numbers(*parts: _Part) -> _Part:
    """Return integer columns as one part. Numbers of 2^50 or more raise _NotPlainError: points may round them."""

    def values(reading: object) -> list[int | None]:
        numbers = _values(parts, reading)
        known = [number for number in numbers if number is not None]
        if known and not (min(known) > -_MOST and max(known) < _MOST):
            raise _NotPlainError
        return numbers

    return _Part(_columns(*parts), values)


def _texts(*names: str, **named: str) -> _Part:
    """Return text columns; ``names`` are fields with equal column names, ``named`` maps fields to other names."""
    get = attrgetter(*names, *named)
    return _Part(tuple(map(_text, (*names, *named.values()))), lambda reading: _cleaned(*get(reading)))


def _only(metric: Metric) -> StoredColumn:
    (column,) = metric.columns
    return column


def _columns(*parts: _Part) -> tuple[TickColumn, ...]:
    return tuple(column for part in parts for column in part.columns)


def _values(parts: Sequence[_Part], reading: object) -> list[Any]:
    return [value for part in parts for value in part.values(reading)]


def _of_processes(card: CardReading) -> list[int | None]:
    largest = busiest(card.processes)
    totals = type_totals(card.processes) if card.process_list is ProcessList.KNOWN else _NO_TOTALS
    return [None if largest is None else round(largest * RATIO_SCALE), *totals]


def _process_key(process: ProcessReading) -> tuple[int, int]:
    created_ms = process.created_ms or 0
    if not 0 <= process.pid <= _MOST_UINT32 or not 0 <= created_ms < _YEAR_2100_MS:
        raise _NotPlainError
    return process.pid, created_ms


def _allocation_key(allocation: AllocationReading) -> tuple[object, ...]:
    key = _cleaned(allocation.source, allocation.id)
    moments = allocation.since_ms, allocation.until_ms
    if not (all(key) and all(one is None or 0 <= one < _YEAR_2100_MS for one in moments)):
        raise _NotPlainError
    return (*key, *moments)


def _source_key(source: AllocationSourceReading) -> tuple[str | None, ...]:
    name, reason = _cleaned(source.source, source.reason)
    if not name:
        raise _NotPlainError
    return name, "ok" if source.reason is None else "failed", reason


_UID: Final = StoredColumn(name="uid", scale=1, type="UInt32")
_HOST: Final = _plain("host", "String")
_GPU: Final = _plain("gpu", "String")
_SHARED: Final = _plain("memory_shared", "Nullable(Bool)")
_INTERVAL: Final = _integer("interval_ms", "UInt32")
_WORKLOAD: Final = ("workload_kind", "workload_model")
_TOTALS: Final = (metrics.PROCESS_COUNT, metrics.PROCESS_MEMORY, metrics.PROCESS_MEMORY_UNKNOWN)
_CARD: Final = (
    _numbers(
        _ratios(fields.CARD_FIELDS),
        _counts(fields.CARD_FIELDS),
        _integers(
            [
                _only(metrics.PROCESS_UTILIZATION_MAX),
                *[
                    column
                    for kind in ProcessType
                    for metric in _TOTALS
                    for column in metric.columns
                    if column.attributes == (("gua.process.type", kind.value),)
                ],
            ],
            _of_processes,
        ),
    ),
    _Part(
        (*map(_text, ("process_list", "mig", "allocation")), _SHARED),
        attrgetter("process_list", "mig", "allocation", "memory_shared"),
    ),
)
_PROCESS: Final = (
    _Part((_plain("pid", "UInt32"), _moment("created")), _process_key),
    _numbers(_counts(fields.PROCESS_FIELDS, uid=_UID), _ratios(fields.PROCESS_FIELDS)),
    _texts("owner", "type", "container_id", "pod_uid", "slurm_job_id", "systemd_unit", *_WORKLOAD, comm="program"),
)
_ALLOCATION: Final = (
    _numbers(_counts(fields.ALLOCATION_FIELDS, uid=_UID)),
    _Part(
        (
            _plain("source", "String"),
            _plain("allocation_id", "String"),
            _moment("since", "Nullable(Int64)"),
            _moment("until", "Nullable(Int64)"),
        ),
        _allocation_key,
    ),
    _texts("relation", "owner", "kind", "job_name", "pod_uid", "pod_name", "pod_namespace", *_WORKLOAD),
)
_SOURCE: Final = (
    _Part((_plain("source", "String"), _text("status"), _text("reason")), _source_key),
    _numbers(_counts(fields.SOURCE_FIELDS, duration_ms=_only(metrics.ALLOCATION_SOURCE_DURATION))),
)
_INFO: Final = (
    _Part((_integer("gpu_index", "UInt16"), _SHARED), attrgetter("index", "memory_shared")),
    _texts("name", "model", "vendor", "driver_version", "pci", "mig", "parent"),
)
# Cards last: an interrupted import then leaves no card tick without its processes and allocations.
TABLES: Final[Mapping[str, Sequence[TickColumn]]] = {
    "process_ticks": (
        *(_HOST, _moment("ts"), _GPU),
        _integer("duration_ms", _only(metrics.PROCESS_SAMPLE_DURATION).type),
        *_columns(*_PROCESS),
    ),
    "allocation_ticks": (_HOST, _moment("ts"), _GPU, *_columns(*_ALLOCATION)),
    "allocation_source_ticks": (_HOST, _moment("ts"), *_columns(*_SOURCE)),
    "card_info": (
        *(_HOST, _GPU, _moment("ts"), _text("source"), _INTERVAL, _plain("labels", "Map(String, String)")),
        *_columns(*_INFO),
    ),
    "card_seen": (
        *(_HOST, _GPU, _moment("first_seen"), _moment("last_seen"), _plain("longest_ms", "UInt64")),
        # Array of the newest tick [Unix ms], the card's GPU time in it [ms] and its duration [ms].
        TickColumn(
            "newest_share",
            "Array(Int64)",
            "(fromUnixTimestamp64Milli(newest_share[1], 'UTC'), newest_share[2] / newest_share[3])",
        ),
    ),
    "agents": (
        *(
            _HOST,
            _plain("instance", "String"),
            _plain("host_id", "String"),
            _moment("first_seen"),
            _moment("last_seen"),
        ),
        # Unix ms of any time on that day.
        TickColumn("day", "Int64", "toDate(fromUnixTimestamp64Milli(day, 'UTC'), 'UTC')"),
        # Array of version, source and interval [ms] of the newest tick.
        TickColumn(
            "newest",
            "Array(String)",
            "(fromUnixTimestamp64Milli(last_seen, 'UTC'), CAST(NULL, 'Nullable(Int64)'), "
            "newest[1], newest[2], toUInt32(newest[3]))",
        ),
    ),
    "card_ticks": (_HOST, _text("source"), _INTERVAL, _moment("ts"), _GPU, *_columns(*_CARD)),
}


class _Seen(NamedTuple):
    first_ms: int
    last_ms: int
    longest_ms: int
    newest: tuple[int, float, int, int]


class _Sender(NamedTuple):
    """First columns of a resource's ``card_ticks`` rows, its host name, and its attributes as text."""

    begin: tuple[str, str, int]
    host: str
    labels: Mapping[str, str]


class TickRows:
    """Accumulates ticks as rows, to be landed at once."""

    def __init__(self, now_ms: int) -> None:
        """Start empty. ``now_ms`` is the current Unix time: later ticks are refused, and the views decide on them."""
        self.ticks = 0
        self.characters = 0
        self._now_ms = now_ms
        self._lines: dict[str, list[str]] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._newest: dict[tuple[str, str], tuple[int, Origin, CardReading]] = {}
        self._agents: dict[tuple[str, str, str, int], tuple[int, int, Origin]] = {}

    def add(self, tick: Tick) -> bool:
        """Add a tick; return False, adding nothing, if rows cannot represent it exactly.

        Refused: an implausible time, a missing key, or a number that a point cannot carry or may round.
        """
        if not _YEAR_2000_MS <= tick.ts_ms <= self._now_ms:
            return False
        sender = _sender(tick.origin)
        try:
            made = _rows(tick, sender)
        except (_NotPlainError, ValueError, OverflowError):
            return False
        for table, rows in made.items():
            if rows:
                lines = _lines(rows)
                self._lines.setdefault(table, []).append(lines)
                self.characters += len(lines)
        for card in tick.cards:
            key = sender.host, _clean(card.uuid)
            ts_ms, duration_ms, gpu_time_ms = tick.ts_ms, card.duration_ms, card.gpu_time_ms
            newest = ts_ms, gpu_time_ms / duration_ms, gpu_time_ms, duration_ms
            now = _Seen(ts_ms - duration_ms, ts_ms, duration_ms, newest)
            before = self._seen.get(key, now)
            self._seen[key] = _Seen(
                min(before.first_ms, now.first_ms),
                max(before.last_ms, now.last_ms),
                max(before.longest_ms, now.longest_ms),
                max(before.newest, now.newest),
            )
            described = self._newest.get(key)
            if described is None or described[0] <= ts_ms:
                self._newest[key] = ts_ms, tick.origin, card
        self._hear(tick)
        self.ticks += 1
        return True

    def parts(self) -> Iterator[TableLines]:
        """Yield the rows of each non-empty table, in the order to insert them."""
        every = {
            "card_info": [
                (host, gpu, ts_ms, *_sender(origin).begin[1:], _sender(origin).labels, *_values(_INFO, card))
                for (host, gpu), (ts_ms, origin, card) in self._newest.items()
            ],
            "card_seen": [
                (*key, of.first_ms, of.last_ms, of.longest_ms, (of.newest[0], *of.newest[2:]))
                for key, of in self._seen.items()
            ],
            "agents": [
                (*key[:3], first_ms, last_ms, last_ms, _version(origin))
                for key, (first_ms, last_ms, origin) in self._agents.items()
            ],
        }
        lines = {**self._lines, **{table: [_lines(rows)] for table, rows in every.items() if rows}}
        for table, columns in TABLES.items():
            if table in lines:
                yield TableLines(table, columns, [",".join(lines[table]).encode()])

    def _hear(self, tick: Tick) -> None:
        if tick.agent is None or tick.agent.tick_duration_seconds is None:
            return
        labels = _sender(tick.origin).labels
        instance, host_id = labels.get("service.instance.id", ""), labels.get("host.id", "")
        key = labels["host.name"], instance, host_id, tick.ts_ms // DAY_MS
        first_ms, last_ms, origin = self._agents.get(key, (tick.ts_ms, tick.ts_ms, tick.origin))
        self._agents[key] = (
            min(first_ms, tick.ts_ms),
            max(last_ms, tick.ts_ms),
            tick.origin if tick.ts_ms >= last_ms else origin,
        )


@lru_cache(maxsize=256)
def _sender(origin: Origin) -> _Sender:
    labels = {
        storable(key): storable(value, fields.RESOURCE_TEXT)
        if isinstance(value, str)
        else repr(value).removesuffix(".0")
        for key, value in fields.resource(origin).items()
    }
    host = labels["host.name"]
    return _Sender((host, labels["gua.source"], origin.interval_ms), host, labels)


def _version(origin: Origin) -> tuple[str, str, str]:
    labels = _sender(origin).labels
    interval_ms = origin.interval_ms if 0 <= origin.interval_ms <= _MOST_UINT32 else 0
    return labels.get("service.version", ""), labels["gua.source"], str(interval_ms)


_clean = lru_cache(maxsize=4096)(storable)


@lru_cache(maxsize=4096)
def _cleaned(*texts: str | None) -> tuple[str | None, ...]:
    return tuple([None if text is None else storable(text) for text in texts])


def _rows(tick: Tick, sender: _Sender) -> dict[str, list[Sequence[object]]]:
    """Return the rows of each table."""
    if not sender.host or (tick.agent is not None and not isfinite(tick.agent.tick_duration_seconds or 0)):
        raise _NotPlainError
    host, ts_ms = sender.host, tick.ts_ms
    cards: list[Sequence[object]] = []
    processes: list[Sequence[object]] = []
    allocations: list[Sequence[object]] = []
    for card in tick.cards:
        duration_ms = card.duration_ms
        if duration_ms > _MOST_UINT32:
            raise _NotPlainError
        gpu = _clean(card.uuid)
        cards.append((*sender.begin, ts_ms, gpu, *_values(_CARD, card)))
        processes += [(host, ts_ms, gpu, duration_ms, *_values(_PROCESS, process)) for process in card.processes]
        allocations += [(host, ts_ms, gpu, *_values(_ALLOCATION, allocation)) for allocation in card.allocations]
    return {
        "card_ticks": cards,
        "process_ticks": processes,
        "allocation_ticks": allocations,
        "allocation_source_ticks": [(host, ts_ms, *_values(_SOURCE, source)) for source in tick.allocation_sources],
    }


def _lines(rows: Sequence[Sequence[object]]) -> str:
    """Return the rows as JSON arrays, separated by commas: one call for all takes half the time of one for each."""
    return _encode(rows)[1:-1]
