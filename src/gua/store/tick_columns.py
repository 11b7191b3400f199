"""The columns of an embedded store's tables of ticks, and where a reading has them: by the metric catalogue.

Numbers are written as they are stored, and made NULL by the engine where the column's type cannot hold them, as the
views of ``clickhouse/10_ticks`` do.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from gua.core import fields, metrics
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric, StoredColumn
from gua.core.words import ProcessType


class TickColumn(NamedTuple):
    """A column of what is inserted: the type it is read as from a file, and ``sql``, what the engine makes of that."""

    name: str
    read: str
    sql: str


def _only(metric: Metric) -> StoredColumn:
    (column,) = metric.columns
    return column


def _number(column: StoredColumn) -> TickColumn:
    return TickColumn(column.name, "Nullable(Int64)", f"accurateCastOrNull({column.name}, '{column.type}')")


def _integer(name: str, sql_type: str) -> TickColumn:
    return TickColumn(name, "Nullable(Int64)", f"accurateCastOrNull({name}, '{sql_type}')")


def _texts(*names: str) -> tuple[TickColumn, ...]:
    return tuple(TickColumn(name, "Nullable(String)", f"nullIf({name}, '')") for name in names)


def _moment(name: str) -> TickColumn:
    return TickColumn(name, "Int64", f"fromUnixTimestamp64Milli({name}, 'UTC')")


def _moment_or_none(name: str) -> TickColumn:
    return TickColumn(name, "Nullable(Int64)", f"fromUnixTimestamp64Milli({name}, 'UTC')")


def _with(every: Iterable[Field], *forms: PointForm) -> tuple[tuple[str, StoredColumn], ...]:
    """Return the stored fields of these forms, one form after the other, with their columns."""
    return tuple((field.name, field.column) for form in forms for field in every if field.form is form and field.column)


def _columns(every: Iterable[tuple[str, StoredColumn]]) -> tuple[TickColumn, ...]:
    return tuple(_number(column) for _, column in every)


def _names(every: Iterable[tuple[str, StoredColumn]]) -> tuple[str, ...]:
    return tuple(name for name, _ in every)


_HOST: Final = TickColumn("host", "String", "host")
_GPU: Final = TickColumn("gpu", "String", "gpu")
_SHARED: Final = TickColumn("memory_shared", "Nullable(Bool)", "memory_shared")
_INTERVAL: Final = _integer("interval_ms", "UInt32")

# Ratios have a scale, thousandths are stored as they are in a reading.
_CARD_RATIOS: Final = _with(fields.CARD_FIELDS, PointForm.DOUBLE)
_CARD_COUNTS: Final = _with(fields.CARD_FIELDS, PointForm.MILLI, PointForm.INTEGER)
card_ratios: Final = attrgetter(*_names(_CARD_RATIOS))
card_counts: Final = attrgetter(*_names(_CARD_COUNTS))
CARD_SCALES: Final = tuple(column.scale for _, column in _CARD_RATIOS)
_TOTALS: Final = (metrics.PROCESS_COUNT, metrics.PROCESS_MEMORY, metrics.PROCESS_MEMORY_UNKNOWN)
card_words: Final = attrgetter("process_list", "mig", "allocation", "memory_shared")
CARD: Final = (
    _HOST,
    *_texts("source"),
    _INTERVAL,
    _moment("ts"),
    _GPU,
    *_columns((*_CARD_RATIOS, *_CARD_COUNTS)),
    _number(_only(metrics.PROCESS_UTILIZATION_MAX)),
    *[
        _number(column)
        for kind in ProcessType
        for metric in _TOTALS
        for column in metric.columns
        if column.attributes == (("gua.process.type", kind.value),)
    ],
    *_texts("process_list", "mig", "allocation"),
    _SHARED,
)

_PROCESS_RATIOS: Final = _with(fields.PROCESS_FIELDS, PointForm.DOUBLE)
_PROCESS_COUNTS: Final = _with(fields.PROCESS_FIELDS, PointForm.MILLI, PointForm.INTEGER)
_PROCESS_TEXTS: Final = (
    "type",
    "container_id",
    "pod_uid",
    "slurm_job_id",
    "systemd_unit",
    "workload_kind",
    "workload_model",
)
process_ratios: Final = tuple((name, column.scale) for name, column in _PROCESS_RATIOS)
process_counts: Final = attrgetter(*_names(_PROCESS_COUNTS), "uid")
process_texts: Final = attrgetter("owner", "comm", *_PROCESS_TEXTS)
PROCESS: Final = (
    _HOST,
    _moment("ts"),
    _GPU,
    _number(_only(metrics.PROCESS_SAMPLE_DURATION)),
    TickColumn("pid", "UInt32", "pid"),
    _moment("created"),
    *_columns(_PROCESS_COUNTS),
    _integer("uid", "UInt32"),
    *_columns(_PROCESS_RATIOS),
    *_texts("owner", "program", *_PROCESS_TEXTS),
)

_ALLOCATION_TEXTS: Final = (
    "relation",
    "owner",
    "kind",
    "job_name",
    "pod_uid",
    "pod_name",
    "pod_namespace",
    "workload_kind",
    "workload_model",
)
_ALLOCATION_COUNTS: Final = _with(fields.ALLOCATION_FIELDS, PointForm.MILLI)
allocation_counts: Final = attrgetter(*_names(_ALLOCATION_COUNTS), "uid")
allocation_texts: Final = attrgetter("source", "id", *_ALLOCATION_TEXTS)
ALLOCATION: Final = (
    _HOST,
    _moment("ts"),
    _GPU,
    *_columns(_ALLOCATION_COUNTS),
    _integer("uid", "UInt32"),
    _moment_or_none("since"),
    _moment_or_none("until"),
    TickColumn("source", "String", "source"),
    TickColumn("allocation_id", "String", "allocation_id"),
    *_texts(*_ALLOCATION_TEXTS),
)

_SOURCE_COUNTS: Final = _with(fields.SOURCE_FIELDS, PointForm.MILLI, PointForm.INTEGER)
source_counts: Final = attrgetter("duration_ms", *_names(_SOURCE_COUNTS))
SOURCE: Final = (
    _HOST,
    _moment("ts"),
    TickColumn("source", "String", "source"),
    *_texts("status", "reason"),
    _number(_only(metrics.ALLOCATION_SOURCE_DURATION)),
    *_columns(_SOURCE_COUNTS),
)

_INFO_TEXTS: Final = ("name", "model", "vendor", "driver_version", "pci", "mig", "parent")
info_texts: Final = attrgetter(*_INFO_TEXTS)
INFO: Final = (
    _HOST,
    _GPU,
    _moment("ts"),
    *_texts("source"),
    _INTERVAL,
    TickColumn("labels", "Map(String, String)", "labels"),
    _integer("gpu_index", "UInt16"),
    _SHARED,
    *_texts(*_INFO_TEXTS),
)

SEEN: Final = (
    _HOST,
    _GPU,
    _moment("first_seen"),
    _moment("last_seen"),
    TickColumn("longest_ms", "UInt64", "longest_ms"),
    TickColumn(
        "newest_share",
        "Array(Int64)",
        "(fromUnixTimestamp64Milli(newest_share[1], 'UTC'), newest_share[2] / newest_share[3])",
    ),
)
"""``newest_share`` is read as the newest tick [Unix ms], the card's GPU time in it and its duration [ms]."""

AGENT: Final = (
    _HOST,
    TickColumn("instance", "String", "instance"),
    TickColumn("host_id", "String", "host_id"),
    _moment("first_seen"),
    _moment("last_seen"),
    TickColumn("day", "Int64", "toDate(fromUnixTimestamp64Milli(day, 'UTC'), 'UTC')"),
    TickColumn(
        "newest",
        "Array(String)",
        "(fromUnixTimestamp64Milli(last_seen, 'UTC'), CAST(NULL, 'Nullable(Int64)'), "
        "newest[1], newest[2], toUInt32(newest[3]))",
    ),
)
"""``newest`` is read as version, source and interval of the newest tick [ms]; ``day`` as any time in it."""
