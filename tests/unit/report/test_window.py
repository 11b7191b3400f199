"""Which time and which hosts a report is about."""

from __future__ import annotations

import pytest

from fakes.store import DAY_MS, SINCE_MS, UNTIL_MS, FakeStore, card, extent, lab, store_of
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import to_rfc3339
from gua.report.collect import collect
from gua.report.model import Report
from gua.report.window import ReportRequest, check_request

NOW_MS = UNTIL_MS + 3 * DAY_MS


def store(source: str, host: str = "a") -> FakeStore:
    return store_of([card(host, "GPU-1", (1.0, 0.0, 0.0, 0.0))], extents=[extent(host, source)])


def report(of: FakeStore, **request: object) -> Report:
    return collect(of, ReportRequest(**{"now_ms": NOW_MS, **request}))  # type: ignore[arg-type]


def test_a_sampled_host_is_reported_on_for_the_seven_days_that_end_now() -> None:
    window = report(store("agent")).window
    assert (window.since_ms, window.until_ms) == (NOW_MS - 7 * DAY_MS, NOW_MS)


@pytest.mark.parametrize("source", ["import", "simulator"])
def test_a_recording_is_reported_on_for_the_seven_days_that_end_with_it(source: str) -> None:
    window = report(store(source)).window
    assert (window.since_ms, window.until_ms) == (UNTIL_MS - 7 * DAY_MS, UNTIL_MS)


def test_only_the_requested_hosts_determine_the_windows_end() -> None:
    both = store_of([card("a", "GPU-1", (1.0, 0.0, 0.0, 0.0))], extents=[extent("a", "import"), extent("b", "agent")])
    assert report(both, hosts=("a",)).window.until_ms == UNTIL_MS
    assert report(both).window.until_ms == NOW_MS


def test_durations_count_back_from_the_end_of_the_data() -> None:
    window = report(store("import"), since="2d", until="1d").window
    assert (window.since_ms, window.until_ms) == (UNTIL_MS - 2 * DAY_MS, UNTIL_MS - DAY_MS)


def test_now_is_now_even_for_a_recording() -> None:
    assert report(store("import"), until="now").window.until_ms == NOW_MS


@pytest.mark.parametrize("source", ["agent", "import"])
def test_a_window_ends_now_at_the_latest(source: str) -> None:
    window = report(store(source), since="2026-03-25", until="2100-01-01").window
    assert window.until_ms == NOW_MS
    with pytest.raises(UsageError, match="--since must be before --until, which is now at the latest"):
        report(store(source), since="2099-12-01", until="2100-01-01")


def test_a_window_that_begins_after_all_that_was_recorded_says_so() -> None:
    with pytest.raises(UsageError, match=r"nothing is recorded after .*: give an earlier --since, or leave it out"):
        report(store("import"), since="2026-12-24")


def test_a_recording_ahead_of_now_is_reported_on_up_to_its_newest_tick() -> None:
    assert report(store("import"), until="2100-01-01", now_ms=SINCE_MS).window.until_ms == UNTIL_MS


def test_times_without_an_offset_are_in_the_zone_of_the_report() -> None:
    window = report(store("import"), since="2026-03-25", timezone="Europe/Berlin").window
    assert to_rfc3339(window.since_ms) == "2026-03-24T23:00:00Z"


@pytest.mark.parametrize("name", ["Europe/Atlantis", "Europe", "../etc/passwd", "", "\x00"])
def test_an_unknown_zone_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError, match="unknown time zone"):
        report(store("import"), timezone=name)


def test_a_zone_of_leap_seconds_which_no_engine_knows_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="leap seconds"):
        report(store("import"), timezone="right/UTC")


