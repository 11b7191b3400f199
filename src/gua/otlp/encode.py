"""A tick to the bytes of one OTLP ``ExportMetricsServiceRequest``."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter

from gua.core import fields, metrics
from gua.core.facts import busiest, totals_by_type
from gua.core.fields import PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.plaintext import storable
from gua.core.tick import AgentReading, CardReading, Origin, ProcessList, ProcessReading, ProcessType, Tick
from gua.otlp import wire

_NS_PER_MS = 1_000_000
_RESOURCE_TEXT = 4096
_SUM_ENDINGS = {
    MetricKind.DELTA: b"\x10\x01\x18\x01",  # aggregation_temporality = DELTA, is_monotonic = true
    MetricKind.COUNTER: b"\x10\x02\x18\x01",
    MetricKind.AMOUNT: b"\x10\x02",
}
_GAUGES = tuple(metric.name for metric in metrics.CATALOGUE if metric.kind is MetricKind.GAUGE)
_DELTAS = tuple(metric.name for metric in metrics.CATALOGUE if metric.kind is MetricKind.DELTA)
_RUNNING = tuple(metric.name for metric in metrics.CATALOGUE if metric.kind in {MetricKind.COUNTER, MetricKind.AMOUNT})
_Starts = dict[str, bytes]
"""What a metric's points begin with, by its name: start and time."""
# Far more than eight cards have at a time; some 500 bytes each, as an agent of months meets very many.
_MOST_PROCESSES = 2048


class _Points:
    """The points of one tick by metric. Gauges have no start; sums start with their span or the agent."""

    def __init__(self, ts_ms: int, agent: AgentReading | None) -> None:
        self._ts_ms = ts_ms
        self._agent_start_ns = None if agent is None else min(max(agent.started_ms, 0), ts_ms) * _NS_PER_MS
        self._of_metric: dict[str, list[bytes]] = {metric.name: [] for metric in metrics.CATALOGUE}
        self._spans: dict[int, _Starts] = {}

    def of_span(self, duration_ms: int) -> _Starts:
        """Return the start of each metric for a reading that covers ``duration_ms``; most of a tick cover the same."""
        starts = self._spans.get(duration_ms)
        if starts is None:
            starts = self._spans[duration_ms] = self._starts(duration_ms)
        return starts

    def _starts(self, duration_ms: int) -> _Starts:
        start_ns = max(self._ts_ms - duration_ms, 0) * _NS_PER_MS
        running_ns = start_ns if self._agent_start_ns is None else self._agent_start_ns
        return {
            **dict.fromkeys(_GAUGES, self._from(None)),
            **dict.fromkeys(_DELTAS, self._from(start_ns)),
            **dict.fromkeys(_RUNNING, self._from(running_ns)),
        }

    def of_agent(self) -> _Starts:
        """Return the agent's start for all kinds: it is told even if the agent has no sum to report."""
        return dict.fromkeys(self._of_metric, self._from(self._agent_start_ns))

    def _from(self, start_ns: int | None) -> bytes:
        return wire.span(self._ts_ms * _NS_PER_MS, start_ns or None)  # protobuf does not write a zero

    def add(self, metric: Metric, value: float | None, starts: _Starts, attributes: bytes) -> None:
        if value is not None:
            name = metric.name
            self._of_metric[name].append(wire.point(value, starts[name], attributes))

    def to_metrics(self) -> bytes:
        """Return ``ScopeMetrics.metrics`` in the order of the catalogue."""
        return b"".join(
            wire.field(
                0x12, _metric_head(metric) + wire.field(tag, b"".join(points) + _SUM_ENDINGS.get(metric.kind, b""))
            )
            for metric in metrics.CATALOGUE
            for points in [self._of_metric[metric.name]]
            for tag in [0x2A if metric.kind is MetricKind.GAUGE else 0x3A]
            if points
        )


@lru_cache(maxsize=64)
def _metric_head(metric: Metric) -> bytes:
    # The description stays in docs/metrics.md: it would be a third of a small tick.
    return wire.field(0x0A, metric.name.encode()) + wire.field(0x1A, metric.unit.encode())


_SCOPE = wire.field(0x0A, wire.field(0x0A, metrics.SCOPE.encode()))


def encode(tick: Tick) -> bytes:
    """Return the request of one tick: one resource, one scope, every point at the tick's time.

    A value that is unknown, not finite or beyond an int64 has no point. ``tick.errors`` are not sent as
    such; the agent counts them in its reading. Attributes stand in the order of the catalogue.
    """
    points = _Points(tick.ts_ms, tick.agent)
    for card in tick.cards:
        _add_card(points, card)
    if tick.agent is not None:
        _add_agent(points, tick.agent)
    scope_metrics = wire.field(0x12, _SCOPE + points.to_metrics())
    return wire.field(0x0A, _resource(tick.origin) + scope_metrics)


