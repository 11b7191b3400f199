"""What is written of a request: the columns of each table, in the order in which the bytes of a row hold them.

A row of a tick is its time, its numbers as the points tell them, NaN where there is no point, then what stays the same
from tick to tick. The engine makes of a number what the views of ``clickhouse/10_ticks`` make of a point's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from struct import pack
from typing import Final, NamedTuple

from gua.core import fields, metrics
from gua.core.durations import to_ms
from gua.core.metrics import Subject
from gua.store.requests.reading import Attributes, NotPlainError, Value
from gua.store.tick_columns import TickColumn

_YEAR_2100_MS: Final = 4_102_444_800_000
_MOST: Final = {"UInt16": 0xFFFF, "UInt32": 0xFFFF_FFFF}
_LAYOUTS: Final = {"UInt16": "<xH", "UInt32": "<xI"}
_NONE: Final = b"\x01"


class Told(NamedTuple):
    """A column that an attribute tells."""

    attribute: bytes
    column: str
    type: str

    def written(self, value: Value | None) -> bytes:
        """Return its bytes. Raises NotPlainError where that takes a view."""
        if value is None or value == b"":
            return _NONE
        if isinstance(value, bytes) and self.type == "DateTime64(3, 'UTC')":
            return pack("<xq", unix_ms(value))
        if isinstance(value, bytes):
            return b"\x00" + text(value)
        if self.type == "Bool":
            return pack("<x?", value)
        return pack(_LAYOUTS[self.type], value) if 0 <= value <= _MOST[self.type] else _NONE


@dataclass(frozen=True, eq=False, slots=True)
class RowForm:
    """A table of ticks: the place of each of its numbers, what attributes tell, and all columns."""

    table: str
    numbers: Mapping[str, int]
    told: tuple[Told, ...]
    columns: tuple[TickColumn, ...]


def told(columns: tuple[Told, ...], attributes: Attributes) -> bytes:
    """Return the bytes of what attributes tell. Raises NotPlainError where that takes a view."""
    return b"".join([column.written(attributes.get(column.attribute)) for column in columns])


def text(value: bytes) -> bytes:
    """Return the bytes of a text."""
    return size(len(value)) + value


def size(number: int) -> bytes:
    """Return the bytes of how long something is."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def unix_ms(moment: bytes) -> int:
    """Return the moment [Unix ms] that our encoder wrote so. Raises NotPlainError for any other text."""
    try:
        of_moment = to_ms(datetime.fromisoformat(moment.decode("ascii")).astimezone(UTC))
    except (ValueError, OverflowError):
        raise NotPlainError from None
    if not 0 <= of_moment < _YEAR_2100_MS or fields.moment(of_moment) != moment.decode("ascii"):
        raise NotPlainError
    return of_moment


def _column(name: str, read: str) -> TickColumn:
    # Text is read as such: as LowCardinality, as most of it is stored, it takes twelve times as long to be read.
    return TickColumn(name, read, name)


def _of(told: Told) -> TickColumn:
    return _column(told.column, f"Nullable({told.type})")


def _numbers(subject: Subject) -> tuple[TickColumn, ...]:
    return tuple(
        TickColumn(
            column.name, "Float64", f"accurateCastOrNull(round({column.name} * {column.scale}), '{column.type}')"
        )
        for metric in metrics.CATALOGUE
        if metric.subject is subject
        for column in metric.columns
    )


def _form(subject: Subject, table: str, keys: tuple[TickColumn, ...], *columns: Told) -> RowForm:
    numbers = _numbers(subject)
    return RowForm(
        table,
        {number.name: place for place, number in enumerate(numbers)},
        columns,
        (_TS, *numbers, _HOST, *keys, *map(_of, columns)),
    )


def _texts(**columns: str) -> tuple[Told, ...]:
    return tuple(Told(attribute.encode(), column, "String") for column, attribute in columns.items())


