"""Encode a tick as one OTLP ``ExportMetricsServiceRequest``, with OpenTelemetry's protobuf classes.

Fills the classes directly: the SDK exporter's ``encode_metrics`` builds each attribute of each point again, 15 ms
for a tick of 8 cards with 10 processes each. Here attributes are cached and copied from tick to tick.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Gauge, NumberDataPoint, Sum
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from gua.core import fields, metrics
from gua.core.facts import busiest, type_totals
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.plaintext import storable
from gua.core.tick import AgentReading, AllocationSourceReading, CardReading, Origin, Tick
from gua.core.words import ProcessList, ProcessType

Value = str | int | float | bool

_NS_PER_MS: Final = 1_000_000
_SCOPE: Final = InstrumentationScope(name=metrics.SCOPE)
_DELTA: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
_CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_EMPTY: Final = {
    MetricKind.GAUGE: Gauge(),
    MetricKind.DELTA: Sum(aggregation_temporality=_DELTA, is_monotonic=True),
    MetricKind.COUNTER: Sum(aggregation_temporality=_CUMULATIVE, is_monotonic=True),
    MetricKind.AMOUNT: Sum(aggregation_temporality=_CUMULATIVE),
}
"""Empty metric data of each kind."""
_KINDS: Final = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
_TOTALS: Final = (metrics.PROCESS_COUNT, metrics.PROCESS_MEMORY, metrics.PROCESS_MEMORY_UNKNOWN)
_card_facts: Final = attrgetter(*metrics.CARD_FACTS.values())
_process_facts: Final = attrgetter("pid", "created_ms", "owner", "comm", *metrics.PROCESS_FACTS.values())
_allocation_facts: Final = attrgetter("source", "id", *metrics.ALLOCATION_FACTS.values())
# Far above what a host has at a time. Bounded: attributes take about 500 bytes, and long-lived agents see many.
_MOST_CARDS: Final = 256
_MOST_PROCESSES: Final = 2048
_MOST_OTHERS: Final = 1024


def encode(tick: Tick) -> bytes:
    """Return the request of one tick: one resource, one scope, every point at the tick's time.

    Values that are unknown, not finite or beyond int64 get no point. ``tick.errors`` are not sent: the agent's reading
    counts them. Metrics and attributes are in catalogue order.
    """
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add(resource=_resource(tick.origin))
    _Points.of(tick).write(resource_metrics.scope_metrics.add(scope=_SCOPE))
    raw: bytes = request.SerializeToString()
    return raw


def count_points(tick: Tick) -> int:
    """Return the number of points that :func:`encode` writes for a tick."""
    return _Points.of(tick).count()


def points(tick: Tick) -> Mapping[str, Sequence[tuple[Any, int, float]]]:
    """Return the points of a tick by metric name, each as (NumberDataPoint with attributes, start [ns], value)."""
    return _Points.of(tick).of_metric


class _Points:
    """Points of one tick by metric. Gauges of cards have no start time; sums start with their tick or the agent.

    Each point is (attributes, start [ns], value); ``int`` and ``float`` are sent as such.
    """

    def __init__(self, ts_ms: int, agent: AgentReading | None) -> None:
        self._ts_ms = ts_ms
        self._agent_start_ns = None if agent is None else min(max(agent.started_ms, 0), ts_ms) * _NS_PER_MS
        self.of_metric: dict[str, list[tuple[Any, int, float]]] = {metric.name: [] for metric in metrics.CATALOGUE}

    @classmethod
    def of(cls, tick: Tick) -> Self:
        """Return all points of a tick."""
        points = cls(tick.ts_ms, tick.agent)
        for card in tick.cards:
            points.add_card(card)
        for source in tick.allocation_sources:
            points.add_source(source)
        if tick.agent is not None:
            points.add_agent(tick.agent)
        return points

    def count(self) -> int:
        """Return the number of points."""
        return sum(map(len, self.of_metric.values()))

    def add_card(self, card: CardReading) -> None:
        starts = self._starts(card.duration_ms)
        identity, of_fields, ok, per_type = _card_attributes(card.uuid)
        for field, attributes in of_fields:
            self._add(field.metric, field.form.to_wire(getattr(card, field.name)), attributes, starts)
        if card.failed is not None:
            self._add(metrics.STATUS, int(not card.failed), ok, starts)
        self._add(metrics.INFO, 1, _card_info(card.uuid, *_card_facts(card)), starts)
        self._add(metrics.PROCESS_UTILIZATION_MAX, PointForm.DOUBLE.to_wire(busiest(card.processes)), identity, starts)
        if card.process_list is ProcessList.KNOWN:
            for (metric, attributes), total in zip(per_type, type_totals(card.processes), strict=True):
                self._add(metric, PointForm.INTEGER.to_wire(total), attributes, starts)
        for process in card.processes:
            identity, info = _process_attributes(card.uuid, *_process_facts(process))
            self._add(metrics.PROCESS_SAMPLE_DURATION, card.duration_ms / 1000, identity, starts)
            self._add_fields(process, fields.PROCESS_FIELDS, identity, starts)
            self._add(metrics.PROCESS_INFO, 1, info, starts)
        for allocation in card.allocations:
            identity, info = _allocation_attributes(card.uuid, *_allocation_facts(allocation))
            self._add_fields(allocation, fields.ALLOCATION_FIELDS, identity, starts)
            self._add(metrics.ALLOCATION_INFO, 1, info, starts)

    def add_source(self, source: AllocationSourceReading) -> None:
        starts = self._starts(source.duration_ms)
        identity = (("gua.allocation.source", source.source),)
        status = ("gua.allocation.source.status", "ok" if source.reason is None else "failed")
        attributes = _attributes(*identity, status, ("gua.allocation.source.reason", source.reason))
        self._add(metrics.ALLOCATION_SOURCE_DURATION, source.duration_ms / 1000, attributes, starts)
        self._add_fields(source, fields.SOURCE_FIELDS, _attributes(*identity), starts)

    def add_agent(self, agent: AgentReading) -> None:
        """Add the agent's points. All carry its start time, so that it is known even without a sum."""
        starts = dict.fromkeys(MetricKind, self._agent_start_ns or 0)
        self._add_fields(agent, fields.AGENT_FIELDS, _attributes(), starts)
        for error in agent.errors:
            self._add(
                metrics.AGENT_ERRORS, error.count, _attributes(("call", error.call), ("code", error.code)), starts
            )

    def write(self, scope_metrics: Any) -> None:  # noqa: ANN401 - the generated message classes have no types
        """Append the metrics that have points, in catalogue order."""
        time_ns = self._ts_ms * _NS_PER_MS
        for metric in metrics.CATALOGUE:
            points = self.of_metric[metric.name]
            if not points:
                continue
            # Without description, which would be a third of a small tick; docs/metrics.md has it.
            made = scope_metrics.metrics.add(name=metric.name, unit=metric.unit)
            data = made.gauge if metric.kind is MetricKind.GAUGE else made.sum
            data.MergeFrom(_EMPTY[metric.kind])
            for attributes, start_ns, value in points:
                point = data.data_points.add()
                point.CopyFrom(attributes)
                point.start_time_unix_nano = start_ns
                point.time_unix_nano = time_ns
                if isinstance(value, int):
                    point.as_int = value
                else:
                    point.as_double = value

    def _starts(self, duration_ms: int) -> Mapping[MetricKind, int]:
        """Return the start [ns] per metric kind for points that cover ``duration_ms`` up to the tick; 0 means none."""
        span_ns = max(self._ts_ms - duration_ms, 0) * _NS_PER_MS
        running_ns = span_ns if self._agent_start_ns is None else self._agent_start_ns
        return {
            MetricKind.GAUGE: 0,
            MetricKind.DELTA: span_ns,
            MetricKind.COUNTER: running_ns,
            MetricKind.AMOUNT: running_ns,
        }

    def _add_fields(
        self, reading: object, every: Sequence[Field], attributes: object, starts: Mapping[MetricKind, int]
    ) -> None:
        for field in every:
            self._add(field.metric, field.form.to_wire(getattr(reading, field.name)), attributes, starts)

    def _add(self, metric: Metric, value: float | None, attributes: object, starts: Mapping[MetricKind, int]) -> None:
        if value is not None:
            self.of_metric[metric.name].append((attributes, starts[metric.kind], value))