@lru_cache(maxsize=256)
def _resource(origin: Origin) -> bytes:
    own = {
        "service.name": origin.service_name,
        "service.version": origin.service_version,
        "service.instance.id": origin.instance_id,
        "host.name": origin.host,
        "host.id": origin.host_id,
        "gua.sample.interval": origin.interval_ms / 1000,
        "gua.source": str(origin.source),
    }
    further = {key: value for key, value in origin.attributes if key not in own}
    pairs: dict[str, str | float | None] = {**own, **further}
    return wire.field(
        0x0A,
        b"".join(
            wire.key_value(
                wire.RESOURCE_ATTRIBUTES,
                storable(key),
                storable(value, _RESOURCE_TEXT) if isinstance(value, str) else value,
            )
            for key, value in pairs.items()
            if value is not None
        ),
    )


def _add_card(points: _Points, card: CardReading) -> None:
    starts = points.of_span(card.duration_ms)
    identity, of_fields, of_types = _card_identity(card.uuid)
    for field, attributes in of_fields:
        value = getattr(card, field.name)
        if value is not None:
            points.add(field.metric, field.form.to_wire(value), starts, attributes)
    if card.failed is not None:
        points.add(metrics.STATUS, int(not card.failed), starts, identity + wire.attributes(*fields.STATUS_OK))
    info = wire.attributes(*[(key, getattr(card, name)) for key, name in fields.CARD_INFO.items()])
    points.add(metrics.INFO, 1, starts, identity + info)
    points.add(metrics.PROCESS_UTILIZATION_MAX, PointForm.DOUBLE.to_wire(busiest(card.processes)), starts, identity)
    if card.process_list is ProcessList.KNOWN:
        for kind, totals in totals_by_type(card.processes).items():
            of_type = of_types[kind]
            points.add(metrics.PROCESS_COUNT, totals.count, starts, of_type)
            points.add(metrics.PROCESS_MEMORY, PointForm.INTEGER.to_wire(totals.memory_bytes), starts, of_type)
            points.add(metrics.PROCESS_MEMORY_UNKNOWN, totals.unknown, starts, of_type)
    for process in card.processes:
        _add_process(points, card, process, starts)


@lru_cache(maxsize=1024)
def _card_identity(
    uuid: str,
) -> tuple[bytes, tuple[tuple[fields.Field, bytes], ...], dict[ProcessType, bytes]]:
    """Return the attributes of a card's points: those of all, those of each field, those of each process type."""
    identity = wire.attributes(("hw.id", uuid))
    return (
        identity,
        tuple((field, identity + wire.attributes(*field.attributes)) for field in fields.CARD_FIELDS),
        {kind: identity + wire.attributes(("gua.process.type", kind.value)) for kind in ProcessType},
    )


def _add_process(points: _Points, card: CardReading, process: ProcessReading, starts: _Starts) -> None:
    identity = _process_identity(card.uuid, process.pid, process.created_ms, process.owner, process.comm)
    points.add(metrics.PROCESS_SAMPLE_DURATION, card.duration_ms / 1000, starts, identity)
    for field in fields.PROCESS_FIELDS:
        value = getattr(process, field.name)
        if value is not None:
            points.add(field.metric, field.form.to_wire(value), starts, identity)
    points.add(metrics.PROCESS_INFO, 1, starts, identity + _process_info(*_process_facts(process)))


@lru_cache(maxsize=_MOST_PROCESSES)
def _process_identity(uuid: str, pid: int, created_ms: int | None, owner: str | None, comm: str | None) -> bytes:
    return wire.joined(
        [
            ("hw.id", uuid),
            ("process.pid", pid),
            ("process.creation.time", fields.creation_time(created_ms)),
            ("process.owner", owner),
            ("gua.process.comm", comm),
        ]
    )


_process_facts = attrgetter(*fields.PROCESS_INFO.values())


@lru_cache(maxsize=_MOST_PROCESSES)
def _process_info(*facts: wire.Value | None) -> bytes:
    return wire.joined(zip(fields.PROCESS_INFO, facts, strict=True))


def _add_agent(points: _Points, agent: AgentReading) -> None:
    starts = points.of_agent()
    for field in fields.AGENT_FIELDS:
        points.add(field.metric, field.form.to_wire(getattr(agent, field.name)), starts, b"")
    for error in agent.errors:
        points.add(
            metrics.AGENT_ERRORS, error.count, starts, wire.attributes(("call", error.call), ("code", error.code))
        )
