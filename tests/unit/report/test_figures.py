"""Numbers that add up, and never call something nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.report.kit.figures import HourFormat, amount, apportion, percent, percents, plural, ranges

HOUR_MS = 3_600_000
amounts = st.lists(st.floats(0, 1e12), min_size=1, max_size=8)


def test_thirds_add_up_to_a_hundred() -> None:
    assert percents([1, 1, 1, 0]) == ["33.4", "33.3", "33.3", "0.0"]


def test_a_trace_is_not_zero_and_the_rest_is_not_everything() -> None:
    assert percents([99_999, 1, 0, 0]) == [">99.9", "<0.1", "0.0", "0.0"]


def test_nothing_has_no_percent() -> None:
    assert percents([0, 0]) == ["-", "-"]
    assert percent(None) == "-"


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.0, "0.0"), (0.0001, "<0.1"), (0.9799, "98.0"), (0.99999, ">99.9"), (1.0, "100.0"), (1.02, "102.0")],
)
def test_ratios_are_percent(ratio: float, shown: str) -> None:
    assert percent(ratio) == shown


@pytest.mark.parametrize(
    ("total_hours", "hours", "shown"),
    [
        (8.872, 8.3333, "8.333"),
        (8.872, 0.0001, "<0.001"),
        (48.0, 0.001, "<0.01"),
        (1344.0, 1234.56, "1,234.6"),
        (1344.0, 0.01, "<0.1"),
        (1344.0, 0.0, "0.0"),
    ],
)
def test_hours_have_decimals_that_fit_the_report(total_hours: float, hours: float, shown: str) -> None:
    assert HourFormat.fitting(total_hours * HOUR_MS).of(hours * HOUR_MS) == shown


def test_hours_of_parts_add_up_to_those_of_the_whole() -> None:
    hours = HourFormat(1)
    assert hours.parts([0.05 * HOUR_MS] * 4) == ["0.1", "0.1", "<0.1", "<0.1"]
    assert hours.of(0.2 * HOUR_MS) == "0.2"


def test_gpus_have_two_decimals() -> None:
    assert [amount(value, 2) for value in (None, 0.0, 0.001, 1.909, 1024.0)] == [
        "-",
        "0.00",
        "<0.01",
        "1.91",
        "1,024.00",
    ]


def test_one_is_not_many() -> None:
    assert plural(1, "card") == "1 card"
    assert plural(2000, "card") == "2,000 cards"


@given(amounts, st.integers(1, 2000))
def test_parts_always_add_up(values: list[float], parts: int) -> None:
    split = apportion(values, parts)
    assert sum(split) == (parts if sum(values) > 0 else 0)
    assert all(part >= 0 for part in split)


@given(amounts)
def test_only_zero_is_written_as_zero(values: list[float]) -> None:
    for value, shown in zip(values, percents(values), strict=True):
        assert (shown in {"0.0", "-"}) == (value == 0)


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 3, 5], "0-3,5"), ([7, 0, 1, 7], "0-1,7"), ([4, 2], "2,4")]
)
def test_whole_numbers_in_a_row_are_written_as_a_range(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
