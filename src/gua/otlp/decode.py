"""The bytes of an OTLP request back to the tick they were made of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from gua.core import fields, metrics
from gua.core.durations import to_ms
from gua.core.errors import DataError
from gua.core.tick import (
    AgentReading,
    AllocationReading,
    AllocationSourceReading,
    CardReading,
    ErrorCount,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source

_NS_PER_MS = 1_000_000
_SINGLE_VALUES = ("string_value", "int_value", "double_value", "bool_value")
_ENUMS = {
    "mig": Mig,
    "process_list": ProcessList,
    "type": ProcessType,
    "allocation": AllocationStatus,
    "relation": Relation,
}

T = TypeVar("T")
_Attributes = dict[str, Any]
_Point = tuple[str, _Attributes, Any]


def decode(data: bytes) -> Tick:
    """Return the tick of one request as :func:`~gua.otlp.encode.encode` writes it.

    Metrics that are not in the catalogue, and those that are derived from the rest, are left out;
    ``errors`` is empty. Raises :class:`DataError` if the bytes are no request of exactly one tick.
    """
    try:
        request = ExportMetricsServiceRequest.FromString(data)
    except DecodeError as error:
        msg = f"{len(data)} bytes are not an OTLP metrics request: {error}"
        raise DataError(msg) from error
    if len(request.resource_metrics) != 1:
        msg = f"one tick is one resource, this request has {len(request.resource_metrics)}"
        raise DataError(msg)
    try:
        return _tick(request.resource_metrics[0])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        msg = f"an OTLP request of {len(data)} bytes is not a tick of {metrics.SCOPE}: {error!r}"
        raise DataError(msg) from error


def _types(kind: type) -> dict[str, set[type]]:
    """Return the types that each field of a reading may have."""
    hints = get_type_hints(kind).items()
    every = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints}
    types = {name: {get_origin(one) or one for one in several} for name, several in every.items()}
    return {name: allowed | {int} if float in allowed else allowed for name, allowed in types.items()}


_TYPES: dict[type, dict[str, set[type]]] = {
    kind: _types(kind)
    for kind in (Origin, CardReading, ProcessReading, AllocationReading, AllocationSourceReading, ErrorCount)
}


def _typed(kind: type[T], /, **values: Any) -> T:  # noqa: ANN401 - whatever the wire holds
    """Return an object of these values. Raises TypeError for one that is not of its field's type."""
    for name, value in values.items():
        if type(value) not in _TYPES[kind][name]:
            msg = f"{name} is {value!r}"
            raise TypeError(msg)
    return kind(**values)


def _tick(resource_metrics: Any) -> Tick:  # noqa: ANN401 - the generated message classes have no types
    points = list(_points(resource_metrics))
    times = {point.time_unix_nano for _, _, point in points}
    if len(times) != 1:
        msg = f"all points of a tick have one time, these have {len(times)}"
        raise ValueError(msg)
    return Tick(
        ts_ms=times.pop() // _NS_PER_MS,
        origin=_origin(_attributes(resource_metrics.resource.attributes)),
        cards=_cards(points),
        agent=_agent(points),
        allocation_sources=tuple(_sources(points)),
    )


def _points(resource_metrics: Any) -> Iterator[_Point]:  # noqa: ANN401 - as above
    for scope_metrics in resource_metrics.scope_metrics:
        if scope_metrics.scope.name in metrics.SCOPES:
            for metric in scope_metrics.metrics:
                for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                    yield metric.name, _attributes(point.attributes), point


def _attributes(pairs: Any) -> _Attributes:  # noqa: ANN401 - as above
    kinds = ((pair, pair.value.WhichOneof("value")) for pair in pairs)
    return {pair.key: getattr(pair.value, kind) for pair, kind in kinds if kind in _SINGLE_VALUES}


def _number(point: Any) -> float | int:  # noqa: ANN401 - as above
    value: float | int = getattr(point, point.WhichOneof("value"))
    return value


def _origin(attributes: _Attributes) -> Origin:
    return _typed(
        Origin,
        host=attributes.pop("host.name"),
        source=Source(attributes.pop("gua.source")),
        interval_ms=round(attributes.pop("gua.sample.interval") * 1000),
        host_id=attributes.pop("host.id", None),
        instance_id=attributes.pop("service.instance.id", None),
        service_name=attributes.pop("service.name"),
        service_version=attributes.pop("service.version", None),
        attributes=tuple(sorted((key, str(value)) for key, value in attributes.items())),
    )


