"""The demo's whole way, from simulated ticks through the embedded engine to the report, is the golden one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servers.gua import Gua

pytestmark = pytest.mark.engine

Golden = Callable[[str, str], None]
END = "2026-03-27T16:00:00Z"
CARD = "NVIDIA H100 80GB HBM3"


def test_the_demo_report_is_the_golden_one(tmp_path: Path, golden: Golden) -> None:
    answers = Gua(tmp_path).must("demo", "--width", "80")
    golden("demo.txt", answers)
    assert len(answers.splitlines()) <= 50


def test_the_reports_of_a_week_that_was_kept_are_the_golden_ones(tmp_path: Path, golden: Golden) -> None:
    store = f"chdb://{tmp_path / 'store'}"
    gua = Gua(tmp_path, GUA_STORE=store, GUA_UNTIL=END)
    more = gua.must("demo", "--store", store, "--brief").rpartition("\nmore: ")[2]
    first = f"gua report --store {store} --full; gua explain --store {store} demo-host 3"
    assert " ".join(more.replace("\\\n", "").split()).startswith(first)
    brief, full = gua.must("report", "--brief"), gua.must("report", "--full")
    golden("demo-brief.txt", brief)
    golden("demo-full.txt", full)
    golden("demo.json", gua.must("report", "--json"))
    assert len(brief.splitlines()) <= 24
    gua.must("prices", "set", CARD, "2.50", "--currency", "EUR", "--from", "2026-03-01")
    priced, priced_brief = gua.must("report"), gua.must("report", "--brief")
    golden("demo-prices.txt", priced)
    assert len(priced.splitlines()) <= 50
    assert len(priced_brief.splitlines()) <= 24


def test_the_report_of_a_first_minute_is_the_golden_one(tmp_path: Path, golden: Golden) -> None:
    store = f"chdb://{tmp_path / 'store'}"
    gua = Gua(tmp_path, GUA_STORE=store, GUA_UNTIL=END)
    gua.must("demo", "--store", store, "--ticks", "3", "--interval", "30s")
    golden("minute.txt", gua.must("report"))
    golden("minute-brief.txt", gua.must("report", "--brief"))
