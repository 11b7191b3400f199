"""Who sends the documented metrics with OpenTelemetry's own SDK is judged as an agent is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import Meter, Observation
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader, MetricsData
from opentelemetry.sdk.resources import Resource

from gua.core import metrics
from gua.core.ports import SpooledTick
from gua.state.compression import compress
from sql.engine import Engine

GIB = 2**30
SECONDS = 30.0
# By card: utilization, memory used, processes. What is None is not sent, as of a value that is not known.
CARDS: dict[str, tuple[float | None, int, int]] = {
    "GPU-active": (0.42, 30 * GIB, 1),
    "GPU-held": (0.0, 30 * GIB, 1),
    "GPU-free": (0.0, 0, 0),
    "GPU-unknown": (None, 30 * GIB, 1),
}


class Producer:
    """A program of the site's own, as the SDK's documentation has it: observed gauges, counters of each tick."""

    def __init__(self, scope: str) -> None:
        self._reader = InMemoryMetricReader(preferred_temporality={Counter: AggregationTemporality.DELTA})
        resource = Resource({"service.name": "site", "host.name": "site-1", "gua.source": "agent"})
        self._provider = MeterProvider(resource=resource, metric_readers=[self._reader], shutdown_on_exit=False)
        meter = self._provider.get_meter(scope)
        self._counters = [meter.create_counter(name, "s") for name in ("gua.gpu.sample.duration", "gua.gpu.time")]
        memory = meter.create_up_down_counter("hw.gpu.memory.usage", "By")
        reserved = meter.create_up_down_counter("gua.gpu.memory.reserved", "By")
        limit = meter.create_up_down_counter("hw.gpu.memory.limit", "By")
        for card, (_, used, _) in CARDS.items():
            memory.add(used, {"hw.id": card})
            limit.add(80 * GIB, {"hw.id": card})
            reserved.add(GIB // 2, {"hw.id": card})
        observe(meter)

    def tick(self) -> bytes:
        """Return the request of a tick, in a millisecond that no earlier one has: that identifies ticks."""
        last = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == last:
            time.sleep(0.000_1)
        for counter in self._counters:
            for card in CARDS:
                counter.add(SECONDS, {"hw.id": card})
        data = self._reader.get_metrics_data()
        assert isinstance(data, MetricsData)
        return encode_metrics(data).SerializeToString()

    def close(self) -> None:
        self._provider.shutdown()


def observe(meter: Meter) -> None:
    def utilization(_: object) -> Iterable[Observation]:
        known = {card: value for card, (value, _, _) in CARDS.items() if value is not None}
        return [Observation(value, {"hw.id": card, "hw.gpu.task": "general"}) for card, value in known.items()]

    def processes(_: object) -> Iterable[Observation]:
        of_type = {"gua.process.type": "compute"}
        return [Observation(count, {"hw.id": card, **of_type}) for card, (_, _, count) in CARDS.items()]

    def info(_: object) -> Iterable[Observation]:
        attributes = {"gua.gpu.process.list": "known", "gua.gpu.mig": "none"}
        return [Observation(1, {"hw.id": card, "gua.gpu.index": at, **attributes}) for at, card in enumerate(CARDS)]

    meter.create_observable_gauge("hw.gpu.utilization", [utilization], "1")
    meter.create_observable_gauge("gua.gpu.processes", [processes], "{process}")
    meter.create_observable_gauge("gua.gpu.info", [info], "1")


def land(engine: Engine, requests: list[bytes]) -> list[Any]:
    numbered = enumerate(requests, start=1)
    ticks = [SpooledTick(id=at, ts_ms=at, raw_length=len(raw), blob=compress(raw)) for at, raw in numbered]
    return [*engine.writer.land(ticks)]


def test_a_stock_sdk_that_sends_the_documented_metrics_is_judged_rightly(engine: Engine) -> None:
    producer = Producer(metrics.SCOPE)
    requests = [producer.tick(), producer.tick()]
    producer.close()
    assert land(engine, requests) == []
    counted = "count() AS ticks, sum(gpu_time_ms) AS ms"
    rows = engine.select(f"SELECT gpu, state, reason, {counted} FROM gua.card_states GROUP BY gpu, state, reason")
    found = {row["gpu"]: (row["state"], row["reason"], row["ticks"], row["ms"]) for row in rows}
    whole = round(2 * SECONDS * 1000)
    assert found == {
        "GPU-active": ("active", None, 2, whole),
        "GPU-held": ("idle-held", None, 2, whole),
        "GPU-free": ("truly-idle", None, 2, whole),
        "GPU-unknown": ("unknown", "utilization", 2, whole),
    }


def test_the_same_in_another_scope_is_not_taken(engine: Engine) -> None:
    producer = Producer("another")
    request = producer.tick()
    producer.close()
    land(engine, [request])
    assert engine.rows("card_ticks", None) == []
