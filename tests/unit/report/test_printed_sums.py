"""What stands below a column of a report is what the column adds up to, as it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.reports import having, week_report
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import Table
from gua.report.model import Report
from gua.report.sections.calendar.model import Previous
from gua.report.sections.calendar.previous import previous
from gua.report.sections.energy.text import JOULES_PER_KWH
from gua.report.sections.headline.model import IdleSplit
from gua.report.sections.headline.text import headline
from gua.report.sections.money.model import ModelCost, Money
from gua.report.sections.money.text import money
from gua.report.sections.right_size.model import FitTime, RightSize
from gua.report.sections.right_size.text import right_size
from gua.report.sections.usefulness.model import IdleTime, Usefulness
from gua.report.sections.usefulness.text import usefulness
from gua.report.states import ACTIVE, IDLE_HELD, STATES, StateTime

HOUR_MS = 3_600_000
STYLE = Style(width=200)
# Each is rounded up by itself: 0.2 + 0.2 + 0.2 are not 0.5.
SIXTHS = 0.16 * HOUR_MS


def first_table(body: Callable[..., object], report: Report) -> list[list[str]]:
    parts = body(report, STYLE, HourFormat(1))
    return next([list(row) for row in part.rows] for part in parts if isinstance(part, Table))  # type: ignore[attr-defined]


def fit(gpu_ms: float, whole_ms: float) -> FitTime:
    return FitTime(workloads=1, gpu_ms=gpu_ms, share=gpu_ms / whole_ms, cost=None)


def idle_time(
    hours: float, sampled: float = 0, idle: float = 0, measured: float = 0, kilowatt_hours: float | None = None
) -> IdleTime:
    return IdleTime(
        gpu_ms=hours * HOUR_MS,
        sampled_gpu_ms=sampled * HOUR_MS,
        idle_gpu_ms=idle * HOUR_MS,
        idle_share=idle / sampled if sampled else None,
        measured_gpu_ms=measured * HOUR_MS,
        idle_joules=None if kilowatt_hours is None else kilowatt_hours * JOULES_PER_KWH,
    )


@pytest.mark.parametrize("half", [1.0, 0.9999, 0.1])
def test_what_fits_what_does_not_and_what_is_not_known_are_all_that_is_told(half: float) -> None:
    report = week_report()
    whole = 3 * SIXTHS
    any_ = fit(SIXTHS, whole)
    found = replace(
        report[RightSize],
        every=fit(whole, whole),
        half=fit(half * SIXTHS, whole),
        slice=any_,
        smaller=any_,
        any=any_,
        none=fit(SIXTHS, whole),
        not_known=fit(SIXTHS, whole),
    )
    rows = {row[0]: row[1:3] for row in first_table(right_size, having(report, found))}
    last = [rows[name] for name in ("any of these", "none of these", "not known")]
    assert sum(float(hours) for hours, _ in last) == pytest.approx(0.5)
    assert sum(float(share) for _, share in last) == pytest.approx(100)
    assert rows["a MIG slice"] == rows["a smaller model here"] == rows["any of these"]
    for place in range(2):
        assert float(rows["half a card"][place].lstrip("<")) <= float(rows["any of these"][place])


def test_idle_seconds_of_both_states_are_those_of_each() -> None:
    report = week_report()
    part, both = (idle_time(times * 1.04, times * 0.64, times * 0.34, times * 0.24, times * 0.024) for times in (1, 2))
    found = replace(report[Usefulness], states={ACTIVE: part, IDLE_HELD: part}, loaded=both)
    active, held, together = first_table(usefulness, having(report, found))
    assert together == ["both", "2.1", "1.3", "0.7", "53.1", "0.05", "0.5"]
    for place in (1, 2, 3, 5, 6):
        assert float(active[place]) + float(held[place]) == pytest.approx(float(together[place]))


def test_of_a_state_of_which_nothing_is_told_nothing_is_said() -> None:
    report = week_report()
    told, untold = idle_time(1, 1, 1), idle_time(1)
    found = replace(report[Usefulness], states={ACTIVE: told, IDLE_HELD: untold}, loaded=told)
    rows = first_table(usefulness, having(report, found))
    assert rows[1][1:] == ["1.0", "0.0", "-", "-", "-", "0.0"]


def test_a_change_is_the_difference_of_the_shares_beside_it() -> None:
    report = week_report()
    states, before = (
        {state: StateTime(gpu_ms=hours * HOUR_MS) for state, hours in zip(STATES, every, strict=True)}
        for every in ((1, 1, 1, 0), (0, 2, 2, 2))
    )
    found = replace(report[Previous], states=before)
    shown = replace(having(report, found), headline=replace(report.headline, states=states))
    rows = first_table(previous, shown)
    assert [row[-1] for row in rows] == ["+33.4", "-0.1", "+0.0", "-33.3"]
    for _, _, share, _, share_before, changed in rows:
        assert float(share) - float(share_before) == pytest.approx(float(changed))


def test_what_models_cost_is_what_the_currency_s_sum_says() -> None:
    report = week_report()
    costs = tuple(
        ModelCost(model=model, currency="EUR", gpu_ms={}, cost=dict.fromkeys(STATES, 0.024), unpriced_gpu_ms={})
        for model in ("A30", "H100", "L4")
    )
    shown = having(report, replace(report[Money], costs=costs))
    texts = [part for part in money(shown, STYLE, HourFormat(1)) if isinstance(part, str)]
    rows = first_table(money, shown)
    assert texts[0] == "idle-held: 0.07 EUR (estimated)"
    for place in range(2, 6):
        assert sum(float(row[place]) for row in rows) == pytest.approx(0.07)


def test_long_streaks_are_those_never_used_and_the_low_ones() -> None:
    report = week_report()
    split = replace(report[IdleSplit], never_used_long_gpu_ms=0.14 * HOUR_MS, low_long_gpu_ms=0.14 * HOUR_MS)
    told = next(part for part in headline(having(report, split), STYLE, HourFormat(1)) if isinstance(part, str))
    assert re.findall(r"[0-9]\.[0-9]", told) == ["0.3", "0.2", "0.1"]
