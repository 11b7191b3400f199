"""The section now alone has the values of a report's, at moments of a simulated host with MIG and allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.fleet import spooled_ticks
from gua.core.errors import UnavailableError
from gua.core.moments import to_rfc3339
from gua.core.tick import Origin
from gua.core.words import Source
from gua.report.collect import collect
from gua.report.now_alone import collect_now
from gua.report.sections.now_rows import Now
from gua.report.window import ReportRequest
from gua.sim.host import END_MS, Scenario, simulate
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

HOUR_MS = 3_600_000
SCENARIO = Scenario(gpus=8, interval_ms=300_000, ticks=2 * 24 * 12)
AGENT = Origin(host="node", source=Source.AGENT, interval_ms=300_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with two days of a simulated host."""
    with open_store(made_store(tmp_path_factory.mktemp("now") / "store")) as opened:
        assert opened.land(list(spooled_ticks(simulate(SCENARIO, origin=AGENT)))) == []
        yield opened


def request(at_ms: int, *hosts: str) -> ReportRequest:
    return ReportRequest(
        since=to_rfc3339(at_ms - 24 * HOUR_MS),
        until=to_rfc3339(at_ms),
        hosts=hosts,
        sections=frozenset({"now"}),
        now_ms=at_ms,
    )


def in_order(now: Now) -> Now:
    return replace(
        now,
        by_card=tuple(sorted(now.by_card, key=lambda card: (card.host, card.gpu))),
        unobserved=tuple(sorted(now.unobserved, key=lambda one: (one.host, one.gpu, one.pid))),
    )


@pytest.mark.parametrize("before_end_ms", [0, 5 * HOUR_MS + 60_000, 17 * HOUR_MS, -2 * HOUR_MS])
def test_the_section_alone_is_that_of_a_report(store: Store, before_end_ms: int) -> None:
    chosen = request(END_MS - before_end_ms, "node")
    report = collect(store, chosen)
    alone = collect_now(store, chosen)
    assert in_order(alone.now) == in_order(report[Now])
    assert (sorted(alone.rules, key=str), alone.extents) == (sorted(report.rules, key=str), report.extents)
    if before_end_ms >= 0:
        assert alone.now.holders


def test_a_window_without_ticks_is_an_error(store: Store) -> None:
    with pytest.raises(UnavailableError, match="no data from"):
        collect_now(store, request(END_MS - 72 * HOUR_MS))
