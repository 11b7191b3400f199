"""A window that reaches into the future: nothing is expected of time that has not come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gua.core.ports import SpooledTick
from gua.core.tick import Origin
from gua.core.words import Source
from gua.otlp.encode import encode
from gua.report.collect import collect
from gua.report.conditions import judge, parse_condition
from gua.report.model import Report
from gua.report.section_list import section_names
from gua.report.sections.calendar import Days
from gua.report.sections.previous import Previous
from gua.report.window import ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.state.compression import compress
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

GPUS = 2
TEN_MINUTES_MS = 600_000
SCENARIO = Scenario(seed=1, gpus=GPUS, interval_ms=30_000, ticks=20)
AGENT = Origin(host="node", source=Source.AGENT, interval_ms=30_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with ten minutes of an agent, which end now."""
    with open_store(made_store(tmp_path_factory.mktemp("future") / "store")) as opened:
        ticks = []
        for tick in simulate(SCENARIO, origin=AGENT):
            raw = encode(tick)
            ticks.append(SpooledTick(id=tick.ts_ms, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw)))
        assert opened.land(ticks) == []
        yield opened


def report(store: Store, until: str) -> Report:
    request = ReportRequest(
        since="2026-03-27T12:00Z",
        until=until,
        timezone="Asia/Kathmandu",
        sections=frozenset(section_names()),
        now_ms=END_MS,
    )
    return collect(store, request)


def test_a_report_until_next_week_is_one_until_now(store: Store) -> None:
    ahead = report(store, "2026-04-04T12:00Z")
    assert ahead == report(store, "now")
    assert ahead.window.until_ms == END_MS
    assert sum(day.seconds for day in ahead[Days]) == (END_MS - ahead.window.since_ms) / 1000
    assert ahead[Previous].until_ms - ahead[Previous].since_ms == END_MS - ahead.window.since_ms


def test_nothing_is_unobserved_of_hours_that_have_not_come(store: Store) -> None:
    found = report(store, "2026-04-04T12:00Z")
    assert 0 < found.coverage.expected_gpu_ms <= GPUS * TEN_MINUTES_MS
    assert found.coverage.unobserved_gpu_ms < GPUS * 1000
    assert judge(parse_condition("coverage < 90%"), found).is_met is False
    assert judge(parse_condition("unobserved > 1h"), found).is_met is False
