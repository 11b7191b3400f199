"""Decode the bytes of an OTLP request, or a file of OTLP JSON lines, into the ticks they were encoded from."""

import json
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint, ResourceMetrics

from gua.core import fields, metrics
from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.fields import PointForm
from gua.core.metrics import Metric, Subject
from gua.core.moments import to_ms
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
from gua.core.untrusted import object_in, objects_in
from gua.core.words import AllocationStatus, Mig, ProcessList, ProcessType, Relation, Source
from gua.otlp.encode import count_points

_NS_PER_MS: Final = 1_000_000
_MOST_CACHED: Final = 8192
"""Cache size for point attributes, about 500 bytes each: covers hosts with far more than 80 processes."""
_SINGLE_VALUES: Final = ("string_value", "int_value", "double_value", "bool_value")
_ENUMS: Final = {
    "mig": Mig,
    "process_list": ProcessList,
    "type": ProcessType,
    "allocation": AllocationStatus,
    "relation": Relation,
}
_METRICS: Final = {metric.name: metric for metric in metrics.CATALOGUE}
_READINGS: Final[Mapping[Subject, type]] = {
    Subject.CARD: CardReading,
    Subject.PROCESS: ProcessReading,
    Subject.ALLOCATION: AllocationReading,
    Subject.SOURCE: AllocationSourceReading,
    Subject.AGENT: AgentReading,
}
_IDENTITIES: Final[Mapping[type, Mapping[str, str | None]]] = {
    CardReading: {"hw.id": "uuid"},
    ProcessReading: dict(zip(metrics.PROCESS_ATTRIBUTES, (None, "pid", "created_ms", "owner", "comm"), strict=True)),
    AllocationReading: dict(zip(metrics.ALLOCATION_ATTRIBUTES, (None, "source", "id"), strict=True)),
    AllocationSourceReading: {"gua.allocation.source": "source"},
    AgentReading: {},
    ErrorCount: {"call": "call", "code": "code"},
}
"""Attributes that identify the reading of a point, and the fields that store them."""
_INFOS: Final = {
    metrics.INFO.name: metrics.CARD_FACTS,
    metrics.PROCESS_INFO.name: metrics.PROCESS_FACTS,
    metrics.ALLOCATION_INFO.name: metrics.ALLOCATION_FACTS,
    metrics.ALLOCATION_SOURCE_DURATION.name: {"gua.allocation.source.reason": "reason"},
    metrics.AGENT_ERRORS.name: {},
}
"""Metrics with one point per reading, whose attributes are the reading's fields."""
_INFO_VALUES: Final = {
    metrics.ALLOCATION_SOURCE_DURATION.name: ("duration_ms", PointForm.MILLI),
    metrics.AGENT_ERRORS.name: ("count", PointForm.INTEGER),
}
_VALUES: Final = {
    (field.metric.name, frozenset(field.attributes)): (field.name, field.form)
    for table in (
        fields.CARD_FIELDS,
        fields.PROCESS_FIELDS,
        fields.ALLOCATION_FIELDS,
        fields.SOURCE_FIELDS,
        fields.AGENT_FIELDS,
    )
    for field in table
}

T = TypeVar("T")
_Values = dict[str, Any]
_Identity = tuple[Any, ...]


class _Place(NamedTuple):
    """Target of a point: reading type and identity, the field of its value (if any), and fields from its attributes."""

    kind: type
    identity: _Identity
    field: tuple[str, PointForm] | None
    facts: _Values | None


def decode(data: bytes) -> Tick:
    """Return the tick of one request, as :func:`~gua.otlp.encode.encode` writes it.

    Skips metrics outside the catalogue and derived ones; ``errors`` is empty.
    Raises :class:`DataError` unless the bytes are a request with exactly one tick.
    """
    return make_tick(_request(data))