@pytest.mark.parametrize("request_", [{"since": "tomorrow"}, {"until": "7x"}, {"since": "1d", "until": "2d"}])
def test_moments_that_mean_nothing_are_wrong_usage(request_: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        report(store("import"), **request_)


def test_moments_may_be_in_another_zone_than_the_report() -> None:
    window = report(store("import"), since="2026-03-25", timezone="UTC", clock="Europe/Berlin").window
    assert (to_rfc3339(window.since_ms), window.timezone) == ("2026-03-24T23:00:00Z", "UTC")


NOW_TEXT = to_rfc3339(NOW_MS)  # Monday 2026-03-30T00:00:00Z in the fake store's time


@pytest.mark.parametrize("source", ["agent", "import"])
@pytest.mark.parametrize(
    ("request_", "since", "until"),
    [
        ({"month": "2026-02"}, "2026-01-31T23:00:00Z", "2026-02-28T23:00:00Z"),
        ({"month": "2026-03"}, "2026-02-28T23:00:00Z", NOW_TEXT),
        ({"month": "this"}, "2026-02-28T23:00:00Z", NOW_TEXT),
        ({"last_week": True}, "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"),
    ],
)
def test_a_month_or_week_is_the_zones_as_far_as_it_is_over(
    source: str, request_: dict[str, object], since: str, until: str
) -> None:
    window = report(store(source), clock="Europe/Berlin", **request_).window
    assert (to_rfc3339(window.since_ms), to_rfc3339(window.until_ms)) == (since, until)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"month": "2026-03", "since": "1d"}, "give one of them"),
        ({"last_week": True, "until": "1d"}, "give one of them"),
        ({"month": "2026-03", "last_week": True}, "give one of them"),
        ({"month": "2026-13"}, "'2026-13' is not a month"),
        ({"month": "2026-04"}, "--month 2026-04 has not begun"),
        ({"since": "soon"}, "is no moment"),
        ({"until": "soon"}, "is no moment"),
        ({"timezone": "Mars"}, "unknown time zone"),
        ({"clock": "Mars"}, "unknown time zone"),
        ({"where": ("team",)}, "write KEY=VALUE"),
    ],
)
def test_an_invalid_request_is_refused_before_a_store_is_queried(request_: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_request(ReportRequest(**{"now_ms": NOW_MS, **request_}))  # type: ignore[arg-type]


def test_an_unknown_host_is_refused_with_the_known_ones() -> None:
    many = store_of([], extents=[extent(f"node-{number}") for number in range(9)])
    with pytest.raises(UsageError, match=r"no host 'nod-1' .* node-0, .* node-4 and 4 more"):
        report(many, hosts=("nod-1",))


def test_an_empty_store_is_refused_with_how_to_fill_it() -> None:
    empty = store_of([])
    empty.views["extent"] = []
    with pytest.raises(UnavailableError, match="gua import"):
        report(empty, hosts=("a",))


def test_a_window_without_data_is_refused_with_the_range_that_has_data() -> None:
    nothing = store_of([card("a", "GPU-1", (0.0, 0.0, 0.0, 0.0))], extents=[extent("a", "import")])
    with pytest.raises(UnavailableError, match=f"no data from 2020.* reach from {to_rfc3339(SINCE_MS)} to"):
        report(nothing, since="2020-01-01", until="2020-01-02")


def test_every_view_is_queried_for_the_same_window_and_hosts() -> None:
    asked = lab()
    report(asked, since="2d", hosts=("gpu-1",), timezone="Asia/Tokyo")
    bounds = {"since_ms": NOW_MS - 2 * DAY_MS, "until_ms": NOW_MS, "hosts": ["gpu-1"]}
    by_view = dict(asked.asked)
    assert by_view.pop("extent") == {"hosts": []}
    assert by_view.pop("rules") == by_view.pop("prices") == by_view.pop("labels") == {}
    read = {**bounds, "tick_hours": [row["hour"] for row in asked.views["hours"]], "use_hourly": 0}
    merged = {**read, "days": [-1], "unmerged_since_ms": NOW_MS, "price_models": [], "price_starts": []}
    assert by_view.pop("time_of_day") == {**read, "timezone": "Asia/Tokyo"}
    assert by_view.pop("overview") == by_view.pop("allocation_sources") == read
    assert by_view.pop("holders") == {**merged, "current_since_ms": NOW_MS - 3 * DAY_MS}
    assert by_view.pop("usage") == {**merged, "by": "identity"}
    streaks = {**read, "timezone": "Asia/Tokyo", "long_streak_ms": 1_800_000, "stuck_ms": 600_000}
    assert by_view.pop("card_streaks") == streaks
    assert set(by_view) == {"hours", "fleet", "host_name_conflicts"}
    assert all(parameters == bounds for parameters in by_view.values())


def test_order_of_rows_does_not_change_the_report() -> None:
    turned = lab()
    for view in ("extent", "rules", "overview", "time_of_day", "hours", "usage"):
        turned.views[view].reverse()
    assert report(turned) == report(lab())
