"""Hours of a window: the ticks of those that are read from ticks are queried where they may be many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gua.core.ports import Row
from gua.report.hours import (
    FEW_CARD_TICKS,
    MOST_UNROLLED_TICKS,
    PART_CARD_TICKS,
    Hour,
    HourRow,
    hours_of,
    read_of,
    ticks_an_hour,
)
from gua.report.model import Extent

BOUNDS = {"since_ms": 1, "until_ms": 2, "hosts": ["a"]}
ROWS = [
    HourRow(7, is_counted=False, is_merged=False, card_ticks=None),
    HourRow(5, is_counted=True, is_merged=False, card_ticks=9),
]


class Store:
    """Returns hour 7's ticks, and records its queries."""

    is_concurrent = False
    is_embedded = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        self.asked.append((view, dict(parameters)))
        return [{"hour": 7, "card_ticks": 40_000}]


def extent(cards: int, interval_ms: int) -> Extent:
    return Extent(host="a", source="agent", cards=cards, first_ms=0, last_ms=1, interval_ms=interval_ms)


def test_ticks_are_counted_if_they_may_be_many_or_their_number_is_unknown() -> None:
    for most in (None, FEW_CARD_TICKS + 1):
        store = Store()
        found = hours_of(store, BOUNDS, ROWS, most_an_hour=most)
        assert found == [Hour(5, is_counted=True, card_ticks=9), Hour(7, is_counted=False, card_ticks=40_000)]
        assert store.asked == [("hour_ticks", {"hosts": ["a"], "hours": [7]})]


def test_few_ticks_are_not_counted_and_from_ticks_nothing_is_as_it_was_counted() -> None:
    store = Store()
    found = hours_of(store, BOUNDS, ROWS, from_ticks=True, most_an_hour=FEW_CARD_TICKS)
    assert found == [Hour(5, is_counted=False, card_ticks=9), Hour(7, is_counted=False, card_ticks=0)]
    assert hours_of(store, BOUNDS, ROWS[1:]) == [Hour(5, is_counted=True, card_ticks=9)]
    assert store.asked == []
    assert read_of(BOUNDS, found) == {
        **BOUNDS,
        "tick_hours": [5, 7],
        "use_hourly": 0,
        "days": [-1],
        "unmerged_since_ms": BOUNDS["until_ms"],
    }
    assert read_of(BOUNDS, [*found, Hour(8, is_counted=True, card_ticks=0)])["use_hourly"] == 1


def test_merged_days_are_read_unless_a_price_starts_in_them() -> None:
    hours = [Hour(hour, is_counted=True, card_ticks=0, is_merged=hour < 72) for hour in (0, 23, 24, 48, 71, 72)]
    starts_ms = (0, 24 * 3_600_000, 49 * 3_600_000)
    read = read_of(BOUNDS, hours)
    assert (read["days"], read["unmerged_since_ms"]) == ([0, 1, 2], 72 * 3_600_000)
    read = read_of(BOUNDS, hours, price_starts_ms=starts_ms)
    assert (read["days"], read["unmerged_since_ms"]) == ([0, 1], 48 * 3_600_000)
    assert read_of(BOUNDS, hours[:-1])["unmerged_since_ms"] == BOUNDS["until_ms"]


def test_few_are_far_below_what_anything_is_decided_by() -> None:
    assert min(MOST_UNROLLED_TICKS, PART_CARD_TICKS) >= 10 * FEW_CARD_TICKS


def test_an_hour_has_as_many_ticks_as_the_intervals_of_its_cards_say() -> None:
    assert ticks_an_hour([extent(8, 30_000), extent(2, 1_000)]) == 8 * 120 + 2 * 3600
    assert ticks_an_hour([extent(8, 30_000), extent(2, 0)]) is None
