"""The answers of a report: who wasted what, holds what now, or is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.reports import HOUR_MS, SCRIPT, TICK_MS, empty_report, having, lacking, week_report
from gua.report.answers import IdleOwner, answers
from gua.report.costs import Cost
from gua.report.model import Report, Silent
from gua.report.sections.now_rows import Now, OtherHolder
from gua.report.sections.usage import OwnerUsage, Usage
from gua.report.states import IDLE_HELD, STATES, StateTime


def owner(
    name: str | None, program: str, held_hours: float, last_ms: int | None = None, *, used_hours: float = 1
) -> OwnerUsage:
    """Return a program that held cards for so long, and used them for so long."""
    hours = dict(zip(STATES, (used_hours, held_hours, 0.0, 0.0), strict=True))
    return OwnerUsage(
        kind="listed",
        owner=name,
        program=program,
        gpu_ms=(used_hours + held_hours) * HOUR_MS,
        process_ms=0,
        states={state: StateTime(gpu_ms=hours[state] * HOUR_MS) for state in STATES},
        last_ms=last_ms,
    )


@pytest.fixture
def report() -> Report:
    return week_report(has_source=False)


def used(report: Report, *owners: OwnerUsage) -> Report:
    return having(report, Usage(owners=owners))


def asked(report: Report) -> IdleOwner:
    (one,) = answers(report).owners
    return one


def end_ms(report: Report) -> int:
    return report[Now].as_of_ms


def test_programs_of_an_owner_are_one_and_who_wasted_most_comes_first(report: Report) -> None:
    programs = (("ana", "a", 3), ("bo", "b", 5), ("ana", "c", 4))
    found = answers(used(report, *(owner(*one) for one in programs), owner(None, "d", 2, used_hours=99)))

    assert [(one.owner, one.wasted_gpu_ms / HOUR_MS, one.gpu_ms / HOUR_MS) for one in found.owners] == [
        ("ana", 7, 9),
        ("bo", 5, 6),
        (None, 2, 101),
    ]


def test_an_owner_who_wasted_nothing_is_not_listed(report: Report) -> None:
    assert answers(used(report, owner("ana", "a", 0))).owners == ()


def test_owners_and_unowned_memory_add_up_to_the_headline(report: Report) -> None:
    found = answers(report)

    assert found.unowned is not None
    total = sum(one.wasted_gpu_ms for one in found.owners) + found.unowned.wasted_gpu_ms
    assert total == pytest.approx(report.headline.states[IDLE_HELD].gpu_ms)


def test_waste_is_shown_as_gpus_of_the_expected_ones(report: Report) -> None:
    share = report.headline.shares[IDLE_HELD]

    assert report.headline.expected_gpus == pytest.approx(5)
    assert share == pytest.approx((report.headline.equivalent_gpus[IDLE_HELD] or 0) / 5)


def test_an_owner_holds_what_it_idles_on_and_what_it_works_on(report: Report) -> None:
    works = OtherHolder(
        host="gpu-1",
        gpu="GPU-cccc3333",
        index=2,
        card_name=None,
        card_state="active",
        as_of_ms=end_ms(report),
        owner="bob",
        program="train",
        pid=9,
        memory_bytes=None,
        since_ms=end_ms(report) - HOUR_MS,
    )
    one = asked(having(used(report, owner("bob", "jupyter-lab", 1)), replace(report[Now], others=(works,))))

    assert [(held.pid, held.idle_ms) for held in one.holds] == [(4002, int(118.4 * HOUR_MS)), (9, None)]
    assert [held.is_lower_bound for held in one.holds] == [True, False]
    assert one.is_gone is False


def test_unowned_memory_belongs_to_no_owner(report: Report) -> None:
    found = answers(used(report, owner(None, "a", 1)))

    assert [one.holds for one in found.owners] == [()]
    assert found.unowned is not None
    assert [(held.pid, held.index) for held in found.unowned.holds] == [(None, 1)]
    assert found.unowned.wasted_gpu_ms == 0


@pytest.mark.parametrize(("ago_ms", "is_gone"), [(0, False), (3 * TICK_MS, False), (3 * TICK_MS + 1, True)])
def test_an_owner_last_seen_before_the_newest_ticks_is_gone(report: Report, ago_ms: int, *, is_gone: bool) -> None:
    seen_ms = end_ms(report) - ago_ms
    one = asked(replace(used(report, owner("zoe", "a", 1, seen_ms), owner("zoe", "b", 1)), silent=()))

    assert (one.is_gone, one.last_ms) == (is_gone, seen_ms)


def test_an_owner_seen_only_in_hours_without_processes_is_gone_unless_a_host_is_silent(report: Report) -> None:
    unseen = used(report, owner("zoe", "a", 1))

    assert asked(replace(unseen, silent=())).is_gone is True
    assert asked(unseen).is_gone is None


@pytest.mark.parametrize(("after_ms", "is_gone"), [(-TICK_MS, None), (-3 * TICK_MS - 1, True)])
def test_whether_an_owner_on_a_silent_host_is_gone_is_unknown(
    report: Report, after_ms: int, *, is_gone: bool | None
) -> None:
    silent_ms = end_ms(report) - 5 * HOUR_MS
    one = replace(
        used(report, owner("zoe", "a", 1, silent_ms + after_ms)), silent=(Silent(host=SCRIPT, since_ms=silent_ms),)
    )

    assert asked(one).is_gone is is_gone


def test_without_streaks_current_holders_are_unknown(report: Report) -> None:
    found = answers(lacking(used(report, owner("ana", "a", 1, end_ms(report))), Now))

    assert (found.owners[0].is_gone, found.owners[0].holds) == (None, ())


def test_a_report_of_nothing_has_no_answer() -> None:
    found = answers(empty_report())

    assert (found.owners, found.unowned) == ((), None)
    assert empty_report().headline.expected_gpus is None


def priced(one: OwnerUsage, unpriced_hours: float = 0, **amounts: float) -> OwnerUsage:
    """Return it with what its idle-held time cost."""
    cost = Cost(amounts=amounts, unpriced_gpu_ms=unpriced_hours * HOUR_MS)
    return replace(one, costs=dict.fromkeys(STATES, cost))


@pytest.mark.parametrize(
    ("dear", "total", "first"),
    [
        ({"EUR": 9.0}, Cost(amounts={"EUR": 10.0}, unpriced_gpu_ms=0), "dear"),
        ({"USD": 9.0}, Cost(amounts={"EUR": 1.0, "USD": 9.0}, unpriced_gpu_ms=0), "long"),
        ({"EUR": 9.0}, Cost(amounts={"EUR": 10.0}, unpriced_gpu_ms=1), "long"),
    ],
)
def test_who_cost_most_comes_first_where_all_of_it_has_one_currency(
    report: Report, dear: dict[str, float], total: Cost, first: str
) -> None:
    owners = (priced(owner("long", "a", 5), EUR=1.0), priced(owner("dear", "b", 2), **dear))
    made = used(replace(report, headline=replace(report.headline, costs=dict.fromkeys(STATES, total))), *owners)
    found = answers(made)
    assert found.owners[0].owner == first
    assert {one.owner: one.cost for one in found.owners} == {
        "long": Cost(amounts={"EUR": 1.0}, unpriced_gpu_ms=0),
        "dear": Cost(amounts=dear, unpriced_gpu_ms=0),
    }
