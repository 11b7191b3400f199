from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.errors import UsageError
from gua.core.moments import format_duration, parse_duration_ms, to_ms, to_rfc3339

CENTURY_MS = 100 * 366 * 86_400_000
NOW = 1_774_414_039_043  # 2026-03-25T04:47:19.043Z


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
        ("7 days", 604_800_000),
        ("1 day", 86_400_000),
        ("90 minutes", 5_400_000),
        ("1.5hours", 5_400_000),
        ("2 weeks", 1_209_600_000),
        ("1 second", 1_000),
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
        "30 months",
        "1 dayss",
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
