"""A GPU and its instances are one GPU, however often it is divided, whole again and divided otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fakes import by_other_means as means
from fakes.by_other_means import DAY_MS, HOUR_MS, Counted, Key, Recorded
from fakes.divided import divided
from fakes.fleet import spooled_ticks
from fakes.reports import render_json
from gua.core.moments import to_rfc3339
from gua.core.words import Source
from gua.report.collect import collect
from gua.report.model import Card, Report
from gua.report.window import ReportRequest
from gua.sim.host import END_MS
from gua.store.database import Store, open_store

pytestmark = pytest.mark.engine

MIDNIGHT_MS: Final = END_MS // DAY_MS * DAY_MS
SECTIONS: Final = frozenset({"cards"})
HOSTS: Final = {"divided-1": Source.AGENT, "divided-2": Source.AGENT, "divided-3": Source.IMPORT}


def windows() -> Iterator[tuple[int, int]]:
    """Yield windows, most of whose edges lie somewhere within a tick or a hole."""
    yield MIDNIGHT_MS - 5 * DAY_MS, MIDNIGHT_MS + DAY_MS // 2
    yield MIDNIGHT_MS - 3 * DAY_MS, MIDNIGHT_MS
    yield MIDNIGHT_MS - 7 * HOUR_MS, MIDNIGHT_MS - 5 * HOUR_MS
    rng = Random("windows")  # noqa: S311 - a simulation, no secret
    since_ms, until_ms = sorted(MIDNIGHT_MS - rng.randrange(5 * DAY_MS) for _ in range(2))
    yield since_ms, until_ms + 1
    since_ms = MIDNIGHT_MS - rng.randrange(4 * DAY_MS)
    yield since_ms, since_ms + rng.randrange(1, 90 * 60_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with hosts of divided GPUs, whose hours are rolled up."""
    with open_store(made_store(tmp_path_factory.mktemp("divided") / "store")) as opened:
        for seed, (host, source) in enumerate(HOSTS.items()):
            ticks = divided(host, seed=seed, ticks=700, end_ms=MIDNIGHT_MS + HOUR_MS + seed, source=source)
            assert opened.land(list(spooled_ticks(ticks))) == []
        opened.count_hours()
        yield opened


def reported(store: Store, since_ms: int, until_ms: int, *, from_ticks: bool = False) -> Report:
    request = ReportRequest(
        since=to_rfc3339(since_ms),
        until=to_rfc3339(until_ms),
        sections=SECTIONS,
        now_ms=END_MS,
        from_ticks=from_ticks,
    )
    return collect(store, request)


@dataclass(frozen=True)
class Window:
    """A window's report from rolled up hours, and its plain ticks."""

    since_ms: int
    until_ms: int
    report: Report
    plain: Counted


@pytest.fixture(scope="module")
def reports(store: Store) -> list[Window]:
    recorded = Recorded(store)
    return [Window(*each, reported(store, *each), recorded.window(*each)) for each in windows()]


def by_gpu(cards: Iterable[Card]) -> dict[Key, list[Card]]:
    found: defaultdict[Key, list[Card]] = defaultdict(list)
    for card in cards:
        found[card.host, card.parent or card.gpu].append(card)
    return found


def test_a_gpu_and_its_instances_are_expected_for_one_gpu_at_most(reports: list[Window]) -> None:
    divided_gpus = 0
    for window in reports:
        cards = window.plain.cards
        for (host, gpu), together in by_gpu(window.report.cards).items():
            first_ms = min(cards[host, card.gpu]["first_ms"] for card in together)
            last_ms = max(cards[host, card.gpu]["last_ms"] for card in together)
            ends_ms = min(last_ms, window.until_ms) if HOSTS[host] is Source.IMPORT else window.until_ms
            present_ms = ends_ms - max(first_ms, window.since_ms)
            assert sum(card.expected_gpu_ms for card in together) <= present_ms + 0.001 * len(together), (host, gpu)
            divided_gpus += len(together) > 2
    assert divided_gpus > 20


def test_expected_time_is_that_of_plain_ticks(reports: list[Window]) -> None:
    for window in reports:
        expected = means.coverage(window.plain)
        assert {(card.host, card.gpu) for card in window.report.cards} == set(expected)
        for card in window.report.cards:
            one = expected[card.host, card.gpu]
            # Shares of a third of a GPU and the like are rounded to whole milliseconds of each tick.
            near = 1 + 1e-4 * one.unobserved_gpu_ms
            where = (card.host, card.gpu, window.since_ms, window.until_ms)
            assert card.expected_gpu_ms == pytest.approx(one.gpu_ms, abs=near), where
            assert card.unobserved_gpu_ms == pytest.approx(one.unobserved_gpu_ms, abs=near), where
            assert card.gaps == one.gaps, where


def test_it_is_the_same_from_hours_and_from_ticks(store: Store, reports: list[Window]) -> None:
    for window in reports:
        ticked = render_json(reported(store, window.since_ms, window.until_ms, from_ticks=True))
        assert render_json(window.report) == ticked
