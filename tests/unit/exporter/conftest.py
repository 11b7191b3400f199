"""Endpoints end at once here: a server looks whether it is to end as often as it looks for slow clients."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gua.exporter.server._SWEEP_SECONDS", 0.02)
