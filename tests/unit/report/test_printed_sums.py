"""What stands below a column of a report is what the column adds up to, as it is printed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from fakes.reports import having, week_report
from gua.core.words import Use
from gua.report.answers import EmptyOwner, IdleOwner, Unowned, answers
from gua.report.costs import Cost, added_by_state
from gua.report.forms.first_screen.answers import amounts, other_people
from gua.report.forms.first_screen.overview import day
from gua.report.forms.first_screen.screen import idle_seconds_in_words, sentences
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table
from gua.report.kit.words import places
from gua.report.model import IdleSeconds, Report
from gua.report.section_list import section_named
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.calendar import TimeOfDay
from gua.report.sections.card_streaks import IdleSplit
from gua.report.sections.energy import JOULES_PER_KWH
from gua.report.sections.groups import Grouping, Groupings
from gua.report.sections.headline import state_hours
from gua.report.sections.money import ModelCost, Money, StateCost
from gua.report.sections.previous import Previous
from gua.report.sections.right_size import FitTime, RightSize
from gua.report.sections.usefulness import IdleTime, Usefulness
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, StateTime

HOUR_MS = 3_600_000
STYLE = Style(width=200)
# Each is rounded up by itself: 0.2 + 0.2 + 0.2 are not 0.5.
SIXTHS = 0.16 * HOUR_MS
NOT_THERE: dict[str, Any] = {"cost": None, "holds": (), "last_ms": None, "is_gone": True}


def parts_of(section: str, report: Report) -> list[Part]:
    return [*section_named(section).text(report, STYLE, HourFormat(1))]


def first_table(section: str, report: Report) -> list[list[str]]:
    return next([list(row) for row in part.rows] for part in parts_of(section, report) if isinstance(part, Table))


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
def test_fitting_not_fitting_and_unknown_right_size_rows_add_up_to_all(half: float) -> None:
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
    rows = {row[0]: row[1:3] for row in first_table("right-size", having(report, found))}
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
    states = {state: StateTime(gpu_ms=1.04 * HOUR_MS) for state in STATES}
    shown = replace(having(report, found), headline=replace(report.headline, states=states))
    active, held, together = first_table("usefulness", shown)
    assert together == ["both", "2.2", "1.3", "0.7", "53.1", "0.05", "0.5"]
    for place in (1, 2, 3, 5, 6):
        assert float(active[place]) + float(held[place]) == pytest.approx(float(together[place]))
    assert [active[1], held[1]] == [state_hours(shown, HourFormat(1))[state] for state in (ACTIVE, IDLE_HELD)]
    result = IdleSeconds(
        sampled_gpu_ms=part.sampled_gpu_ms,
        idle_gpu_ms=part.idle_gpu_ms,
        idle_share=part.idle_share or 0,
        most_idle=None,
    )
    said = idle_seconds_in_words(shown, result, places(shown, STYLE), HourFormat(1))
    assert re.findall(r"[0-9]+\.[0-9]", said) == [active[3], active[1], active[4], active[2]]


def test_a_state_without_samples_shows_no_values() -> None:
    report = week_report()
    result, unsampled = idle_time(1, 1, 1), idle_time(1)
    found = replace(report[Usefulness], states={ACTIVE: result, IDLE_HELD: unsampled}, loaded=result)
    states = {state: StateTime(gpu_ms=HOUR_MS) for state in STATES}
    rows = first_table("usefulness", replace(having(report, found), headline=replace(report.headline, states=states)))
    assert rows[1][1:] == ["1.0", "0.0", "-", "-", "-", "0.0"]


def test_a_change_is_the_difference_of_the_shares_beside_it() -> None:
    report = week_report()
    states, before = (
        {state: StateTime(gpu_ms=hours * HOUR_MS) for state, hours in zip(STATES, every, strict=True)}
        for every in ((1, 1, 1, 0), (0, 2, 2, 2))
    )
    found = replace(report[Previous], states=before)
    shown = replace(having(report, found), headline=replace(report.headline, states=states))
    rows = first_table("previous", shown)
    assert [row[-1] for row in rows] == ["+33.4", "-0.1", "+0.0", "-33.3"]
    for _, _, share, _, share_before, changed in rows:
        assert float(share) - float(share_before) == pytest.approx(float(changed))


def test_what_models_cost_is_what_the_currency_s_sum_says() -> None:
    report = week_report()
    costs = tuple(
        ModelCost(model=model, currency="EUR", states=dict.fromkeys(STATES, StateCost(cost=0.024)))
        for model in ("A30", "H100", "L4")
    )
    shown = having(report, replace(report[Money], costs=costs))
    texts = [part for part in parts_of("money", shown) if isinstance(part, str)]
    rows = first_table("money", shown)
    assert texts[0] == "idle-held: 0.07 EUR (estimated)"
    for place in range(2, 6):
        assert sum(float(row[place]) for row in rows) == pytest.approx(0.07)


def test_long_streaks_are_those_never_used_and_the_low_ones() -> None:
    report = week_report()
    split = replace(report[IdleSplit], never_used_long_gpu_ms=0.14 * HOUR_MS, low_long_gpu_ms=0.14 * HOUR_MS)
    result = next(
        part
        for part in section_named("headline").text(having(report, split), STYLE, HourFormat(1))
        if isinstance(part, str)
    )
    assert re.findall(r"[0-9]\.[0-9]", result) == ["0.3", "0.2", "0.1"]


def test_top_idle_holders_the_rest_and_unowned_add_up_to_held_and_empty() -> None:
    """As the section of states and that of allocation write both: in tenths 0.2, 0.2, 0.2, 0.2 and 0.2, 0.2, 0.3."""
    report = week_report()
    sixth = StateTime(gpu_ms=SIXTHS)
    states = {**dict.fromkeys(STATES, sixth), IDLE_HELD: StateTime(gpu_ms=4 * SIXTHS)}
    allocated = replace(report[AllocatedHours], uses={Use.USED: SIXTHS, Use.EMPTY: 3 * SIXTHS, Use.FREE: SIXTHS})
    shown = replace(having(report, allocated), headline=replace(report.headline, states=states))
    held = [IdleOwner(owner=f"h{n}", gpu_ms=SIXTHS, wasted_gpu_ms=SIXTHS, **NOT_THERE) for n in range(3)]
    empty = [EmptyOwner(owner=f"e{n}", gpu_ms=SIXTHS, wasted_gpu_ms=SIXTHS, cost=None, holds=()) for n in range(3)]
    no_owner = Unowned(wasted_gpu_ms=SIXTHS, cost=None, holds=())
    hours = HourFormat(1)
    uses = first_table("allocation", shown)
    (of_empty,) = (float(row[1]) for row in uses if row[0] == Use.EMPTY)
    together = float(state_hours(shown, hours)[IDLE_HELD]) + of_empty
    for most in range(1, 4):
        named = [*held[:most], *empty[:most]]
        found = replace(answers(shown), unowned=no_owner)
        of_named, of_rest, of_unowned = amounts(shown, found, named, [*held[most:], *empty[most:]], hours)
        assert sum(map(float, (*of_named, of_rest, of_unowned))) == pytest.approx(together)
    said = " ".join(sentences(shown, STYLE, hours))
    assert f"{of_empty} GPU-hours ({next(row[2] for row in uses if row[0] == Use.EMPTY)} %) were allocated" in said


def test_the_hour_in_which_a_state_is_most_is_written_as_in_its_section() -> None:
    report = week_report()
    thirds = {state: StateTime(gpu_ms=0 if state == UNKNOWN else HOUR_MS) for state in STATES}
    shown = having(report, TimeOfDay(replace(hour, states=thirds) for hour in report[TimeOfDay]))
    first = first_table("time-of-day", shown)[0]
    assert first == ["00-01", "33.4", "33.3", "33.3", "0.0"]
    assert re.findall(r"most 00: ([\d.]+) %", "\n".join(day(shown, STYLE))) == first[1:4]


def test_the_note_on_owners_hours_is_printed_once() -> None:
    parts = section_named("usage").text(week_report(), Style(width=80), HourFormat(1))
    result = [part for part in parts if isinstance(part, str)]
    assert len(result) == len(set(result))


def test_of_busy_cards_with_few_sms_unknown_owners_are_unknown() -> None:
    report = week_report()
    run = replace(report[Usefulness].busy_with_few_sms[0], owners=("ann", None), programs=(None,))
    shown = having(report, replace(report[Usefulness], busy_with_few_sms=(run,)))
    last = [
        list(part.rows)
        for part in section_named("usefulness").text(shown, STYLE, HourFormat(1))
        if isinstance(part, Table)
    ][-1]
    assert list(last[0])[-2:] == ["ann, (unknown)", "(unknown)"]


def test_what_groups_cost_is_what_the_currency_s_sum_says() -> None:
    report = week_report()
    costs = {state: Cost(amounts={"EUR": 0.024 if state == IDLE_HELD else 0.0}, unpriced_gpu_ms=0) for state in STATES}
    unpriced = {state: Cost(amounts={}, unpriced_gpu_ms=HOUR_MS) for state in STATES}
    group = replace(report[Groupings][0].groups[0], costs=costs)
    every = [*(replace(group, name=name) for name in ("a", "b", "c")), replace(group, name="d", costs=unpriced)]
    headline = replace(report.headline, costs=added_by_state(one.costs for one in every))
    shown = replace(having(report, Groupings([Grouping(by="host", groups=tuple(every))])), headline=headline)
    rows = [row[6] for row in first_table("groups", shown)]
    assert rows[-1] == "-"
    assert sum(float(cost) for cost in rows[:-1]) == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("bo bo", "1 other"),
        ("bo cy bo", "2 others"),
        ("bo ana", "1 other, and more of those above"),
        ("ana", "more of those above"),
    ],
)
def test_others_are_people_each_once(rest: str, said: str) -> None:
    ana = IdleOwner(owner="ana", wasted_gpu_ms=1, gpu_ms=1, **NOT_THERE)
    # Who was allocated cards and left them empty may have held others.
    first, *more = rest.split()
    every = [
        EmptyOwner(owner=first, wasted_gpu_ms=1, gpu_ms=1, cost=None, holds=()),
        *(replace(ana, owner=owner) for owner in more),
    ]
    assert other_people([ana], every) == said
