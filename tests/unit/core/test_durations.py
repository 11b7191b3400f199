from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.durations import format_duration, parse_duration_ms, parse_moment_ms, to_ms, to_rfc3339
from gua.core.errors import UsageError

CENTURY_MS = 100 * 366 * 86_400_000
NOW = 1_774_414_039_043  # 2026-03-25T04:47:19.043Z
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1ms", 1),
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("12h", 43_200_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("1.5h", 5_400_000),
        ("0.5s", 500),
        ("1h30m", 5_400_000),
        ("1d12h", 129_600_000),
        ("30 s", 30_000),
        ("  30s\n", 30_000),
        ("007s", 7_000),
        ("0h1s", 1_000),
        ("1.5ms", 1),
        ("36600d", CENTURY_MS),
    ],
)
def test_a_duration_is_a_number_and_a_unit_or_several(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


def test_a_fraction_that_has_no_binary_form_is_exact() -> None:
    assert parse_duration_ms("0.1s") * 10 == parse_duration_ms("1s")
    assert parse_duration_ms("1.001s") == 1_001
    assert parse_duration_ms("4.35s") == 4_350


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "s",
        "30",
        "-30s",
        "+30s",
        "30sec",
        "30 minutes",
        "1e3s",
        "1,5h",
        ".5h",
        "5.h",
        "30S",
        "7D",
        "30s!",
        "1d 12h",
        "1h and 30m",
        "nan",
        "inf",
        "\u0663s",
        "\u00bd h",
        "30s\x00",
        "1h\x1b[2J",
        "0x10s",
        "1y",
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration: write a number and"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["0s", "0ms", "0.0h", "0.9ms", "0d0h"])
def test_less_than_a_millisecond_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="shorter than 1 ms"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["36600d1ms", "101000w", "9" * 400 + "s"])
def test_more_than_a_century_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="longer than 100 years"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1, "1ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_500, "1500ms"),
        (90_000, "90s"),
        (300_000, "5m"),
        (3_600_000, "1h"),
        (86_400_000, "1d"),
        (604_800_000, "1w"),
        (691_200_000, "8d"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_is_exact(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


def test_no_time_is_written_as_0_ms() -> None:
    assert format_duration(0) == "0ms"


@given(st.integers(1, CENTURY_MS))
def test_what_is_written_is_read_back_exactly(milliseconds: int) -> None:
    assert parse_duration_ms(format_duration(milliseconds)) == milliseconds


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
    "text", ["", "yesterday", "25.03.2026", "2026-13-01", "2026-02-30", "12:00", "-7d", "\x1b[31m"]
)
def test_what_is_neither_is_refused_and_both_forms_are_shown(text: str) -> None:
    with pytest.raises(UsageError, match=r"neither a duration \(7d, 12h\) nor an ISO 8601 time"):
        parse_moment_ms(text, now_ms=NOW, timezone=UTC)


@pytest.mark.parametrize("text", ["0001-01-01", "1899-12-31", "2200-01-01", "9999-12-31T23:59:59+00:00"])
def test_a_time_so_far_away_that_no_zone_could_tell_it_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="from the year 1900 to 2199"):
        parse_moment_ms(text, now_ms=0, timezone=ZoneInfo("Asia/Tokyo"))


def test_a_duration_back_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_moment_ms("1000000w", now_ms=NOW, timezone=UTC)


def test_a_time_in_ms_is_rounded_down_also_before_1970() -> None:
    assert to_ms(datetime(1970, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)) == 1
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


@pytest.mark.parametrize(
    ("unix_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOW, "2026-03-25T04:47:19.043Z"),
        (NOW - 43, "2026-03-25T04:47:19Z"),
        (5, "1970-01-01T00:00:00.005Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_written_in_utc_with_a_fraction_only_if_it_has_one(unix_ms: int, text: str) -> None:
    assert to_rfc3339(unix_ms) == text


@given(st.integers(-2_208_988_800_000, 7_258_118_399_999), st.integers(-14 * 60, 14 * 60))
def test_a_written_time_is_read_back_in_any_zone(unix_ms: int, offset_minutes: int) -> None:
    zone = timezone(timedelta(minutes=offset_minutes))
    assert parse_moment_ms(to_rfc3339(unix_ms), now_ms=NOW, timezone=zone) == unix_ms
