"""The JSON that scripts rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.reports import render_json
from fakes.store import HOUR_MS, UNTIL_MS, lab
from gua.report.collect import collect
from gua.report.window import ReportRequest

STATES = ["active", "idle-held", "truly-idle", "unknown"]


@pytest.fixture
def report() -> dict[str, Any]:
    made = json.loads(render_json(collect(lab(), ReportRequest(now_ms=UNTIL_MS, since="2d"))))
    assert isinstance(made, dict)
    return made


def test_it_names_its_schema_first(report: dict[str, Any]) -> None:
    assert next(iter(report.items())) == ("schema", "gua.report/1")


def test_it_has_the_allocated_keys(report: dict[str, Any]) -> None:
    assert {
        "window",
        "hosts",
        "rules",
        "coverage",
        "unknown",
        "headline",
        "idle_capacity",
        "cards",
        "owners",
        "time_of_day",
    } <= set(report)
    assert report["window"] == {"since": "2026-03-25T00:00:00Z", "until": "2026-03-27T00:00:00Z", "timezone": "UTC"}
    assert report["rules"] == {
        "active_utilization": 0.1,
        "held_memory_bytes": 536_870_912,
        "held_memory_ratio": 0,
    }
    assert {"expected_gpu_hours", "observed_gpu_hours", "unobserved_gpu_hours", "ratio", "gaps"} <= set(
        report["coverage"]
    )
    assert report["unknown"] == {"utilization": 20.571, "pid_namespace": 0.01}
    assert list(report["idle_capacity"]) == ["idle-held", "truly-idle"]
    assert {"host", "gpu", "index", "name", "states"} <= set(report["cards"][0])
    assert {"kind", "owner", "program", "gpu_hours", "process_hours", "states"} <= set(report["owners"][0])
    assert [hour["hour"] for hour in report["time_of_day"]] == list(range(24))


def test_states_always_has_all_four(report: dict[str, Any]) -> None:
    holders = [report["headline"], *report["cards"], *report["owners"], *report["time_of_day"]]
    assert all(list(holder["states"]) == STATES for holder in holders)


def test_unknown_is_null_and_zero_is_zero(report: dict[str, Any]) -> None:
    unobserved = report["cards"][4]
    assert unobserved["states"]["active"] == {"card_ticks": 0, "gpu_hours": 0.0, "share": None}
    assert report["cards"][5]["index"] is None
    assert [entry["owner"] for entry in report["owners"] if entry["kind"] == "unlisted"] == [None]
    assert report["time_of_day"][23]["states"]["active"]["share"] is None


def test_numbers_that_json_cannot_hold_are_a_fault() -> None:
    broken = lab()
    broken.views["overview"][0]["expected_gpu_ms"] = float("nan") * HOUR_MS
    made = collect(broken, ReportRequest(now_ms=UNTIL_MS, since="2d"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_json(made)
