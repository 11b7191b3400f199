"""Ticks of one card by two agents: no hole is made up for, and counted hours say what ticks do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fakes.fleet import agent_tick, spooled_ticks
from fakes.reports import render_json
from gua.core.tick import Tick
from gua.report.collect import collect
from gua.report.section_list import section_names
from gua.report.window import ReportRequest
from gua.sim.host import END_MS
from gua.store.database import open_store

pytestmark = pytest.mark.engine

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LONG_MS = 5 * MINUTE_MS
SINCE_MS = END_MS - 30 * HOUR_MS
HOLES = ((40, 52), (311, 650), (1203, 1209))
"""From which minute to which neither agent read the card."""


def ticks_of(interval_ms: int, agent: str, seed: int) -> Iterator[Tick]:
    """Return the ticks of one agent, each begun when one of the other was: idle for a while, then active."""
    draw = Random(seed)  # noqa: S311 - the same states each time
    is_active = False
    for ts_ms in range(SINCE_MS + interval_ms, END_MS + 1, interval_ms):
        is_active ^= draw.random() < 0.1
        if any(ts_ms > SINCE_MS + a * MINUTE_MS and ts_ms - interval_ms < SINCE_MS + b * MINUTE_MS for a, b in HOLES):
            continue
        tick = agent_tick("one", ts_ms, interval_ms=interval_ms, instance=agent, utilization=0.5 * is_active)
        yield replace(tick, cards=tuple(replace(card, uuid="GPU-one") for card in tick.cards))


def not_covered_ms(ticks: list[Tick]) -> int:
    """Return how much of the window no tick covers, in holes of more than the longest interval."""
    covered_until_ms = SINCE_MS
    sum_ms = 0
    covered = sorted((tick.ts_ms - tick.origin.interval_ms, tick.ts_ms) for tick in ticks)
    for start_ms, end_ms in [*covered, (END_MS, END_MS)]:
        hole_ms = start_ms - covered_until_ms
        sum_ms += hole_ms if hole_ms > LONG_MS else 0
        covered_until_ms = max(covered_until_ms, end_ms)
    return sum_ms


def test_what_no_tick_covers_is_unobserved_however_often_the_rest_was(
    made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    ticks = [*ticks_of(MINUTE_MS, "quick", seed=0), *ticks_of(LONG_MS, "slow", seed=100)]
    request = ReportRequest(since="30h", now_ms=END_MS, sections=frozenset(section_names()))
    with open_store(made_store(tmp_path / "two")) as store:
        assert store.land(list(spooled_ticks(ticks))) == []
        store.count_hours()
        counted = json.loads(render_json(collect(store, request)))
        assert counted == json.loads(render_json(collect(store, replace(request, from_ticks=True))))
    coverage, (overlap,) = counted["coverage"], counted["overlaps"]
    assert coverage["unobserved_gpu_hours"] == pytest.approx(not_covered_ms(ticks) / HOUR_MS, abs=1e-6)
    assert coverage["observed_gpu_hours"] > coverage["expected_gpu_hours"]
    assert overlap["observed_hours"] == coverage["observed_gpu_hours"]
    assert overlap["elapsed_hours"] == pytest.approx(30 - not_covered_ms(ticks) / HOUR_MS, abs=1e-6)