def decode_whole(data: bytes) -> Tick | None:
    """Return the tick of one request; ``None`` if it has more or fewer points than ``encode`` writes for that tick.

    A Collector may split a tick into several requests, and other senders may add points.
    Raises :class:`DataError` as :func:`decode` does.
    """
    request = _request(data)
    tick = make_tick(request)
    points = sum(
        len((metric.sum if metric.HasField("sum") else metric.gauge).data_points)
        for scope_metrics in request.resource_metrics[0].scope_metrics
        for metric in scope_metrics.metrics
    )
    return tick if points == count_points(tick) else None


def _request(data: bytes) -> Any:  # noqa: ANN401 - protobuf's generated classes are untyped
    try:
        return ExportMetricsServiceRequest.FromString(data)
    except DecodeError as error:
        raise DataError(f"{len(data)} bytes are not an OTLP metrics request: {error}") from error


def make_tick(request: Any) -> Tick:  # noqa: ANN401 - protobuf's generated classes are untyped
    """Return the tick of a request as :func:`decode` does, with its errors. Clears values and times of the points."""
    if len(request.resource_metrics) != 1:
        raise DataError(f"one tick is one resource, this request has {len(request.resource_metrics)}")
    (resource_metrics,) = request.resource_metrics
    try:
        points = _Points(resource_metrics)
        attributes = plain_attributes(resource_metrics.resource.attributes)
        values = {
            "host": attributes.pop("host.name"),
            "source": Source(attributes.pop("gua.source")),
            "interval_ms": round(attributes.pop("gua.sample.interval") * 1000),
            "host_id": attributes.pop("host.id", None),
            "instance_id": attributes.pop("service.instance.id", None),
            "service_name": attributes.pop("service.name"),
            "service_version": attributes.pop("service.version", None),
            "attributes": tuple(sorted((key, str(value)) for key, value in attributes.items())),
        }
        _check(Origin, values)
        return Tick(
            ts_ms=points.ts_ms,
            origin=Origin(**values),
            cards=points.cards(),
            agent=points.agent(),
            allocation_sources=tuple(source for _, source in points.readings(AllocationSourceReading)),
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise DataError(f"an OTLP request is not a tick of {metrics.SCOPE}: {error!r}") from error


class _Points:
    """Accumulates the points of a tick: per reading type, values and facts (attributes) by identity."""

    def __init__(self, resource_metrics: Any) -> None:  # noqa: ANN401 - as above
        self._values: defaultdict[type, dict[_Identity, _Values]] = defaultdict(dict)
        self._facts: defaultdict[type, list[tuple[_Identity, _Values]]] = defaultdict(list)
        self._agent_starts: set[int] = set()
        times: set[int] = set()
        for metric, points in _metrics(resource_metrics):
            for point in points:
                times.add(point.time_unix_nano)
                if metric is not None:
                    if metric.subject is Subject.AGENT:
                        self._agent_starts.add(point.start_time_unix_nano)
                    value = getattr(point, point.WhichOneof("value"))
                    # Without time and value, a point is equal from tick to tick, so the parsed rest is cached.
                    for part in ("start_time_unix_nano", "time_unix_nano", "value"):
                        point.ClearField(part)
                    kind, identity, field, facts = _place(metric.name, point.SerializeToString())
                    if facts is not None:
                        self._facts[kind].append(
                            (identity, facts if field is None else {**facts, field[0]: field[1].from_wire(value)})
                        )
                    elif field is not None:
                        values = self._values[kind].get(identity)
                        if values is None:
                            values = self._values[kind][identity] = {}
                        values[field[0]] = field[1].from_wire(value)
        (time_ns,) = times
        self.ts_ms = time_ns // _NS_PER_MS

    def readings(self, kind: type[T]) -> Iterator[tuple[_Identity, T]]:
        """Yield the readings of a type with their identities, in the order of their info points."""
        values = self._values[kind]
        for identity, facts in self._facts[kind]:
            yield identity, kind(**facts, **values.get(identity, {}))

    def cards(self) -> tuple[CardReading, ...]:
        """Return the cards, in the order of their first values."""
        cards: dict[_Identity, _Values] = {
            identity: {"processes": [], "allocations": [], **values}
            for identity, values in self._values[CardReading].items()
        }
        for identity, facts in self._facts[CardReading]:
            cards[identity].update(facts)
        for (uuid, *_), process in self.readings(ProcessReading):
            cards[uuid,]["processes"].append(process)
        for (uuid, *_), allocation in self.readings(AllocationReading):
            cards[uuid,]["allocations"].append(allocation)
        for (uuid,), card in cards.items():
            card["uuid"] = uuid
            card["processes"], card["allocations"] = tuple(card["processes"]), tuple(card["allocations"])
            if "failed" in card:
                card["failed"] = bool(card["failed"])
        return tuple(CardReading(**card) for card in cards.values())

    def agent(self) -> AgentReading | None:
        """Return the agent's own reading; ``None`` without points of the agent."""
        if not self._agent_starts:
            return None
        return AgentReading(
            started_ms=min(self._agent_starts) // _NS_PER_MS,
            errors=tuple(error for _, error in self.readings(ErrorCount)),
            **self._values[AgentReading].get((), {}),
        )


def _metrics(resource_metrics: Any) -> Iterator[tuple[Metric | None, Any]]:  # noqa: ANN401 - as above
    """Yield each metric in gua's scope (``None`` if not in the catalogue) and its points."""
    for scope_metrics in resource_metrics.scope_metrics:
        if scope_metrics.scope.name == metrics.SCOPE:
            for metric in scope_metrics.metrics:
                data = metric.sum if metric.HasField("sum") else metric.gauge
                yield _METRICS.get(metric.name), data.data_points


@lru_cache(maxsize=_MOST_CACHED)
def _place(name: str, raw: bytes) -> _Place:
    """Return the target of a metric's point; ``raw`` is the point's bytes without times and value. Cached.

    Raises TypeError if an attribute has another type than its field.
    """
    attributes = plain_attributes(NumberDataPoint.FromString(raw).attributes)
    metric = _METRICS[name]
    kind = ErrorCount if metric is metrics.AGENT_ERRORS else _READINGS[metric.subject]
    keys = _IDENTITIES[kind]
    identity = tuple(attributes.get(key) for key in keys)
    infos = _INFOS.get(name)
    names = {key: field for key, field in {**keys, **(infos or {})}.items() if field and key in attributes}
    facts = {field: _fact(field, attributes[key]) for key, field in names.items()}
    _check(kind, facts)
    if infos is not None:
        return _Place(kind, identity, _INFO_VALUES.get(name), facts)
    extra = frozenset((key, value) for key, value in attributes.items() if key not in keys)
    return _Place(kind, identity, _VALUES.get((name, extra)), None)


def _fact(name: str, value: Any) -> Any:  # noqa: ANN401 - any attribute value
    if name in fields.MOMENTS:
        return to_ms(datetime.fromisoformat(value).astimezone(UTC))
    return _ENUMS[name](value) if name in _ENUMS else value


def plain_attributes(pairs: Any) -> _Values:  # noqa: ANN401 - protobuf's generated classes are untyped
    """Return the attributes that are single values."""
    kinds = ((pair, pair.value.WhichOneof("value")) for pair in pairs)
    return {pair.key: getattr(pair.value, kind) for pair, kind in kinds if kind in _SINGLE_VALUES}


def _types(kind: type) -> dict[str, set[type]]:
    """Return the allowed types of each field of a reading."""
    hints = get_type_hints(kind).items()
    every = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints}
    types = {name: {get_origin(one) or one for one in several} for name, several in every.items()}
    return {name: allowed | {int} if float in allowed else allowed for name, allowed in types.items()}