@lru_cache(maxsize=_MOST_CARDS)
def _card_attributes(uuid: str) -> tuple[Any, Sequence[tuple[Field, Any]], Any, Sequence[tuple[Metric, Any]]]:
    """Return a card's attributes: identity, per field, for status ok, and per process type and total. Cached."""
    identity = ("hw.id", uuid)
    return (
        _attributes(identity),
        [(field, _attributes(identity, *field.attributes)) for field in fields.CARD_FIELDS],
        _attributes(identity, *fields.STATUS_OK),
        [(metric, _attributes(identity, ("gua.process.type", kind))) for kind in ProcessType for metric in _TOTALS],
    )


@lru_cache(maxsize=_MOST_CARDS)
def _card_info(uuid: str, *facts: Value | None) -> Any:  # noqa: ANN401 - as above
    return _attributes(("hw.id", uuid), *zip(metrics.CARD_FACTS, facts, strict=True))


@lru_cache(maxsize=_MOST_PROCESSES)
def _process_attributes(
    uuid: str, pid: int, created_ms: int | None, owner: str | None, comm: str | None, *facts: Value | None
) -> tuple[Any, Any]:
    """Return the attributes of a process's points and of its info point. Cached."""
    known = (uuid, pid, fields.moment(created_ms), owner, comm)
    identity = [*zip(metrics.PROCESS_ATTRIBUTES, known, strict=True)]
    return _attributes(*identity), _attributes(*identity, *zip(metrics.PROCESS_FACTS, facts, strict=True))


