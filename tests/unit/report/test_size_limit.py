"""Up to what size a report makes sections that were not requested, and when it rolls up hours first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.store import HOUR_MS, UNTIL_MS, FakeStore, card, extent, store_of
from gua.report.collect import collect
from gua.report.hours import MOST_UNROLLED_TICKS, Hour, card_hours
from gua.report.model import Extent
from gua.report.sections.contention import Contentions
from gua.report.sections.right_size import RightSize
from gua.report.sections.streaks import Streaks
from gua.report.sections.timeline import Timeline
from gua.report.window import ReportRequest

CARDS = frozenset({"cards"})


def rolled_up(hours: int) -> list[Hour]:
    return [Hour(hour=hour, is_counted=True, card_ticks=120) for hour in range(hours)]


def test_card_hours_are_hours_times_cards() -> None:
    assert (
        card_hours(rolled_up(720), [Extent(**extent("node-1", cards=8)), Extent(**extent("node-2", cards=4))]) == 8640
    )


def test_sections_made_of_intervals_are_read_in_parts_of_hosts_or_left_out() -> None:
    hosts = [f"node-{number}" for number in range(9)]
    of_intervals = ("streaks", "timeline", "timeline_processes", "card_streaks")
    store = store_of(
        [card(host, f"GPU-{host}", (0.0, 1.0, 0.0, 0.0)) for host in hosts],
        extents=[extent(host, cards=100) for host in hosts],
        hours=[hour._asdict() for hour in rolled_up(720)],
        **{view: [] for view in (*of_intervals, "contention")},
    )
    wanted = frozenset({"headline", "streaks", "timeline", "contention"})
    by_default = ReportRequest(now_ms=UNTIL_MS, sections=wanted, if_cheap=wanted)

    report = collect(store, by_default)

    assert report.streaks_skipped == 648_000
    assert (report.get(Contentions), report.get(Streaks) is None, report.get(Timeline) is None) == (None, False, False)
    for view in of_intervals:
        assert [asked["hosts"] for name, asked in store.asked if name == view] == [[host] for host in hosts]
    assert "contention" not in {name for name, _ in store.asked}
    named = collect(store, replace(by_default, if_cheap=frozenset()))
    assert named.streaks_skipped is None
    assert named.get(Contentions) is not None


@pytest.mark.parametrize(("hosts_cards", "is_made"), [(2_700, True), (2_800, False)])
def test_right_size_of_a_large_fleet_is_left_out_unless_named(*, hosts_cards: int, is_made: bool) -> None:
    store = store_of(
        [card("node-1", "GPU-1", (0.0, 1.0, 0.0, 0.0))],
        extents=[extent("node-1", cards=hosts_cards)],
        hours=[hour._asdict() for hour in rolled_up(720)],
        **{view: [] for view in ("right_size", "card_sizes")},
    )
    wanted = frozenset({"right-size"})
    by_default = ReportRequest(now_ms=UNTIL_MS, sections=wanted, if_cheap=wanted)

    assert (collect(store, by_default).get(RightSize) is not None) is is_made
    assert [name for name, _ in store.asked if name in {"right_size", "card_sizes"}] == ["right_size", "card_sizes"][
        : 2 * is_made
    ]
    assert collect(store, replace(by_default, if_cheap=frozenset())).get(RightSize) is not None


@pytest.mark.parametrize(
    ("from_ticks", "ticks", "times"),
    [(False, MOST_UNROLLED_TICKS, 0), (True, MOST_UNROLLED_TICKS + 1, 0), (False, MOST_UNROLLED_TICKS + 1, 1)],
)
def test_hours_are_rolled_up_first_where_many_ticks_wait(*, from_ticks: bool, ticks: int, times: int) -> None:
    store = waiting_store(ticks)
    rolled: list[int] = []

    collect(
        store,
        ReportRequest(now_ms=UNTIL_MS, from_ticks=from_ticks, sections=CARDS),
        count=lambda: rolled.append(1),
    )

    assert len(rolled) == times


def waiting_store(ticks: int) -> FakeStore:
    """Return a store with one hour that is not rolled up."""
    row = Hour(hour=UNTIL_MS // HOUR_MS - 1, is_counted=False, card_ticks=ticks)
    return store_of([card("node-1", "GPU-1", (0.0, 1.0, 0.0, 0.0))], hours=[row._asdict()])