_TYPES: Final[Mapping[type, Mapping[str, set[type]]]] = {kind: _types(kind) for kind in (Origin, *_IDENTITIES)}


def _check(kind: type, values: _Values) -> None:
    """Raise TypeError if a value has another type than its field."""
    types = _TYPES[kind]
    for name, value in values.items():
        if type(value) not in types[name]:
            raise TypeError(f"{name} is {value!r}")


_LONGEST_LINE: Final = 64 * 2**20
_NO_RECORDED_VALUE: Final = 1
Json = dict[str, Any]


def check_lines(path: Path, cut: list[str]) -> int:
    """Return the number of lines with points of gua. Raises the errors of :func:`ticks_of_lines`.

    Points are validated only when their tick is built. A truncated last line is skipped, here and there; its position
    is appended to ``cut``.
    """
    return sum(any(map(_scopes, objects_in(line.get("resourceMetrics")))) for _, line in _lines(path, cut))


def ticks_of_lines(path: Path) -> Iterator[Tick]:
    """Yield the ticks of a file in its order; other tools' metrics are skipped.

    A Collector may put several ticks into one line, but never splits one: each timestamp of a resource is a tick.
    Raises UsageError if the file does not exist, UnavailableError if it is unreadable, DataError if it is not OTLP.
    """
    for where, line in _lines(path, []):
        for resource in objects_in(line.get("resourceMetrics")):
            for request in _requests(resource, where):
                try:
                    yield make_tick(request)
                except DataError as error:
                    msg = f"{where}: {error}: what came before it is imported, correct the line and import it again"
                    raise DataError(msg) from None