def _field_values(
    points: list[_Point], table: tuple[fields.Field, ...], identity: tuple[str, ...]
) -> dict[tuple[Any, ...], _Attributes]:
    """Return the fields of each subject, in the order in which the subjects first occur."""
    wanted = {(field.metric.name, frozenset(field.attributes)): field for field in table}
    values: dict[tuple[Any, ...], _Attributes] = {}
    for name, attributes, point in points:
        extra = frozenset((key, value) for key, value in attributes.items() if key not in identity)
        field = wanted.get((name, extra))
        if field is not None:
            subject = tuple(attributes.get(key) for key in identity)
            values.setdefault(subject, {})[field.name] = field.form.from_wire(_number(point))
    return values


def _info(attributes: _Attributes, names: dict[str, str]) -> _Attributes:
    known = {name: attributes[key] for key, name in names.items() if key in attributes}
    return {name: _info_value(name, value) for name, value in known.items()}


def _info_value(name: str, value: Any) -> Any:  # noqa: ANN401 - as above
    if name in fields.MOMENTS:
        return _moment(value)
    return _ENUMS[name](value) if name in _ENUMS else value


def _moment(text: str) -> int:
    return to_ms(datetime.fromisoformat(text).astimezone(UTC))


def _cards(points: list[_Point]) -> tuple[CardReading, ...]:
    cards = _field_values(points, fields.CARD_FIELDS, metrics.CARD_ATTRIBUTES)
    processes: dict[str, list[ProcessReading]] = {uuid: [] for (uuid,) in cards}
    for uuid, process in _processes(points):
        processes[uuid].append(process)
    allocations: dict[str, list[AllocationReading]] = {uuid: [] for (uuid,) in cards}
    for uuid, allocation in _allocations(points):
        allocations[uuid].append(allocation)
    for name, attributes, _ in points:
        if name == metrics.INFO.name:
            cards[attributes["hw.id"],].update(_info(attributes, fields.CARD_INFO))
    for values in cards.values():
        if "failed" in values:
            values["failed"] = bool(values["failed"])
    return tuple(
        _typed(
            CardReading,
            uuid=uuid,
            processes=tuple(processes[uuid]),
            allocations=tuple(allocations[uuid]),
            **values,
        )
        for (uuid,), values in cards.items()
    )


def _processes(points: list[_Point]) -> Iterator[tuple[str, ProcessReading]]:
    known = _field_values(points, fields.PROCESS_FIELDS, metrics.PROCESS_ATTRIBUTES)
    for name, attributes, _ in points:
        if name == metrics.PROCESS_INFO.name:
            subject = tuple(attributes.get(key) for key in metrics.PROCESS_ATTRIBUTES)
            created = attributes.get("process.creation.time")
            yield (
                attributes["hw.id"],
                _typed(
                    ProcessReading,
                    pid=attributes["process.pid"],
                    created_ms=None if created is None else _moment(created),
                    owner=attributes.get("process.owner"),
                    comm=attributes.get("gua.process.comm"),
                    **known.get(subject, {}),
                    **_info(attributes, fields.PROCESS_INFO),
                ),
            )


def _allocations(points: list[_Point]) -> Iterator[tuple[str, AllocationReading]]:
    known = _field_values(points, fields.ALLOCATION_FIELDS, metrics.ALLOCATION_ATTRIBUTES)
    for name, attributes, _ in points:
        if name == metrics.ALLOCATION_INFO.name:
            uuid, source, identifier = (attributes[key] for key in metrics.ALLOCATION_ATTRIBUTES)
            yield (
                uuid,
                _typed(
                    AllocationReading,
                    source=source,
                    id=identifier,
                    **known.get((uuid, source, identifier), {}),
                    **_info(attributes, fields.ALLOCATION_INFO),
                ),
            )


def _sources(points: list[_Point]) -> Iterator[AllocationSourceReading]:
    known = _field_values(points, fields.SOURCE_FIELDS, metrics.SOURCE_ATTRIBUTES)
    for name, attributes, point in points:
        if name == metrics.ALLOCATION_SOURCE_DURATION.name:
            yield _typed(
                AllocationSourceReading,
                source=attributes["gua.allocation.source"],
                duration_ms=round(_number(point) * 1000),
                reason=attributes.get("gua.allocation.source.reason"),
                **known.get((attributes["gua.allocation.source"],), {}),
            )


def _agent(points: list[_Point]) -> AgentReading | None:
    values = _field_values(points, fields.AGENT_FIELDS, ()).get((), {})
    errors = tuple(
        _typed(ErrorCount, call=attributes["call"], code=attributes["code"], count=round(_number(point)))
        for name, attributes, point in points
        if name == metrics.AGENT_ERRORS.name
    )
    starts = {point.start_time_unix_nano for name, _, point in points if name.startswith("gua.agent.")}
    if not starts:
        return None
    return AgentReading(started_ms=min(starts) // _NS_PER_MS, errors=errors, **values)
