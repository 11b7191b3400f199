"""A large fleet is queried in parts of hosts: which, and what their rows are together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest

from fakes.report_context import report_context
from fakes.reports import empty_report, lacking, week_report
from fakes.store import extent
from gua.core.view import View
from gua.report.forms.text import warnings
from gua.report.hours import PART_CARD_TICKS, Hour, parts_of, parts_of_ticks
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.model import Extent, Window
from gua.report.prices import PricedTime, Prices
from gua.report.sections.contention import Contentions
from gua.report.sections.right_size import RightSize
from gua.report.sections.streaks import STREAKS_SECTION, EmptyLimitsRow, StreaksRow, streaks, what_if_empty

NO_PRICES = Prices.within((), since_ms=0, until_ms=1)


def hosts(*cards: int) -> list[Extent]:
    return [Extent(**extent(f"node-{number}", cards=count)) for number, count in enumerate(cards)]


@dataclass
class Asked:
    """A reader that keeps its queries, and answers with the hosts."""

    is_concurrent: bool = False
    asked: list[Mapping[str, object]] = field(default_factory=list)

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[dict[str, object]]:
        self.asked.append(parameters)
        return [{"view": view, "hosts": parameters["hosts"]}]


class Part(NamedTuple):
    """A row with the hosts of its query."""

    hosts: tuple[str, ...]


def test_hosts_fill_parts_and_a_host_is_never_divided() -> None:
    assert parts_of(hosts(8, 8, 8), 100, 2_400) == ()
    assert parts_of(hosts(8, 8, 8), 100, 2_399) == (("node-0", "node-1"), ("node-2",))
    assert parts_of(hosts(4, 80, 4, 4), 100, 800) == (("node-0",), ("node-1",), ("node-2", "node-3"))
    assert parts_of(hosts(80), 100, 800) == ()
    # A host whose ticks come from two sources is in one part.
    assert parts_of([*hosts(8, 8), *hosts(8)], 100, 1_600) == (("node-0",), ("node-1",))


def test_ticks_are_read_of_as_many_hosts_as_a_question_takes() -> None:
    def ticks(card_ticks: int) -> list[Hour]:
        return [Hour(hour=hour, is_counted=False, card_ticks=card_ticks // 2) for hour in (1, 2)]

    assert parts_of_ticks(hosts(8, 8, 8), ticks(PART_CARD_TICKS)) == ()
    assert parts_of_ticks(hosts(8, 8, 8), ticks(PART_CARD_TICKS + 2)) == (("node-0", "node-1"), ("node-2",))
    assert parts_of_ticks(hosts(8, 8), ticks(100 * PART_CARD_TICKS)) == (("node-0",), ("node-1",))
    assert parts_of_ticks(hosts(8, 8), ()) == ()


def test_each_part_is_queried_by_its_hosts() -> None:
    reader = Asked()
    context = report_context(reader, Window(since_ms=0, until_ms=1, timezone="UTC"), (("a", "b"), ("c",)))

    rows = context.rows(View("streaks", Part, ("hosts", "limit")), batched=True, limit=3)()

    assert [row.hosts for row in rows] == [("a", "b"), ("c",)]
    assert reader.asked == [{"hosts": ["a", "b"], "limit": 3}, {"hosts": ["c"], "limit": 3}]


def test_holders_are_a_separate_query_only_if_there_are_parts() -> None:
    reader = Asked()
    for parts in ((), (("a",), ("b",))):
        queries = report_context(reader, Window(since_ms=0, until_ms=1, timezone="UTC"), parts)
        finish = STREAKS_SECTION.collect and STREAKS_SECTION.collect(queries)
        assert finish
        with pytest.raises(Exception, match="limit_ms"):
            finish(empty_report().headline, ())

    assert [asked["in_parts"] for asked in reader.asked if "in_parts" in asked] == [0, 1]


def test_streaks_of_parts_are_added_up_and_a_holder_of_two_counts_once() -> None:
    first = StreaksRow(0, 3, 2, (11, 12), 5_000, 4_000, 4_000, 1, (PricedTime(1, 300),), (PricedTime(1, 200),))
    second = StreaksRow(
        0, 4, 2, (12, 13), 1_000, 2_000, 1_500, 2, (PricedTime(1, 5), PricedTime(2, 7)), (PricedTime(2, 6),)
    )

    found = streaks([first, second, first._replace(limit_ms=3_600_000, holders=9)], (), NO_PRICES)

    whole = found.classes[0]
    assert (whole.streaks, whole.holders, whole.idle_ms, whole.idle_held_gpu_ms) == (7, 3, 6_000, 6)
    # Of one row the number of holders is the store's.
    assert found.classes[1].holders == 9


def test_what_is_empty_in_parts_is_added_up() -> None:
    rows = [EmptyLimitsRow(300_000, 2, 1, 3_000, 1, ()), EmptyLimitsRow(300_000, 5, 4, 2_000, 0, ())]

    (found,) = what_if_empty(rows, [300_000], NO_PRICES)

    assert (found.reclaims, found.holders, found.gpu_ms, found.false_alarms) == (7, 5, 5, 1)


def test_sections_left_out_for_size_are_named_if_they_were_requested() -> None:
    week = week_report()
    large = replace(lacking(week, Contentions), streaks_skipped=600_000)
    hours = HourFormat(1)

    (warning,) = set(warnings(large, Style(width=80), hours)) - set(warnings(week, Style(width=80), hours))

    assert warning == (
        "Left out for size, 600,000 card-hours: contention. Ask for one by name (--section contention), or choose a "
        "shorter window or fewer hosts."
    )
    without = replace(lacking(week, Contentions, RightSize), streaks_skipped=3_000_000)
    assert any(": contention, right-size. Ask" in line for line in warnings(without, Style(width=80), hours))
    assert warning not in set(warnings(replace(large, sections=("headline", "now")), Style(width=80), hours))
    assert warning not in set(warnings(replace(large, streaks_skipped=None), Style(width=80), hours))