def _lines(path: Path, cut: list[str]) -> Iterator[tuple[str, Json]]:
    number = 0
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            msg = f"{path} is not a regular file: it is read twice, so write the Collector's output to a file first"
            raise UsageError(msg)
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST_LINE):
                number += 1
                where = f"{path}:{number}"
                try:
                    line = _parsed(raw, where) if raw.strip() else None
                except DataError:
                    if number == 1 or raw.endswith(b"\n") or len(raw) == _LONGEST_LINE:
                        raise
                    cut.append(where)
                    return
                if line is not None:
                    yield where, line
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: give a file that a Collector's file exporter wrote") from None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}: check the file and its permissions"
        raise UnavailableError(msg) from None
    if not number:
        raise DataError(f"{path} is empty: give a file that a Collector's file exporter wrote")


def _parsed(raw: bytes, where: str) -> Json:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        msg = f"{where}: the line is no JSON: the file exporter writes it with format: json and no compression"
        raise DataError(msg) from None
    if not isinstance(line, dict) or not line.keys() & {"resourceMetrics", "resourceLogs", "resourceSpans"}:
        raise DataError(f"{where}: the line is no OTLP: it has no resourceMetrics")
    return line


def _scopes(resource: Json) -> list[Json]:
    return [
        scope
        for scope in objects_in(resource.get("scopeMetrics"))
        if object_in(scope.get("scope")).get("name") == metrics.SCOPE
    ]


def _requests(resource: Json, where: str) -> Iterator[ExportMetricsServiceRequest]:
    """Yield one request per timestamp of a resource, reduced to what :func:`make_tick` reads."""
    try:
        parsed = json_format.ParseDict(
            {"resource": resource.get("resource") or {}, "scopeMetrics": _scopes(resource)},
            ResourceMetrics(),
            ignore_unknown_fields=True,
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, json_format.ParseError) as error:
        raise DataError(
            f"{where}: the line is no OTLP: {error!r}: what came before it is imported, correct it and import it again"
        ) from None
    by_time: defaultdict[int, defaultdict[tuple[str, str], list[NumberDataPoint]]]
    by_time = defaultdict(lambda: defaultdict(list))
    for scope in parsed.scope_metrics:
        for metric in scope.metrics:
            kind = "sum" if metric.HasField("sum") else "gauge"
            for point in getattr(metric, kind).data_points:
                if point.flags & _NO_RECORDED_VALUE == 0:
                    by_time[point.time_unix_nano][metric.name, kind].append(point)
    for _, of_metric in sorted(by_time.items()):
        request = ExportMetricsServiceRequest()
        made = request.resource_metrics.add(resource=parsed.resource)
        scope_metrics = made.scope_metrics.add()
        scope_metrics.scope.name = metrics.SCOPE
        for (name, kind), points in of_metric.items():
            metric = scope_metrics.metrics.add(name=name)
            getattr(metric, kind).data_points.extend(points)
        yield request
