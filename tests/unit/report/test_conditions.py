"""``--fail-on``: what can be written, when it is met, and that what is not known never passes for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.reports import HOUR_MS, empty_report, having, lacking, week_report
from gua.core.errors import UsageError
from gua.report.conditions import judge, parse_condition
from gua.report.model import Report
from gua.report.sections.now_rows import Now


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


def met(text: str, report: Report) -> bool | None:
    return judge(parse_condition(text), report).is_met


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idle-held > 2h", True),
        ("idle-held>380h", True),
        ("idle-held > 381h", False),
        ("idle-held > 46%", True),
        ("idle-held > 47%", False),
        ("idle-held < 47%", True),
        ("active >= 175.65h", True),
        ("unknown > 5%", False),
        ("unknown > 0", True),
        ("unobserved > 13h", True),
        ("unobserved > 1.6 %", True),
        ("unobserved > 1.7 %", False),
        ("coverage < 90%", False),
        ("coverage < 98.4%", True),
        ("  truly-idle   <=  262.6h ", True),
        ("idle-held-now > 1", True),
        ("idle-held-now > 2", False),
        ("idle-held-now >= 2", True),
    ],
)
def test_conditions_are_judged_by_the_reports_own_figures(text: str, expected: bool, report: Report) -> None:  # noqa: FBT001 - a case's column
    assert met(text, report) is expected


def test_a_share_that_is_exactly_the_bound_is_not_above_it() -> None:
    report = week_report()
    exact = replace(
        report, headline=replace(report.headline, shares={**report.headline.shares, "idle-held": 0.1 + 0.2})
    )
    assert met("idle-held > 30%", exact) is False
    assert met("idle-held >= 30%", exact) is True
    assert met("idle-held < 30%", exact) is False
    assert met("idle-held <= 30%", exact) is True


def test_a_streak_that_may_be_longer_than_was_seen_settles_only_what_it_can(report: Report) -> None:
    longest = report[Now].holders[0]
    assert longest.is_lower_bound
    assert met("streak > 8h", report) is True
    assert met(f"streak > {longest.idle_ms // HOUR_MS + 1}h", report) is None
    assert met("streak < 8h", report) is False
    assert met(f"streak < {longest.idle_ms // HOUR_MS + 1}h", report) is None


def test_a_streak_that_was_seen_whole_settles_all(report: Report) -> None:
    holders = tuple(replace(one, is_lower_bound=False) for one in report[Now].holders)
    seen = having(report, replace(report[Now], holders=holders))
    assert met("streak > 8h", seen) is True
    assert met("streak > 1000h", seen) is False
    assert met("streak < 1000h", seen) is True


def test_without_holders_the_longest_streak_is_zero(report: Report) -> None:
    without_holders = having(report, replace(report[Now], holders=()))
    assert met("streak > 1m", without_holders) is False


@pytest.mark.parametrize("text", ["streak > 8h", "idle-held-now > 3"])
def test_a_condition_without_its_data_is_unknown(text: str, report: Report) -> None:
    verdict = judge(parse_condition(text), replace(lacking(report, Now), streaks_skipped=9))
    assert verdict.is_met is None
    assert "unknown (" in verdict.why


def test_a_share_of_nothing_is_unknown() -> None:
    nothing = empty_report()
    assert met("idle-held > 20%", nothing) is None
    assert met("coverage < 90%", nothing) is True
    unexpected = replace(nothing, coverage=replace(nothing.coverage, ratio=None))
    assert met("coverage < 90%", unexpected) is None
    assert met("unobserved > 1%", unexpected) is None


def test_a_sliver_is_more_than_nothing(report: Report) -> None:
    sliver = replace(report, headline=replace(report.headline, shares={**report.headline.shares, "unknown": 1e-12}))
    assert met("unknown > 0%", sliver) is True
    assert met("unknown <= 0%", sliver) is False


def test_only_what_is_idle_now_needs_a_section() -> None:
    assert [parse_condition(text).section for text in ("streak > 1h", "idle-held-now > 1", "active > 1h")] == [
        "now",
        "now",
        None,
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "write METRIC > VALUE"),
        ("idle-held", "write METRIC > VALUE"),
        ("idle-held > ", "write METRIC > VALUE"),
        ("idle-held = 2h", "write METRIC > VALUE"),
        ("idle held > 2h", "metrics are active, idle-held"),
        ("busy > 2h", "metrics are active, idle-held"),
        ("idle-held >> 2h", "write METRIC > VALUE"),
        ("2h < idle-held", "write METRIC > VALUE"),
        ("idle-held > 2", "give a unit: 'idle-held > 2h'"),
        ("idle-held > two hours", "give a unit"),
        ("idle-held > -1h", "give a unit"),
        ("coverage < 90", "it is a share: 'coverage < 90%'"),
        ("coverage < 90h", "it is a share"),
        ("streak > 8%", "'streak > 8h'"),
        ("streak > 8", "give a unit: 'streak > 8h'"),
        ("idle-held-now > 2h", "a number of cards: 'idle-held-now > 3'"),
        ("idle-held-now > 5%", "'idle-held-now > 3'"),
        ("x" * 10_000, "write METRIC > VALUE"),
        ("idle-held\n> 2h; DROP", "no condition"),
    ],
)
def test_wrong_grammar_is_one_short_line_that_shows_the_right_one(text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_condition(text)
    assert told in str(raised.value)
    assert len(str(raised.value)) < 400
