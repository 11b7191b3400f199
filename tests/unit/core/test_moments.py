"""Moments as people name them, in their own zone, also where its clocks are put forward and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.errors import UsageError
from gua.core.moments import (
    WEEKDAYS,
    begin_ms,
    last_week_ms,
    local_day,
    month_ms,
    parse_moment_ms,
    to_rfc3339,
    zone,
    zone_name,
)

NOW = 1_774_414_039_043  # Wednesday 2026-03-25T04:47:19.043Z
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut",
        "Asia/Kathmandu", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Kiritimati", "Pacific/Chatham",
    )
]  # fmt: skip
MOMENTS = st.integers(946_684_800_000, 2_145_916_800_000)  # 2000 to 2038


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-25T04:47:19.043Z", NOW),
        ("2026-03-25T04:47:19.043+00:00", NOW),
        ("2026-03-25T05:47:19.043+01:00", NOW),
        ("2026-03-25T05:47:19.043", NOW),
        ("2026-03-25 05:47:19.043", NOW),
        ("2026-03-25", NOW - (5 * 3600 + 47 * 60 + 19) * 1000 - 43),
        ("7d", NOW - 604_800_000),
        ("1h30m", NOW - 5_400_000),
        ("now", NOW),
        (" NOW ", NOW),
    ],
)
def test_a_moment_is_a_time_local_unless_it_says_otherwise_or_a_duration_back(text: str, moment: int) -> None:
    assert parse_moment_ms(text, now_ms=NOW, timezone=BERLIN) == moment


def test_summer_time_is_that_of_the_zone_on_that_day() -> None:
    winter = parse_moment_ms("2026-03-28", now_ms=NOW, timezone=BERLIN)
    summer = parse_moment_ms("2026-03-30", now_ms=NOW, timezone=BERLIN)
    assert summer - winter == 47 * 3_600_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "mon",
        "2026-3",
        "2026-00",
        "0000-01",
        "2026",
        "25.03.2026",
        "2026-13-01",
        "2026-02-30",
        "12:00",
        "-7d",
        "\x1b[31m",
    ],
)
def test_what_is_no_moment_is_refused_and_every_form_is_shown(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no moment: write a duration before now \(7d, .*, today, .* a month"):
        parse_moment_ms(text, now_ms=NOW, timezone=UTC)


@pytest.mark.parametrize(
    "text", ["0001-01-01", "1899-12-31", "2200-01-01", "9999-12-31T23:59:59+00:00", "1899-12", "2200-01"]
)
def test_a_time_out_of_the_range_of_zones_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="from the year 1900 to 2199"):
        parse_moment_ms(text, now_ms=0, timezone=ZoneInfo("Asia/Tokyo"))


def test_a_duration_back_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_moment_ms("1000000w", now_ms=NOW, timezone=UTC)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-03-25"),
        (" Today ", "2026-03-25"),
        ("yesterday", "2026-03-24"),
        ("wednesday", "2026-03-25"),
        ("Tuesday", "2026-03-24"),
        ("monday", "2026-03-23"),
        ("thursday", "2026-03-19"),
        ("2026-03", "2026-03-01"),
        ("2025-12", "2025-12-01"),
    ],
)
def test_a_day_or_month_is_its_beginning_where_one_is(text: str, day: str) -> None:
    assert parse_moment_ms(text, now_ms=NOW, timezone=BERLIN) == parse_moment_ms(day, now_ms=0, timezone=BERLIN)


def test_it_is_the_day_of_the_zone_and_not_of_utc() -> None:
    late = int(datetime(2026, 3, 25, 23, 30, tzinfo=UTC).timestamp() * 1000)
    assert to_rfc3339(parse_moment_ms("today", now_ms=late, timezone=BERLIN)) == "2026-03-25T23:00:00Z"
    assert to_rfc3339(parse_moment_ms("today", now_ms=late, timezone=UTC)) == "2026-03-25T00:00:00Z"


def test_durations_count_from_the_newest_tick_and_days_from_now() -> None:
    newest = NOW - 30 * 86_400_000
    assert parse_moment_ms("2 days", now_ms=NOW, newest_ms=newest, timezone=UTC) == newest - 2 * 86_400_000
    today = parse_moment_ms("today", now_ms=NOW, timezone=UTC)
    assert parse_moment_ms("today", now_ms=NOW, newest_ms=newest, timezone=UTC) == today
    assert parse_moment_ms("now", now_ms=NOW, newest_ms=newest, timezone=UTC) == NOW


def test_a_month_in_which_clocks_change_is_an_hour_longer_or_shorter() -> None:
    hours = [
        (end - begin) / 3_600_000 for begin, end in (month_ms(f"2026-{n:02d}", timezone=BERLIN) for n in (3, 4, 10))
    ]
    assert hours == [31 * 24 - 1, 30 * 24, 31 * 24 + 1]


@pytest.mark.parametrize(
    "text", ["", "11", "2026-13", "2026", "2026-11-01", "november", "1899-12", "2200-01", "0000-01"]
)
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a month: write it as in 2026-11"):
        month_ms(text, timezone=UTC)


def test_the_last_week_is_the_one_before_this_weeks_monday() -> None:
    begin, end = last_week_ms(now_ms=NOW, timezone=BERLIN)
    assert (to_rfc3339(begin), to_rfc3339(end)) == ("2026-03-15T23:00:00Z", "2026-03-22T23:00:00Z")
    on_monday = int(datetime(2026, 3, 22, 23, 0, tzinfo=UTC).timestamp() * 1000)
    assert last_week_ms(now_ms=on_monday, timezone=BERLIN) == (begin, end)
    assert last_week_ms(now_ms=on_monday - 1, timezone=BERLIN)[1] == begin


def shown(unix_ms: int, zone: tzinfo) -> date:
    """Return the date that a calendar on the wall shows, computed in another way than the code does."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=unix_ms)).astimezone(zone).date()


