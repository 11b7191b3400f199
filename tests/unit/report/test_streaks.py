"""When a report makes streaks: unasked up to a size, asked always, of ticks as far as memory goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.store import HOUR_MS, UNTIL_MS, FakeStore, card, extent, store_of
from gua.core.errors import UnavailableError
from gua.report.collect import _need_streaks, collect
from gua.report.hours import Hour
from gua.report.model import Extent
from gua.report.section_list import default_sections
from gua.report.sections.card_streaks import IdleSplit
from gua.report.sections.contention import Contentions
from gua.report.sections.now_rows import Now
from gua.report.sections.right_size import RightSize
from gua.report.sections.streaks import Streaks
from gua.report.sections.timeline_rows import Timeline
from gua.report.streak_limit import (
    MOST_CARD_DAYS,
    MOST_CARD_DAYS_APART,
    MOST_CARD_HOURS,
    MOST_CARD_HOURS_OF_CARDS,
    MOST_CARD_HOURS_OF_NOW,
    MOST_CARD_HOURS_OF_NOW_AT_ONCE,
    MOST_TICKED,
    are_made_of_cards,
    are_made_of_processes,
    holders_are_told_apart,
    hours_of_now,
    sessions_are_told_apart,
    skipped,
)
from gua.report.window import ReportRequest

CARDS = frozenset({"cards"})


def counted(hours: int) -> list[Hour]:
    return [Hour(hour=hour, is_counted=True, card_ticks=120) for hour in range(hours)]


def cards(number: int) -> list[Extent]:
    return [Extent(**extent("node-1", cards=number))]


def needed(*sections: str, by: tuple[str, ...] = (), if_cheap: frozenset[str] = frozenset()) -> list[str]:
    request = ReportRequest(now_ms=0, by=by, if_cheap=if_cheap)
    return _need_streaks(request, frozenset(sections or default_sections()))


def test_unasked_up_to_a_number_of_card_hours() -> None:
    most = MOST_CARD_HOURS // 100

    assert needed() == []
    assert skipped(counted(most), cards(100), []) is None
    assert skipped(counted(most + 1), cards(100), []) == MOST_CARD_HOURS + 100


def test_processes_are_told_apart_where_few_card_hours_lie_on_no_day() -> None:
    most = MOST_CARD_HOURS // 100

    assert are_made_of_processes(counted(most), cards(100))
    assert not are_made_of_processes(counted(most + 1), cards(100))
    assert are_made_of_processes(counted(most + 24), cards(100), {0})
    assert not are_made_of_processes(counted(most + 25), cards(100), {0})
    of_days = frozenset(range(MOST_CARD_DAYS // 100 + 1))
    assert are_made_of_processes(counted(MOST_CARD_DAYS // 100 * 24), cards(100), of_days)
    assert not are_made_of_processes(counted(MOST_CARD_DAYS // 100 * 24 + 1), cards(100), of_days)


def test_of_a_large_fleet_sessions_and_holders_are_told_apart_each_by_its_own_hours() -> None:
    for is_told, most_hours in (
        (sessions_are_told_apart, MOST_CARD_HOURS),
        (holders_are_told_apart, MOST_CARD_HOURS_OF_NOW),
    ):
        most = most_hours // 100
        assert is_told(counted(most + 24), cards(100), {0})
        assert not is_told(counted(most + 25), cards(100), {0})
    of_days = frozenset(range(MOST_CARD_DAYS_APART // 100 + 1))
    days = MOST_CARD_DAYS_APART // 100
    assert sessions_are_told_apart(counted(days * 24), cards(100), of_days)
    assert not sessions_are_told_apart(counted(days * 24 + 1), cards(100), of_days)
    assert MOST_CARD_DAYS < MOST_CARD_DAYS_APART


def test_who_holds_cards_is_told_of_any_number_of_days() -> None:
    days = 10 * MOST_CARD_DAYS_APART // 100

    assert holders_are_told_apart(counted(days * 24 + 54), cards(100), frozenset(range(days)))
    assert hours_of_now(counted(days * 24 + 54), frozenset(range(days))) == 54
    assert MOST_CARD_HOURS_OF_NOW_AT_ONCE < MOST_CARD_HOURS_OF_NOW


def test_of_cards_alone_up_to_more_of_them() -> None:
    most = MOST_CARD_HOURS_OF_CARDS // 100

    assert are_made_of_cards(counted(most), cards(100))
    assert not are_made_of_cards(counted(most + 1), cards(100))
    assert are_made_of_cards(counted(most + 24), cards(100), {0})
    assert not are_made_of_cards(counted(most + 25), cards(100), {0})
    assert not are_made_of_cards([Hour(hour=1, is_counted=False, card_ticks=MOST_TICKED + 1)], cards(8))


@pytest.mark.parametrize(("hosts_cards", "is_split"), [(1_000, True), (10_000, False)])
def test_what_idle_held_is_made_of_needs_no_processes(*, hosts_cards: int, is_split: bool) -> None:
    parts = ("never_used_us", "never_used_long_us", "low_long_us", "unknown_us")
    rows = [{**dict.fromkeys(parts, 0), "low_us": 3_600_000_000}]
    store = store_of(
        [card("node-1", "GPU-1", (0.0, 1.0, 0.0, 0.0))],
        extents=[extent("node-1", cards=hosts_cards)],
        hours=[hour._asdict() for hour in counted(400)],
        idle_split=rows,
    )

    report = collect(store, ReportRequest(now_ms=UNTIL_MS))

    assert report.streaks_skipped == 400 * hosts_cards
    assert report.get(Now) is None
    assert "usage" not in {view for view, _ in store.asked}
    split = report.get(IdleSplit)
    assert (split is not None and split.low_gpu_ms == 3_600_000) is is_split


def test_sections_of_runs_of_a_large_fleet_are_asked_for_in_parts_or_left_out() -> None:
    hosts = [f"node-{number}" for number in range(9)]
    of_runs = ("streaks", "timeline", "timeline_processes")
    store = store_of(
        [card(host, f"GPU-{host}", (0.0, 1.0, 0.0, 0.0)) for host in hosts],
        extents=[extent(host, cards=100) for host in hosts],
        hours=[hour._asdict() for hour in counted(720)],
        **{view: [] for view in (*of_runs, "contention_without_promises", "card_streaks", "idle_split")},
    )
    wanted = frozenset({"streaks", "timeline", "contention"})
    unasked = ReportRequest(now_ms=UNTIL_MS, sections=wanted, if_cheap=wanted)

    report = collect(store, unasked)

    assert report.streaks_skipped == 648_000
    assert (report.get(Contentions), report.get(Streaks) is None, report.get(Timeline) is None) == (None, False, False)
    for view in of_runs:
        assert [asked["hosts"] for name, asked in store.asked if name == view] == [[host] for host in hosts]
    assert not [name for name, _ in store.asked if name.startswith("contention")]
    named = collect(store, replace(unasked, if_cheap=frozenset()))
    assert named.streaks_skipped is None
    assert named.get(Contentions) is not None


@pytest.mark.parametrize(("hosts_cards", "is_told"), [(2_700, True), (2_800, False)])
def test_right_size_of_a_large_fleet_is_left_out_where_nobody_named_it(*, hosts_cards: int, is_told: bool) -> None:
    store = store_of(
        [card("node-1", "GPU-1", (0.0, 1.0, 0.0, 0.0))],
        extents=[extent("node-1", cards=hosts_cards)],
        hours=[hour._asdict() for hour in counted(720)],
        **{view: [] for view in ("right_size", "card_sizes", "card_streaks", "idle_split")},
    )
    wanted = frozenset({"right-size"})
    unasked = ReportRequest(now_ms=UNTIL_MS, sections=wanted, if_cheap=wanted)

    assert (collect(store, unasked).get(RightSize) is not None) is is_told
    assert [name for name, _ in store.asked if name in {"right_size", "card_sizes"}] == ["right_size", "card_sizes"][
        : 2 * is_told
    ]
    assert collect(store, replace(unasked, if_cheap=frozenset())).get(RightSize) is not None


@pytest.mark.parametrize("section", ["now", "streaks", "what-if", "contention"])
def test_of_any_fleet_where_a_section_is_asked_for(section: str) -> None:
    assert needed(section) == [section]
    assert needed(section, if_cheap=frozenset({section})) == []
    assert skipped(counted(720), cards(10_000), [section]) is None


def test_of_any_fleet_for_what_processes_are_added_up_by() -> None:
    assert needed(by=("owner",)) == ["owner"]


@pytest.mark.parametrize(("from_ticks", "ticks"), [(False, MOST_TICKED), (True, MOST_TICKED + 1)])
def test_hours_are_counted_for_a_report_only_where_streaks_need_them(*, from_ticks: bool, ticks: int) -> None:
    store = waiting_store(ticks)

    report = collect(store, ReportRequest(now_ms=UNTIL_MS, from_ticks=from_ticks, sections=CARDS), count=pytest.fail)

    assert report.uncounted_card_ticks == (ticks if from_ticks else 0)


@pytest.mark.parametrize("is_counted", [True, False])
def test_hours_are_counted_where_streaks_could_not_be_made(*, is_counted: bool) -> None:
    store = waiting_store(MOST_TICKED + 1)
    times: list[int] = []

    def count() -> None:
        times.append(1)
        store.views["hours"][0]["is_counted"] = is_counted

    report = collect(store, ReportRequest(now_ms=UNTIL_MS, sections=CARDS), count=count)

    assert times == [1]
    assert report.uncounted_card_ticks == (0 if is_counted else MOST_TICKED + 1)


def waiting_store(ticks: int) -> FakeStore:
    """Return a store with one hour that is not counted."""
    row = Hour(hour=UNTIL_MS // HOUR_MS - 1, is_counted=False, card_ticks=ticks)
    return store_of([card("node-1", "GPU-1", (0.0, 1.0, 0.0, 0.0))], hours=[row._asdict()], idle_split=[])


def test_ticks_that_are_too_many_are_left_out_unasked_and_refused_where_asked_for() -> None:
    waiting = [Hour(hour=1, is_counted=False, card_ticks=MOST_TICKED + 1)]

    assert skipped(waiting, cards(8), []) == 8
    with pytest.raises(UnavailableError, match=r"now: .* run gua rollup first"):
        skipped(waiting, cards(8), ["now"])
