"""Ticks of the versions before 0.1.0 carry another scope name: those that wait in a spool still land and decode."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.fleet import agent_tick
from gua.core.metrics import SCOPE, SCOPES
from gua.core.ports import SpooledTick
from gua.otlp.decode import decode
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.store.database import open_store


def older(raw: bytes) -> bytes:
    """Return the request of a tick as versions before 0.1.0 sent it."""
    request = ExportMetricsServiceRequest.FromString(raw)
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == SCOPE
            scope.scope.name = "gpu_usage_audit"
    return request.SerializeToString()


def test_the_older_scope_is_one_of_ours() -> None:
    assert SCOPES == ("gua", "gpu_usage_audit")
    tick = agent_tick("node-1", 1_700_000_000_000)
    assert decode(older(encode(tick))) == decode(encode(tick))


@pytest.mark.engine
def test_a_tick_of_the_older_scope_lands_like_a_new_one(tmp_path: Path) -> None:
    ticks = [agent_tick("node-1", 1_700_000_000_000 + number * 30_000) for number in range(4)]
    raw = [encode(ticks[0]), older(encode(ticks[1])), older(encode(ticks[1])), encode(ticks[2])]
    batch = [
        SpooledTick(id=number, ts_ms=tick.ts_ms, raw_length=len(content), blob=compress(content))
        for number, (tick, content) in enumerate(zip((ticks[0], ticks[1], ticks[1], ticks[2]), raw, strict=True))
    ]
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        assert store.land(batch) == []
        rows = store.rows("extent", {"hosts": []})
        (row,) = list(rows)
        assert (row["host"], row["cards"], row["last_ms"]) == ("node-1", 1, ticks[2].ts_ms)
        client = store._client  # noqa: SLF001 - what landed is looked at below the store's own interface
        found = client.query("SELECT count(), sum(duration_ms) FROM gua.card_ticks FINAL").result_rows
        assert [tuple(line) for line in found] == [(3, 90_000)]
