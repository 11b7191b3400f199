"""Mapping between fields of readings and metrics or attributes, shared by all encoders and decoders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from gua.core import metrics
from gua.core.metrics import Metric, StoredColumn
from gua.core.moments import to_rfc3339

if TYPE_CHECKING:
    from gua.core.tick import Origin

RESOURCE_TEXT: Final = 4096
"""Longest resource attribute, in characters."""
IMPORT_BASIS: Final = "gua.import.basis"
"""Resource attribute of imported ticks: a sentence on what they rest on, which reports print."""
_INT64 = 1 << 63
_YEAR_10000_MS = 253_402_300_800_000


class PointForm(Enum):
    """Encoding of a field's number in a data point."""

    DOUBLE = "as it is"
    MILLI = "an integer count of thousandths, sent as a double of whole units"
    INTEGER = "as an integer"

    def to_wire(self, value: float | None) -> float | int | None:
        """Return the point's value; ``None`` if it is unknown, not finite, or beyond int64, and so is not sent."""
        if value is None:
            return None
        if self is PointForm.INTEGER:
            return int(value) if -_INT64 <= value < _INT64 else None
        number = value / 1000 if self is PointForm.MILLI else float(value)
        return number if math.isfinite(number) else None

    def from_wire(self, value: float) -> float | int:
        """Return the field's number for a point's value."""
        if self is PointForm.DOUBLE:
            return float(value)
        return round(value * 1000) if self is PointForm.MILLI else round(value)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a reading that has its own points; ``attributes`` identify them among the metric's points."""

    name: str
    metric: Metric
    form: PointForm
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def column(self) -> StoredColumn | None:
        """The column that stores the field's number, ``None`` if it is not stored."""
        return next((column for column in self.metric.columns if column.attributes == self.attributes), None)


_NAMES: Final = {"power_mw": "power_watts"}


def _fields(form: PointForm, *stored: Metric) -> tuple[Field, ...]:
    """Return one field for each column of the metrics, named as in :data:`_NAMES`, else as its column."""
    return tuple(
        Field(_NAMES.get(column.name, column.name), metric, form, column.attributes)
        for metric in stored
        for column in metric.columns
    )


CARD_FIELDS: Final = (
    *_fields(PointForm.MILLI, metrics.SAMPLE_DURATION, metrics.GPU_TIME),
    *_fields(PointForm.DOUBLE, metrics.UTILIZATION, metrics.UTILIZATION_MAX),
    *_fields(PointForm.MILLI, metrics.UTILIZATION_COVERAGE, metrics.IDLE_TIME, metrics.IDLE_ENERGY),
    *_fields(PointForm.MILLI, metrics.IDLE_ENERGY_COVERAGE),
    *_fields(PointForm.INTEGER, metrics.MEMORY_USAGE, metrics.MEMORY_LIMIT, metrics.MEMORY_RESERVED),
    *_fields(PointForm.DOUBLE, metrics.POWER, metrics.TEMPERATURE),
    *_fields(PointForm.MILLI, metrics.ENERGY_TOTAL, metrics.ENERGY),
    *_fields(PointForm.INTEGER, metrics.STATUS, metrics.CLOCK_REASONS, metrics.ERRORS, metrics.XID, metrics.ROW_REMAP),
    *_fields(PointForm.INTEGER, metrics.PROCESSES_SEEN),
    *_fields(PointForm.INTEGER, metrics.RECOVERY_ACTION),
    *_fields(PointForm.DOUBLE, metrics.SM_UTILIZATION, metrics.SM_OCCUPANCY, metrics.TENSOR_UTILIZATION),
    *_fields(PointForm.DOUBLE, metrics.MEMORY_BANDWIDTH_UTILIZATION),
    *_fields(PointForm.MILLI, metrics.UNALLOCATED_TIME),
)
STATUS_OK: Final = (("hw.state", "ok"), ("hw.type", "gpu"))
PROCESS_FIELDS: Final = (
    *_fields(PointForm.MILLI, metrics.PROCESS_GPU_TIME),
    *_fields(PointForm.INTEGER, metrics.PROCESS_GPU_MEMORY),
    *_fields(PointForm.DOUBLE, metrics.PROCESS_GPU_UTILIZATION),
    Field("idle_ms", metrics.PROCESS_IDLE_DURATION, PointForm.MILLI),
)
ALLOCATION_FIELDS: Final = _fields(PointForm.MILLI, metrics.ALLOCATION_DURATION, metrics.ALLOCATION_TIME)
SOURCE_FIELDS: Final = (
    *_fields(PointForm.INTEGER, metrics.QUEUE_WAITING),
    *_fields(PointForm.MILLI, metrics.QUEUE_WAIT_TIME, metrics.QUEUE_TIME),
)
AGENT_FIELDS: Final = (
    Field("tick_duration_seconds", metrics.AGENT_TICK_DURATION, PointForm.DOUBLE),
    Field("tick_lateness_seconds", metrics.AGENT_TICK_LATENESS, PointForm.DOUBLE),
    Field("spool_ticks", metrics.AGENT_SPOOL_TICKS, PointForm.INTEGER),
    Field("spool_bytes", metrics.AGENT_SPOOL_SIZE, PointForm.INTEGER),
    Field("dropped_ticks", metrics.AGENT_DROPPED, PointForm.INTEGER),
)

MOMENTS: Final = frozenset({"created_ms", "since_ms", "until_ms"})
"""Time fields that are sent as text, by :func:`moment`."""


def resource(origin: Origin) -> dict[str, str | float]:
    """Return the known resource attributes of the sender, gua's own before further ones."""
    own: dict[str, str | float | None] = {
        "service.name": origin.service_name,
        "service.version": origin.service_version,
        "service.instance.id": origin.instance_id,
        "host.name": origin.host,
        "host.id": origin.host_id,
        "gua.sample.interval": origin.interval_ms / 1000,
        "gua.source": str(origin.source),
    }
    pairs = {**own, **{key: value for key, value in origin.attributes if key not in own}}
    return {key: value for key, value in pairs.items() if value is not None}


def moment(unix_ms: int | None) -> str | None:
    """Return Unix time [ms] as RFC 3339 with milliseconds; ``None`` if it is unknown or outside 1970 to 9999."""
    if unix_ms is None or not 0 <= unix_ms < _YEAR_10000_MS:
        return None
    return to_rfc3339(unix_ms) if unix_ms % 1000 else to_rfc3339(unix_ms).replace("Z", ".000Z")
