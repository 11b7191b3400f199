"""A tick to the bytes of one OTLP ``ExportMetricsServiceRequest``."""

from __future__ import annotations

from functools import lru_cache

from gua.core import fields, metrics
from gua.core.fields import PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.plaintext import storable
from gua.core.tick import AgentReading, AllocationSourceReading, CardReading, Origin, Tick
from gua.otlp import card_points, wire

_NS_PER_MS = 1_000_000
_SUM_ENDINGS = {
    MetricKind.DELTA: b"\x10\x01\x18\x01",  # aggregation_temporality = DELTA, is_monotonic = true
    MetricKind.COUNTER: b"\x10\x02\x18\x01",
    MetricKind.AMOUNT: b"\x10\x02",
}


class _Points:
    """The points of one tick by metric. Gauges have no start; sums start with their span or the agent."""

    def __init__(self, ts_ms: int, agent: AgentReading | None) -> None:
        self._ts_ms = ts_ms
        self._agent_start_ns = None if agent is None else min(max(agent.started_ms, 0), ts_ms) * _NS_PER_MS
        self._of_metric: list[list[bytes]] = [[] for _ in metrics.CATALOGUE]
        self._spans: dict[int, card_points.Spans] = {}

    def add_card(self, card: CardReading) -> None:
        spans = self._spans.get(card.duration_ms)
        if spans is None:
            start_ns = self._start_ns(card.duration_ms)
            running_ns = start_ns if self._agent_start_ns is None else self._agent_start_ns
            spans = card_points.spans(self._ts_ms * _NS_PER_MS, start_ns, running_ns)
            self._spans[card.duration_ms] = spans
        card_points.add_card(card, spans, self._of_metric)

    def add_agent(self, agent: AgentReading) -> None:
        """Add the agent's points: its start is told even if it has no sum to report."""
        span = self._from(self._agent_start_ns)
        for field in fields.AGENT_FIELDS:
            self._add(field.metric, field.form.to_wire(getattr(agent, field.name)), span, b"")
        for error in agent.errors:
            attributes = wire.attributes(("call", error.call), ("code", error.code))
            self._add(metrics.AGENT_ERRORS, error.count, span, attributes)

    def add_source(self, source: AllocationSourceReading) -> None:
        self._add(
            metrics.ALLOCATION_SOURCE_DURATION,
            PointForm.MILLI.to_wire(source.duration_ms),
            self._from(self._start_ns(source.duration_ms)),
            wire.attributes(
                ("gua.allocation.source", source.source),
                ("gua.allocation.source.status", "ok" if source.reason is None else "failed"),
                ("gua.allocation.source.reason", source.reason),
            ),
        )
        name = wire.attributes(("gua.allocation.source", source.source))
        for field in fields.SOURCE_FIELDS:
            gauge = field.metric.kind is MetricKind.GAUGE
            span = self._from(None if gauge else self._start_ns(source.duration_ms))
            self._add(field.metric, field.form.to_wire(getattr(source, field.name)), span, name)

    def to_metrics(self) -> bytes:
        """Return ``ScopeMetrics.metrics`` in the order of the catalogue."""
        pieces: list[bytes] = []
        for (head, tag, ending), points in zip(_METRICS, self._of_metric, strict=True):
            if points:
                of_metric = b"".join(points) + ending
                length = wire.varint(len(of_metric))
                pieces += (
                    b"\x12",
                    wire.varint(len(head) + 1 + len(length) + len(of_metric)),
                    head,
                    tag,
                    length,
                    of_metric,
                )
        return b"".join(pieces)

    def _start_ns(self, duration_ms: int) -> int:
        return max(self._ts_ms - duration_ms, 0) * _NS_PER_MS

    def _from(self, start_ns: int | None) -> bytes:
        return wire.span(self._ts_ms * _NS_PER_MS, start_ns or None)  # protobuf does not write a zero

    def _add(self, metric: Metric, value: float | None, span: bytes, attributes: bytes) -> None:
        if value is not None:
            self._of_metric[card_points.NUMBERS[metric.name]].append(wire.point(value, span, attributes))


def _described(metric: Metric) -> tuple[bytes, bytes, bytes]:
    """Return what stands before a metric's points, their tag, and what stands after them."""
    # The description stays in docs/metrics.md: it would be a third of a small tick.
    head = wire.field(0x0A, metric.name.encode()) + wire.field(0x1A, metric.unit.encode())
    return head, b"\x2a" if metric.kind is MetricKind.GAUGE else b"\x3a", _SUM_ENDINGS.get(metric.kind, b"")


_METRICS = tuple(_described(metric) for metric in metrics.CATALOGUE)
_SCOPE = wire.field(0x0A, wire.field(0x0A, metrics.SCOPE.encode()))


def encode(tick: Tick) -> bytes:
    """Return the request of one tick: one resource, one scope, every point at the tick's time.

    A value that is unknown, not finite or beyond an int64 has no point. ``tick.errors`` are not sent as
    such; the agent counts them in its reading. Attributes stand in the order of the catalogue.
    """
    points = _Points(tick.ts_ms, tick.agent)
    for card in tick.cards:
        points.add_card(card)
    for source in tick.allocation_sources:
        points.add_source(source)
    if tick.agent is not None:
        points.add_agent(tick.agent)
    scope_metrics = wire.field(0x12, _SCOPE + points.to_metrics())
    return wire.field(0x0A, _resource(tick.origin) + scope_metrics)


@lru_cache(maxsize=256)
def _resource(origin: Origin) -> bytes:
    return wire.field(
        0x0A,
        b"".join(
            wire.key_value(
                wire.RESOURCE_ATTRIBUTES,
                storable(key),
                storable(value, fields.RESOURCE_TEXT) if isinstance(value, str) else value,
            )
            for key, value in fields.resource(origin).items()
        ),
    )
