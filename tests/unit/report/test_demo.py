"""The demo's whole way, from simulated ticks through the embedded engine to the report, is the golden one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servers.gua import Gua

pytestmark = pytest.mark.engine


def test_the_demo_report_is_the_golden_one(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    gua = Gua(tmp_path)
    store = f"chdb://{tmp_path / 'store'}"
    golden("demo.txt", gua.must("demo", "--store", store, "--width", "80"))
    golden("demo.json", gua.must("report", "--json", "--store", store, "--until", "2026-03-27T16:00:00Z"))