@lru_cache(maxsize=_MOST_OTHERS)
def _allocation_attributes(uuid: str, source: str, id_: str, *facts: Value | None) -> tuple[Any, Any]:
    """Return the attributes of an allocation's points and of its info point. Cached."""
    identity = [*zip(metrics.ALLOCATION_ATTRIBUTES, (uuid, source, id_), strict=True)]
    info = [
        (key, fields.moment(fact) if name in fields.MOMENTS and isinstance(fact, int) else fact)
        for (key, name), fact in zip(metrics.ALLOCATION_FACTS.items(), facts, strict=True)
    ]
    return _attributes(*identity), _attributes(*identity, *info)


@lru_cache(maxsize=_MOST_OTHERS)
def _attributes(*pairs: tuple[str, Value | None]) -> Any:  # noqa: ANN401 - as above
    """Return a point with these attributes only, without those that are ``None``.

    Cached: safe although ``1 == True``, as each key always has values of one type.
    """
    return NumberDataPoint(
        attributes=[
            _pair(key, storable(value) if isinstance(value, str) else value)
            for key, value in pairs
            if value is not None
        ]
    )


@lru_cache(maxsize=_MOST_CARDS)
def _resource(origin: Origin) -> Any:  # noqa: ANN401 - as above
    return Resource(
        attributes=[
            _pair(storable(key), storable(value, fields.RESOURCE_TEXT) if isinstance(value, str) else value)
            for key, value in fields.resource(origin).items()
        ]
    )


def _pair(key: str, value: Value) -> Any:  # noqa: ANN401 - as above
    pair = KeyValue(key=key)
    setattr(pair.value, _KINDS[type(value)], value)
    return pair
