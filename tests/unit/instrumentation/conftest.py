"""An instrumentor of its own for each test, and its metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gua.instrumentation import GpuInstrumentor, options


@pytest.fixture
def instrumentor(monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuInstrumentor]:
    """Return an instrumentor that has done nothing and warned of nothing."""
    monkeypatch.setattr(GpuInstrumentor, "_instance", None)
    monkeypatch.setattr(options, "_warned", set())
    made = GpuInstrumentor()
    yield made
    if made.is_instrumented_by_opentelemetry:
        made.uninstrument()
