"""Hours of the week, days and the window before, in zones whose clocks change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import pytest

from fakes.report_context import report_context
from fakes.reports import empty_report
from fakes.store import whole
from gua.core.ports import Row
from gua.report.model import Window
from gua.report.sections.calendar import CALENDAR, DAYS_SECTION, WEEK_SECTION, days_of, ms_of_days, week_of
from gua.report.sections.previous import before
from gua.report.states import STATES, StateTime
from gua.report.views import SHARED

HOUR_MS = 3_600_000


def window(since: str, until: str, timezone: str) -> Window:
    return Window(since_ms=at(since), until_ms=at(until), timezone=timezone)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def hours(days: Mapping[str, int]) -> dict[str, float]:
    return {date: ms / HOUR_MS for date, ms in days.items()}


@pytest.mark.parametrize(
    ("timezone", "since", "until", "expected"),
    [
        pytest.param(
            "Europe/Berlin",
            "2026-03-28T12:00+01:00",
            "2026-03-30T06:00+02:00",
            {"2026-03-28": 12, "2026-03-29": 23, "2026-03-30": 6},
            id="23 hours where an hour is skipped",
        ),
        pytest.param(
            "Europe/Berlin",
            "2026-10-25T00:00+02:00",
            "2026-10-26T00:00+01:00",
            {"2026-10-25": 25},
            id="25 hours where one comes twice",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            "2026-04-05T00:00+11:00",
            "2026-04-06T00:00+10:30",
            {"2026-04-05": 24.5},
            id="half an hour more",
        ),
        pytest.param(
            "Pacific/Chatham",
            "2026-04-04T00:00+13:45",
            "2026-04-06T00:00+12:45",
            {"2026-04-04": 24, "2026-04-05": 25},
            id="a zone of 45 minutes",
        ),
        pytest.param(
            "Africa/Cairo",
            "2026-04-23T23:00+02:00",
            "2026-04-25T00:00+03:00",
            {"2026-04-23": 1, "2026-04-24": 23},
            id="no midnight",
        ),
        pytest.param(
            "Pacific/Apia",
            "2011-12-29T12:00-10:00",
            "2011-12-31T06:00+14:00",
            {"2011-12-29": 12, "2011-12-31": 6},
            id="a date that was left out",
        ),
        pytest.param(
            "UTC",
            "2026-03-29T10:00:30+00:00",
            "2026-03-29T10:00:31.500+00:00",
            {"2026-03-29": 1.5 / 3600},
            id="a moment",
        ),
    ],
)
def test_days_have_the_hours_that_their_clocks_show(
    timezone: str, since: str, until: str, expected: dict[str, float]
) -> None:
    assert hours(ms_of_days(window(since, until, timezone))) == pytest.approx(expected)


def test_days_before_any_store_and_after_every_calendar_are_left_out() -> None:
    days = ms_of_days(Window(since_ms=-(10**14), until_ms=at("2000-01-02T00:00+00:00"), timezone="UTC"))
    assert days == {"2000-01-01": 24 * HOUR_MS}
    late = Window(
        since_ms=at("2106-02-07T00:00+00:00"), until_ms=at("9999-12-31T23:59:59+00:00"), timezone="Asia/Tokyo"
    )
    assert list(ms_of_days(late)) == ["2106-02-07"]


def test_all_hours_of_the_week_come_and_days_without_ticks_do() -> None:
    rows = [
        {"is_week": 1, "weekday": 7, "hour": 23, "date": None, "state": "active", "gpu_ms": 5.0, "card_ticks": 2},
        {
            "is_week": 0,
            "weekday": None,
            "hour": None,
            "date": "2026-03-29",
            "state": "active",
            "gpu_ms": 5.0,
            "card_ticks": 2,
        },
    ]
    parsed = CALENDAR.parsed(rows)
    week = week_of(parsed)
    days = days_of(parsed, window("2026-03-28T00:00+00:00", "2026-03-30T00:00+00:00", "UTC"))
    assert [(one.weekday, one.hour) for one in week] == [(day, hour) for day in range(7) for hour in range(24)]
    assert week[-1].states["active"] == StateTime(gpu_ms=5.0, card_ticks=2)
    assert sum(one.states[state].gpu_ms for one in week for state in STATES) == 5
    assert [(one.date, one.seconds, one.states["active"].card_ticks) for one in days] == [
        ("2026-03-28", 86_400, 0),
        ("2026-03-29", 86_400, 2),
    ]
    assert all(set(one.states) == set(STATES) for one in (*week, *days))


class Store:
    """Answers as a store does, and records its queries."""

    is_concurrent = False
    is_embedded = True

    def __init__(self, **answers: list[Row]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, object]]] = []

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        self.asked.append((view, dict(parameters)))
        return [whole(SHARED[view], row) for row in self.answers[view]]


CARD: Row = {
    "expected_gpu_ms": 100.0,
    "observed_gpu_ms": 60.0,
    "unobserved_gpu_ms": 40.0,
    "gaps": 1,
    "effective_since_ms": 1_000,
    "effective_until_ms": 1_100,
    "active_gpu_ms": 60.0,
    "active_card_ticks": 2,
}


def test_the_window_before_is_as_long_and_chooses_its_own_hours() -> None:
    store = Store(
        hours=[{"hour": 3, "is_counted": 0, "card_ticks": 2}, {"hour": 4, "is_counted": 1, "card_ticks": 9}],
        overview=[CARD],
    )
    asked = before(store, Window(since_ms=1_000, until_ms=1_100, timezone="UTC"), ["a"])
    found = asked()
    earlier = {"since_ms": 900, "until_ms": 1_000, "hosts": ["a"]}
    assert store.asked == [("hours", earlier), ("overview", {**earlier, "tick_hours": [3], "use_hourly": 1})]
    assert (found.since_ms, found.until_ms) == (900, 1_000)
    assert found.coverage is not None
    assert found.coverage.ratio == 0.6
    assert found.states["active"] == StateTime(gpu_ms=60.0, card_ticks=2)


def test_from_ticks_the_window_before_takes_nothing_that_was_counted() -> None:
    store = Store(hours=[{"hour": 4, "is_counted": 1, "card_ticks": 9}], overview=[CARD])
    before(store, Window(since_ms=1_000, until_ms=1_100, timezone="UTC"), [], from_ticks=True)()
    assert store.asked[1][1]["tick_hours"] == [4]
    assert store.asked[1][1]["use_hourly"] == 0


def test_before_any_card_was_expected_there_is_no_coverage() -> None:
    found = before(Store(hours=[], overview=[]), Window(since_ms=1_000, until_ms=5_000, timezone="UTC"), [])()
    assert found.coverage is None
    assert (found.since_ms, found.until_ms) == (-3_000, 1_000)
    assert all(found.states[state].gpu_ms == 0 for state in STATES)


def test_the_calendar_is_queried_in_the_windows_zone() -> None:
    store = Store(calendar=[])
    queries = report_context(store, window("2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00", "Europe/Berlin"))
    week, days = (
        collect(queries)(empty_report().headline, ())
        for collect in (WEEK_SECTION.collect, DAYS_SECTION.collect)
        if collect
    )
    assert store.asked == [("calendar", {**queries.read, "timezone": "Europe/Berlin"})]
    assert len(week) == 168
    assert [(day.date, day.seconds) for day in days] == [("2026-03-29", 82_800)]