@given(MOMENTS, st.sampled_from(ZONES), st.sampled_from(["today", "yesterday", *WEEKDAYS]))
def test_a_day_begins_with_the_first_moment_that_shows_its_date(now_ms: int, zone: ZoneInfo, word: str) -> None:
    begin = parse_moment_ms(word, now_ms=now_ms, timezone=zone)
    day = shown(begin, zone)
    assert shown(begin - 1, zone) < day
    back = (shown(now_ms, zone) - day).days
    assert back == {"today": 0, "yesterday": 1}.get(word, back)
    if word in WEEKDAYS:
        assert 0 <= back < 7
        assert f"{day:%A}".lower() == word


@given(MOMENTS, st.sampled_from(ZONES))
def test_months_follow_each_other_without_a_hole_and_every_moment_is_in_its_month(unix_ms: int, zone: ZoneInfo) -> None:
    day = shown(unix_ms, zone)
    begin, end = month_ms(f"{day:%Y-%m}", timezone=zone)
    assert begin <= unix_ms < end
    assert shown(begin, zone) == day.replace(day=1)
    assert month_ms(f"{shown(end, zone):%Y-%m}", timezone=zone)[0] == end


@given(MOMENTS, st.sampled_from(ZONES))
def test_a_last_week_has_seven_days_and_is_over(now_ms: int, zone: ZoneInfo) -> None:
    begin, end = last_week_ms(now_ms=now_ms, timezone=zone)
    assert end <= now_ms
    assert f"{shown(begin, zone):%A}" == f"{shown(end, zone):%A}" == "Monday"
    assert (shown(end, zone) - shown(begin, zone)).days == 7
    assert (shown(now_ms, zone) - shown(end, zone)).days < 7


def test_where_clocks_skip_midnight_a_day_begins_after_it() -> None:
    zone = ZoneInfo("America/Sao_Paulo")  # 2018-11-04 began at 01:00
    assert to_rfc3339(begin_ms(date(2018, 11, 4), zone)) == "2018-11-04T03:00:00Z"
    assert local_day(begin_ms(date(2018, 11, 4), zone) - 1, zone) == date(2018, 11, 3)


@given(st.integers(-2_208_988_800_000, 7_258_118_399_999), st.integers(-14 * 60, 14 * 60))
def test_a_written_time_is_read_back_in_any_zone(unix_ms: int, offset_minutes: int) -> None:
    zone = timezone(timedelta(minutes=offset_minutes))
    assert parse_moment_ms(to_rfc3339(unix_ms), now_ms=NOW, timezone=zone) == unix_ms


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (" europe/berlin ", "Europe/Berlin"),
        ("posix/Europe/Oslo", "Europe/Oslo"),
        ("utc", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Zulu", "UTC"),
        ("EST5EDT", "EST5EDT"),
    ],
)
def test_a_zone_is_known_by_the_name_that_stores_know(text: str, name: str) -> None:
    assert zone_name(text) == name


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../etc/passwd", "Europe", "/etc/localtime", "UTC\0", "CET-1CEST", "localtime"]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    for parse in (zone, zone_name):
        with pytest.raises(UsageError, match=r"unknown time zone .*: give an IANA name, .*, or UTC or local"):
            parse(name)


def test_a_misspelled_zone_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean Europe/Berlin"):
        zone_name("europe/berln")


def test_a_zone_of_leap_seconds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"leap seconds|unknown time zone"):
        zone_name("right/UTC")


def test_a_zone_has_the_offset_of_the_moment() -> None:
    assert datetime(2026, 7, 1, tzinfo=zone("Europe/Berlin")).utcoffset() == timedelta(hours=2)
