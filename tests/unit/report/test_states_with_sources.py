"""States of cards are counted alike, number for number, with and without an allocation source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.allocations import allocated
from fakes.reports import render_json
from fakes.restless import restless
from gua.core.ports import Row, SpooledTick
from gua.core.tick import Tick
from gua.otlp.encode import encode
from gua.report.collect import collect
from gua.report.section_list import section_names
from gua.report.window import ReportRequest
from gua.sim.host import END_MS
from gua.state.compression import compress
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

# What allocation itself says, and what it divides anew.
OF_ALLOCATION = ("allocation", "contention", "what_if")


class WithAllocations:
    """A store that is queried for contention with allocations, with and without an allocation source."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_concurrent = False
        self.is_embedded = True

    def rows(self, view: str, parameters: Mapping[str, object]) -> Sequence[Row]:
        return self._store.rows(view.removesuffix("_without_allocations"), parameters)


def report_of(address: str, ticks: Iterable[Tick]) -> dict[str, Any]:
    """Return the report of ticks with the hours of one half rolled up, as JSON has it."""
    spooled = []
    for tick in ticks:
        raw = encode(tick)
        spooled.append(SpooledTick(id=tick.ts_ms, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw)))
    half = len(spooled) // 2
    with open_store(address) as store:
        assert store.land(spooled[:half]) == []
        store.count_hours()
        assert store.land(spooled[half:]) == []
        request = ReportRequest(
            since="3d", timezone="Asia/Kathmandu", sections=frozenset(section_names()), by=("owner",), now_ms=END_MS
        )
        whole: dict[str, Any] = json.loads(render_json(collect(store, request)))
        contention = json.loads(
            render_json(collect(WithAllocations(store), replace(request, sections=frozenset({"contention"}))))
        )
        assert contention["contention"] == whole["contention"]
        return whole


def test_everything_but_what_is_free_is_the_same_with_and_without_sources(
    made_store: Callable[[Path], str], tmp_path: Path
) -> None:
    bare = report_of(made_store(tmp_path / "bare"), restless("node-1", seed=3, ticks=300, end_ms=END_MS))
    told = report_of(
        made_store(tmp_path / "told"), allocated(restless("node-1", seed=3, ticks=300, end_ms=END_MS), seed=3)
    )
    assert told["allocation"]["has_source"]
    assert told["allocation"]["without_source_gpu_hours"] == 0
    assert not bare["allocation"]["has_source"]
    observed = sum(one["gpu_hours"] for one in told["headline"]["states"].values())
    assert sum(one["gpu_hours"] for one in told["allocation"]["uses"].values()) == pytest.approx(observed, abs=1e-5)
    for whole in (bare, told):
        for key in ("free", "maybe_allocated", "allocations"):
            whole["now"].pop(key)
    assert {key: value for key, value in told.items() if key not in OF_ALLOCATION} == {
        key: value for key, value in bare.items() if key not in OF_ALLOCATION
    }
    assert told["what_if"]["limits"] == bare["what_if"]["limits"]