_TS: Final = _column("ts", "DateTime64(3, 'UTC')")
_HOST: Final = _column("host", "String")
_GPU: Final = _column("gpu", "String")
_SOURCE: Final = _column("source", "String")
_INTERVAL: Final = _column("interval_ms", "UInt32")
_SHARED: Final = Told(b"gua.gpu.memory.shared", "memory_shared", "Bool")
_MIG: Final = _texts(mig="gua.gpu.mig")
_WORKLOAD: Final = _texts(workload_kind="gua.workload.kind", workload_model="gua.workload.model")

CARD: Final = _form(
    Subject.CARD,
    "card_ticks",
    (_SOURCE, _INTERVAL, _GPU),
    *_texts(process_list="gua.gpu.process.list", allocation="gua.gpu.allocation"),
    *_MIG,
    _SHARED,
)
PROCESS: Final = _form(
    Subject.PROCESS,
    "process_ticks",
    (_GPU, _column("pid", "UInt32"), _column("created", "DateTime64(3, 'UTC')")),
    *_texts(owner="process.owner", program="gua.process.comm"),
    Told(b"process.user.id", "uid", "UInt32"),
    *_texts(
        type="gua.process.type",
        container_id="container.id",
        pod_uid="k8s.pod.uid",
        slurm_job_id="slurm.job.id",
        systemd_unit="systemd.unit",
    ),
    *_WORKLOAD,
)
ALLOCATION: Final = _form(
    Subject.ALLOCATION,
    "allocation_ticks",
    (_GPU, _SOURCE, _column("allocation_id", "String")),
    *_texts(relation="gua.allocation.relation", owner="gua.allocation.owner"),
    Told(b"gua.allocation.user.id", "uid", "UInt32"),
    *_texts(kind="gua.allocation.kind"),
    Told(b"gua.allocation.since", "since", "DateTime64(3, 'UTC')"),
    Told(b"gua.allocation.until", "until", "DateTime64(3, 'UTC')"),
    *_texts(
        job_name="slurm.job.name", pod_uid="k8s.pod.uid", pod_name="k8s.pod.name", pod_namespace="k8s.namespace.name"
    ),
    *_WORKLOAD,
)
SOURCE: Final = _form(
    Subject.SOURCE,
    "allocation_source_ticks",
    (_SOURCE,),
    *_texts(status="gua.allocation.source.status", reason="gua.allocation.source.reason"),
)
FORMS: Final = {
    Subject.CARD: CARD,
    Subject.PROCESS: PROCESS,
    Subject.ALLOCATION: ALLOCATION,
    Subject.SOURCE: SOURCE,
}

INFO_TOLD: Final = (
    Told(b"gua.gpu.index", "gpu_index", "UInt16"),
    *_texts(
        name="hw.name",
        model="hw.model",
        vendor="hw.vendor",
        driver_version="hw.driver_version",
        pci="gua.gpu.pci",
        parent="hw.parent",
    ),
    *_MIG,
    _SHARED,
)
INFO: Final = (
    _TS,
    _HOST,
    _SOURCE,
    _INTERVAL,
    _column("labels", "Map(String, String)"),
    _GPU,
    *map(_of, INFO_TOLD),
)
SEEN: Final = (
    _column("first_seen", "DateTime64(3, 'UTC')"),
    _column("last_seen", "DateTime64(3, 'UTC')"),
    _column("longest_ms", "UInt64"),
    _column("newest_share", "Tuple(ts DateTime64(3, 'UTC'), share Float64)"),
    _HOST,
    _GPU,
)
AGENT: Final = (
    _column("first_seen", "DateTime64(3, 'UTC')"),
    _column("last_seen", "DateTime64(3, 'UTC')"),
    TickColumn(
        "newest",
        "Tuple(String, String, UInt32)",
        "(last_seen, CAST(NULL, 'Nullable(Int64)'), newest.1, newest.2, newest.3)",
    ),
    _HOST,
    _column("instance", "String"),
    _column("host_id", "String"),
    TickColumn("day", "DateTime64(3, 'UTC')", "toDate(day, 'UTC')"),
)
