"""Totals of a report: sums over its cards, shares of observed time and equivalent GPUs."""

from __future__ import annotations

import pytest

from fakes.store import HOUR_MS, SINCE_MS, UNTIL_MS, card, store_of, whole
from gua.report.collect import collect
from gua.report.model import Coverage, Report, UnknownReason
from gua.report.rows import OVERVIEW, coverage_of, reasons_of, states_of
from gua.report.window import ReportRequest

# A card that was seen for 40 of 60 hours, and an instance of half a GPU that was there for the first 30 of them.
CARD = card("node-1", "GPU-a", (20.0, 20.0, 0.0, 0.0), expected_gpu_ms=60 * HOUR_MS, unobserved_gpu_ms=20 * HOUR_MS)
INSTANCE = card("node-1", "MIG-b", (0.0, 0.0, 7.5, 7.5), gaps=2, effective_until_ms=SINCE_MS + 30 * HOUR_MS)
CARDS = [
    CARD | {"effective_until_ms": SINCE_MS + 60 * HOUR_MS, "reasons": [("memory", 1, 0.001)], "gaps": 1},
    INSTANCE | {"reasons": [("lost", 90, 7.5 * HOUR_MS), ("memory", 2, 0.002)]},
]


def report(cards: list[dict[str, object]]) -> Report:
    return collect(store_of(cards), ReportRequest(now_ms=UNTIL_MS, since="2d"))


def test_totals_are_sums_over_cards() -> None:
    rows = OVERVIEW.parsed(whole(OVERVIEW, row) for row in CARDS)
    assert coverage_of(rows) == Coverage(
        expected_gpu_ms=75 * HOUR_MS,
        observed_gpu_ms=55 * HOUR_MS,
        unobserved_gpu_ms=20 * HOUR_MS,
        ratio=55 / 75,
        gaps=3,
        effective_since_ms=SINCE_MS,
        effective_until_ms=SINCE_MS + 60 * HOUR_MS,
    )
    states = [(time.gpu_ms / HOUR_MS, time.card_ticks) for time in states_of(rows).values()]
    assert states == [(20, 240), (20, 240), (7.5, 90), (7.5, 90)]
    assert reasons_of(rows) == [
        UnknownReason(reason="memory", card_ticks=3, gpu_ms=0.003),
        UnknownReason(reason="lost", card_ticks=90, gpu_ms=7.5 * HOUR_MS),
    ]


def test_a_state_has_its_share_of_observed_time_and_of_expected_gpus() -> None:
    headline = report(CARDS).headline
    assert headline.shares == pytest.approx(
        {"active": 20 / 55, "idle-held": 20 / 55, "truly-idle": 7.5 / 55, "unknown": 7.5 / 55}
    )
    assert headline.equivalent_gpus["active"] == pytest.approx(20 / 55 * 75 / 60)
    assert headline.expected_gpus == pytest.approx(75 / 60)


def test_without_cards_there_is_no_share_and_no_moment() -> None:
    assert coverage_of([]).ratio is coverage_of([]).effective_since_ms is coverage_of([]).effective_until_ms is None
    assert {(time.gpu_ms, time.card_ticks) for time in states_of([]).values()} == {(0, 0)}
    assert reasons_of([]) == []


def test_idle_seconds_are_those_of_all_cards_and_of_the_card_with_most() -> None:
    idle = [
        {"active_sampled_gpu_ms": 8.0 * HOUR_MS, "active_idle_gpu_ms": hours * HOUR_MS, "gpu": f"GPU-{hours}"}
        for hours in (0.5, 1.5, 0.0)
    ]
    found = report([CARD | one for one in idle]).headline.idle_seconds
    assert found is not None
    assert (found.sampled_gpu_ms, found.idle_gpu_ms, found.idle_share) == (24 * HOUR_MS, 2 * HOUR_MS, 2 / 24)
    assert found.most_idle is not None
    assert (found.most_idle.gpu, found.most_idle.idle_gpu_ms) == ("GPU-1.5", 1.5 * HOUR_MS)
    assert report([CARD]).headline.idle_seconds is None


def test_active_time_without_a_process_is_a_share_of_active_time() -> None:
    listed = {"active_listed_gpu_ms": 10.0 * HOUR_MS, "without_process_gpu_ms": 5.0 * HOUR_MS}
    found = report([CARD | listed, INSTANCE]).headline.active_without_process
    assert (found.gpu_ms, found.known_gpu_ms, found.share) == (5 * HOUR_MS, 10 * HOUR_MS, 5 / 20)
    unlisted = report(CARDS).headline.active_without_process
    assert (unlisted.gpu_ms, unlisted.share) == (None, None)
