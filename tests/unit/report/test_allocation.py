"""Allocation in a report: the seven uses, top idle holders, free cards, and unknown ones."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.reports import HOSTILE, HOUR_MS, having, lacking, render_json, week_report, with_allocation
from fakes.reports import fleet_report as fleet_of
from fakes.store import SINCE_MS, UNTIL_MS, card, lab, store_of, whole
from gua.core.plaintext import cells
from gua.core.words import AllocationStatus, Use
from gua.report.allocations import ALLOCATIONS, TICKS_DELETED, AllocationUseRow, ReservationsRow, SourceRow, WaitsRow
from gua.report.answers import EmptyOwner, answers
from gua.report.collect import collect
from gua.report.conditions import judge, parse_condition
from gua.report.forms.data import render_csv
from gua.report.forms.first_screen import BRIEF, SECTIONS, Steps
from gua.report.forms.first_screen.screen import render_first_screen
from gua.report.forms.html import render_html
from gua.report.forms.markdown import render_markdown
from gua.report.forms.text import render_text
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.prices import Price, Prices
from gua.report.section_list import section_named
from gua.report.sections.allocation import AllocatedHours, allocation, allocation_name
from gua.report.sections.contention import ContentionRow, Contentions, contention
from gua.report.sections.now_rows import Now
from gua.report.sections.usage import Usage
from gua.report.states import observed_ms
from gua.report.uses import USES, total
from gua.report.window import ReportRequest

Golden = Callable[[str, str], None]
HOUR_US = HOUR_MS * 1000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def week() -> Report:
    return week_report()


def screen(report: Report, width: int = 80, *, brief: bool = False) -> str:
    shown = replace(having(report, replace(report[Usage], usage_by=())), sections=BRIEF if brief else SECTIONS)
    return render_first_screen(shown, Style(width=width), Steps(), brief=brief)


def flat(report: Report, *, brief: bool = False) -> str:
    return " ".join(screen(report, 120, brief=brief).split())


def met(text: str, report: Report) -> bool | None:
    return judge(parse_condition(text), report).is_met


def told(*rows: tuple[str, str | None, Use, float], **values: Any) -> Report:  # noqa: ANN401 - columns of views
    """Return the report of a store of one card of 48 hours, with rows of source, owner, use and hours."""
    store = store_of(
        [card("node-1", "GPU-1", (20.0, 8.0, 20.0, 0.0))],
        allocations=[
            {"is_total": 1, "source": source, "owner": owner, "use": use, "gpu_us": round(hours * HOUR_US)}
            for source, owner, use, hours in rows
        ],
        allocation_sources=[
            {"host": "node-1", "source": "slurm", "ok_ms": 48 * HOUR_MS, "failed_ms": 0, "last_ms": UNTIL_MS}
        ],
        **values,
    )
    return collect(store, ReportRequest(now_ms=UNTIL_MS, since="2d"))


def test_a_reservation_is_called_by_the_command_that_made_it(week: Report) -> None:
    one = next(iter(week[Now].empty))
    one = replace(one, allocation_id="4f0e9b2c11d0")
    made_by = (("gua", "run"), ("gua", "manual"), ("gua", None), ("gua", "evil"), ("slurm", "run"))
    names = {
        allocation_name(replace(one, source=source, allocation_kind=kind), Style(width=80)) for source, kind in made_by
    }
    assert names == {"gua run, 4f0e9b2c11d0", "gua reserve, 4f0e9b2c11d0", "gua 4f0e9b2c11d0", "slurm 4f0e9b2c11d0"}


class TestTheSection:
    def test_is_the_golden_one(self, week: Report, golden: Golden) -> None:
        for width in (60, 80, 120):
            text = render_text(replace(week, sections=("allocation",)), Style(width=width), with_basis=False)
            golden(f"allocation-{width}.txt", text)
        whole = json.loads(render_json(replace(week, sections=("allocation",))))
        golden("allocation.json", json.dumps(whole["allocation"], indent=1) + "\n")
        (section,) = re.findall(r'<section id="allocation".*?</section>', render_html(week), re.DOTALL)
        golden("allocation.html", section.replace("><", ">\n<") + "\n")

    def test_its_uses_sum_to_what_was_looked_at_and_with_the_rest_to_what_was_observed(self, week: Report) -> None:
        found = week[AllocatedHours]
        assert total(found.uses) == pytest.approx(found.with_source_gpu_ms)
        whole = found.with_source_gpu_ms + found.without_source_gpu_ms
        assert whole == pytest.approx(observed_ms(week.headline.states))

    def test_is_made_of_the_rows_of_the_store(self) -> None:
        made = told(
            ("", None, Use.FREE, 10),
            ("", None, Use.UNKNOWN, 1),
            ("slurm", "ana", Use.USED, 20),
            ("slurm", "ana", Use.EMPTY, 3),
            ("slurm", "bo", Use.EMPTY, 5),
            ("slurm", None, Use.UNKNOWN, 2),
            ("gua", "bo", Use.HELD, 6),
        )[AllocatedHours]
        assert made.has_source
        assert {use: ms / HOUR_MS for use, ms in made.uses.items() if ms} == {
            Use.FREE: 10,
            Use.UNKNOWN: 3,
            Use.USED: 20,
            Use.EMPTY: 8,
            Use.HELD: 6,
        }
        assert made.without_source_gpu_ms == HOUR_MS
        assert [(one.source, one.owner, one.allocated_gpu_ms / HOUR_MS) for one in made.owners] == [
            ("gua", "bo", 6),
            ("slurm", "bo", 5),
            ("slurm", "ana", 23),
            ("slurm", None, 2),
        ]
        assert [(one.source, one.allocated_gpu_ms / HOUR_MS) for one in made.allocated] == [("slurm", 30), ("gua", 6)]

    def test_counts_no_reservations_where_ticks_of_some_are_gone(self, week: Report) -> None:
        rows = ALLOCATIONS.parsed(
            whole(ALLOCATIONS, {"is_total": 1, "source": "gua", "owner": owner, "use": "used", "gpu_us": HOUR_US})
            for owner in ("ana", "bo", "chen")
        )
        cost_suffix = [ReservationsRow("gua", "ana", "run", 2), ReservationsRow("gua", "bo", "run", 2)]
        gone = ReservationsRow("gua", "bo", TICKS_DELETED, 1)
        found = allocation(rows, (), week.headline, Prices(()), [*cost_suffix, gone])
        counted = {one.owner: (one.runs, one.manuals) for one in found.owners}
        assert counted == {"ana": (2, 0), "bo": (None, None), "chen": (0, 0)}

    def test_orders_owners_by_cost_where_all_of_it_has_one_currency(self) -> None:
        def row(owner: str, price: int, hours: float) -> AllocationUseRow:
            of_owner = {"source": "slurm", "owner": owner, "use": "empty", "price": price}
            (made,) = ALLOCATIONS.parsed(
                [whole(ALLOCATIONS, {"is_total": 1, **of_owner, "gpu_us": round(hours * HOUR_US)})]
            )
            return made

        def first(*rows: AllocationUseRow, second: str = "EUR") -> str | None:
            prices = Prices(
                tuple(
                    Price(model, currency, amount, SINCE_MS, None, None)
                    for model, currency, amount in (("L4", "EUR", 1.0), ("H100", second, 9.0))
                )
            )
            return allocation(rows, (), week_report().headline, prices).owners[0].owner

        long, dear = row("long", 1, 5), row("dear", 2, 1)
        assert first(long, dear) == "dear"
        assert first(long, dear, second="USD") == "long"
        assert first(long, dear, row("long", 0, 0.1)) == "long"

    def test_the_section_is_left_out_without_an_allocation_source(self) -> None:
        made = collect(lab(), ReportRequest(now_ms=UNTIL_MS, since="2d"))
        assert "Allocation" not in re.findall(r"^\d+\. (\w+)", render_text(made, Style(width=80)), re.MULTILINE)
        whole = json.loads(render_json(made))["allocation"]
        assert (whole["has_source"], whole["owners"], whole["sources"]) == (False, [], [])
        assert whole["uses"]["free"] == {"gpu_hours": 0.0, "share": None}
        assert render_csv(made, "allocation").count("\r\n") == 1
        assert 'id="allocation"' not in render_html(made)
        assert "Allocation" not in re.findall(r"^## \d+\. (\w+)", render_markdown(made), re.MULTILINE)

    def test_hours_of_parts_are_written_so_that_they_add_up(self, week: Report) -> None:
        text = render_text(replace(week, sections=("allocation",)), Style(width=140), with_basis=False)
        rows = re.findall(r"^  (?:alice|bob|\(unknown\)) .*$", text, re.MULTILINE)
        assert len(rows) >= 3
        for line in rows:
            allocated, *parts = map(float, re.findall(r" (\d+\.\d)(?=\s)", line)[:6])
            assert sum(parts) == pytest.approx(allocated, abs=0.051)

    def test_csv_has_every_use_source_and_owner(self, week: Report) -> None:
        rows = list(csv.DictReader(io.StringIO(render_csv(week, "allocation"), newline="")))
        by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in ("use", "source", "owner", "health")}
        assert {row["use"] for row in by_kind["use"]} == set(USES)
        assert sum(float(row["gpu_hours"]) for row in by_kind["use"]) == pytest.approx(
            week[AllocatedHours].with_source_gpu_ms / HOUR_MS
        )
        assert len([row for row in by_kind["owner"] if row["allocated_gpu_hours"]]) == len(week[AllocatedHours].owners)
        assert [row["ok"] for row in by_kind["health"]] == ["false", "true"]

    @pytest.mark.parametrize("width", [20, 33, 60, 78, 140])
    def test_no_line_is_wider_than_the_requested_width(self, week: Report, width: int) -> None:
        for text in (
            render_text(replace(week, sections=("allocation", "now", "contention", "what-if")), Style(width=width)),
            screen(week, width),
            screen(week, width, brief=True),
        ):
            assert [line for line in text.splitlines() if cells(line) > width] == []

    def test_hostile_names_are_harmless_in_every_form(self, week: Report) -> None:
        for text in (
            render_text(replace(week, sections=("allocation",)), Style(width=140)),
            screen(week),
            render_markdown(replace(week, sections=("allocation",))),
            render_csv(week, "allocation").replace("\r\n", "\n"),
            render_csv(week, "now").replace("\r\n", "\n"),
        ):
            assert not {one for one in text if ord(one) < 32 or 127 <= ord(one) < 160} - {"\n"}
            assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
        page = render_html(week)
        assert "<script" not in page
        assert "<script" not in render_markdown(week)
        for name in HOSTILE:
            assert not name.startswith("=") or f",{name}" not in render_csv(week, "now")


class TestTheFirstScreen:
    def test_is_the_golden_one(self, week: Report, golden: Golden) -> None:
        golden("screen-allocation-80.txt", screen(week))
        golden("screen-allocation-brief.txt", screen(week, brief=True))

    @pytest.mark.parametrize("hosts", [1, 2, 8, 40])
    def test_is_one_screen_however_many_cards_there_are(self, hosts: int) -> None:
        report = with_allocation(fleet_of(hosts=hosts, cards_a_host=8, days=1))
        assert len(screen(report).splitlines()) <= 50
        assert len(screen(report, brief=True).splitlines()) <= 24

    def test_free_cards_are_the_unallocated_ones(self, week: Report) -> None:
        now = week[Now]
        text = flat(week)
        assert "Free now: lab-2.example[31m<b> GPU 1 for 3d 11h. It is not allocated." in text
        assert "Not free: gpu-1 GPU 2, allocated to bob (slurm 48215), no process since before 2026-03-28 16:48" in text
        assert "Unknown whether allocated: <script>…ipt>." in text
        none = having(week, replace(now, free=(), maybe_allocated=(), allocations=()))
        assert "Free now: none." in flat(none)
        assert "allocated to" not in flat(none)
        two = having(week, replace(now, free=now.free * 2, maybe_allocated=(), allocations=()))
        assert "They are not allocated." in flat(two)
        assert "3 that nothing holds are allocated, of 1 that is not known." in flat(week, brief=True)

    def test_a_free_card_shows_its_previous_owner(self, week: Report) -> None:
        (card,) = week[Now].free
        given_back = replace(card, free_ms=120_000, is_lower_bound=False, previous_owner="ana")
        told = having(week, replace(week[Now], free=(given_back,)))
        assert "GPU 1 for 2m (before that allocated to ana). It is not allocated." in flat(told)
        assert " for 2m<bdi> (before that allocated to ana)</bdi>" in render_html(told)
        assert "before that allocated" not in render_html(week)

    def test_a_host_without_an_allocation_source_is_marked(self, week: Report) -> None:
        now = week[Now]
        without_source = tuple(replace(one, allocation=None) for one in now.free)
        some = having(week, replace(now, free=(*now.free, *without_source)))
        assert "1 of them without an allocation source; the others are not allocated." in flat(some)
        none = having(week, replace(now, free=without_source))
        assert "No allocation source is read: it may be allocated." in flat(none)

    def test_the_time_of_the_windows_last_day_is_written_without_its_date(self, week: Report) -> None:
        now = week[Now]
        since_ms = week.window.until_ms - 14 * HOUR_MS
        (first, *_) = (replace(one, use_since_ms=since_ms, is_lower_bound=False) for one in now.empty)
        window = replace(week.window, until_ms=week.window.until_ms - MINUTE_MS)
        made = replace(having(week, replace(now, allocations=(first,))), window=window)
        assert "no process since 10:00." in flat(made)

    def test_owners_of_empty_allocations_are_ranked_with_the_others_by_waste(self, week: Report) -> None:
        found = answers(week)
        wasted = [one.wasted_gpu_ms for one in found.owners]
        assert wasted == sorted(wasted, reverse=True)
        empty = [one for one in found.owners if isinstance(one, EmptyOwner)]
        assert sum(one.wasted_gpu_ms for one in empty) == pytest.approx(week[AllocatedHours].uses[Use.EMPTY])
        assert [one.owner for one in empty][:2] == ["bob", "tr\x1b[31mainer\x07\x00\x9b2J\r\n\tend"]
        assert [one.allocation_id for one in empty[0].holds] == ["48215"]
        assert re.search(r"^  bob +73\.9 .*> 1d 6h +\(nobody\)", screen(week), re.MULTILINE)

    def test_without_the_now_section_empty_owners_are_marked_and_free_cards_left_out(self, week: Report) -> None:
        text = screen(lacking(week, Now))
        assert re.search(r"^  bob \(nobody\) +73\.9 ", text, re.MULTILINE)
        assert "Free" not in text

    @pytest.mark.parametrize(
        ("empty", "held", "said"),
        [
            (0.3, 0.2, ["300.0 GPU-hours (30.0 %) were allocated", "held and did nothing"]),
            (0.1, 0.2, ["held and did nothing", "100.0 GPU-hours (10.0 %) were allocated"]),
            (0.01, 0.005, ["10.0 GPU-hours (1.0 %) were allocated", "held and did nothing"]),
            (0.01, 0.2, ["held and did nothing"]),
            (0.2, 0, ["200.0 GPU-hours (20.0 %) were allocated without a process."]),
            (0.01, 0, ["No GPU was held without being used"]),
        ],
    )
    def test_the_verdict_has_the_worst_first(self, empty: float, held: float, said: list[str]) -> None:
        store = store_of(
            [card("node-1", "GPU-1", (1000 * (1 - empty - held), 1000 * held, 1000 * empty, 0.0))],
            allocations=[
                {"is_total": 1, **row}
                for row in (
                    {"source": "slurm", "owner": "ana", "use": "empty", "gpu_us": round(empty * 1000 * HOUR_US)},
                    {"source": "", "use": "unallocated-use", "gpu_us": round((1 - empty) * 1000 * HOUR_US)},
                )
            ],
            allocation_sources=[{"host": "node-1", "source": "slurm", "last_ms": UNTIL_MS}],
        )
        text = flat(collect(store, ReportRequest(now_ms=UNTIL_MS, since="2d")))
        places = [text.index(one) for one in said]
        assert places == sorted(places)
        assert ("were allocated without a process" in text) == any("allocated" in one for one in said)

    def test_a_source_that_cannot_be_read_is_a_warning(self, week: Report) -> None:
        text = " ".join(render_text(week, Style(width=120)).split())
        said = "Allocations cannot be read from slurm on gpu-1 (squeue gave no answer within 3 s): cards"
        assert said in text
        # A source that failed when it was removed from the agent's settings cannot be read now.
        left = tuple(
            one if one.ok else replace(one, last_ms=one.last_ms - 24 * HOUR_MS) for one in week.allocation_sources
        )
        cost_suffix = " ".join(render_text(replace(week, allocation_sources=left), Style(width=120)).split())
        assert "To whom cards are allocated cannot be read" not in cost_suffix
        well = tuple(replace(one, ok=True) for one in week.allocation_sources)
        assert said not in " ".join(render_text(replace(week, allocation_sources=well), Style(width=120)).split())


class TestFailOn:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("empty > 15%", True),
            ("empty > 25%", False),
            ("empty > 20%", None),
            ("empty < 19%", False),
            ("empty < 25%", True),
            ("empty > 8h", True),
            ("empty > 13h", False),
            ("empty > 10h", None),
            ("free > 40h", False),
            ("allocated > 16h", True),
            ("allocated > 26h", False),
            ("allocated > 1180m", None),
            ("used <= 7h", None),
            ("used <= 10h", True),
        ],
    )
    def test_what_is_unknown_settles_only_what_it_can(self, text: str, expected: bool | None) -> None:  # noqa: FBT001 - a case's column
        report = told(
            ("", None, Use.FREE, 20),
            ("", None, Use.UNALLOCATED_USE, 8),
            ("slurm", "ana", Use.EMPTY, 9.3),
            ("slurm", "ana", Use.USED, 7),
            ("slurm", "ana", Use.UNKNOWN, 1.7),
            ("", None, Use.UNKNOWN, 0.8),
            ("slurm", "ana", Use.HELD, 1.2),
        )
        assert met(text, report) is expected

    @pytest.mark.parametrize("text", ["empty > 20%", "empty < 20%", "allocated > 1h", "empty-now > 0"])
    def test_without_an_allocation_source_conditions_are_unknown(self, text: str) -> None:
        verdict = judge(parse_condition(text), week_report(has_source=False))
        assert verdict.is_met is None
        assert "no source of allocations is looked at" in verdict.why

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("empty-now > 1", True), ("empty-now > 2", None), ("empty-now > 4", False), ("empty-now < 2", False)],
    )
    def test_cards_that_are_empty_now_are_counted_once(self, week: Report, text: str, expected: bool | None) -> None:  # noqa: FBT001 - as above
        assert met(text, week) is expected

    def test_a_condition_selects_the_section_that_has_its_value(self) -> None:
        assert parse_condition("empty > 20%").section == "allocation"
        assert parse_condition("empty-now > 2").section == "now"


def test_what_if_has_the_limits_for_empty_allocations_too(week: Report) -> None:
    text = render_text(replace(week, sections=("what-if",)), Style(width=100), with_basis=False)
    assert "What if empty allocations were taken back" in text
    assert len(re.findall(r"^  (?:\d+[mhd])+ ", text, re.MULTILINE)) == 16
    nobody = week_report(has_source=False)
    assert "empty" not in render_text(replace(nobody, sections=("what-if",)), Style(width=100), with_basis=False)
    rows = list(csv.DictReader(io.StringIO(render_csv(week, "what-if"), newline="")))
    assert [row["rule"] for row in rows if row["limit_seconds"] == "1800.0"] == ["idle", "idle", "empty", "empty"][
        :: 2 if "USD" not in {row["currency"] for row in rows} else 1
    ]


def test_states_are_the_same_with_and_without_sources() -> None:
    assert week_report().headline == week_report(has_source=False).headline
    assert week_report().cards == week_report(has_source=False).cards


def test_a_card_with_an_unknown_allocation_is_never_free() -> None:
    assert {one.allocation for one in week_report()[Now].free} == {AllocationStatus.UNALLOCATED}
    assert {one.allocation for one in week_report()[Now].maybe_allocated} == {AllocationStatus.UNKNOWN}


def test_the_queue_of_hosts_whose_ticks_are_gone_is_unknown() -> None:
    prices = Prices.within([], since_ms=0, until_ms=9 * HOUR_MS)
    nothing: dict[str, Any] = dict.fromkeys(("contended_ms", "busy_ms", "unknown_ms", "contended_us"), 0)
    nothing |= {"contended_allocated_us": 0, "contended_priced": ()}
    found = ContentionRow(is_total=True, host="", cards=1, free_ms=9 * HOUR_MS, **nothing)
    rows = [found, *(found._replace(is_total=False, host=host) for host in ("kept", "gone", "slurm"))]
    sources = [
        SourceRow(host, source, ok_ms, HOUR_MS, None, 9 * HOUR_MS, None)
        for host, source, ok_ms in (("kept", "gua", 8), ("gone", "gua", 3 * HOUR_MS), ("slurm", "slurm", 8))
    ]
    kept = WaitsRow("kept", 0, 0, 0, 2 * HOUR_MS, 0, 0, 0, 0, 0)
    told = {one.host: one for one in contention(rows, prices, [kept], sources)}
    unknown = {host: one.waits_unknown_ms for host, one in told.items()}
    assert unknown == {None: 6 * HOUR_MS, "kept": 2 * HOUR_MS, "gone": 4 * HOUR_MS, "slurm": None}
    assert [told["kept"].wait_ms, told["gone"].wait_ms, told["slurm"].wait_ms] == [0, None, None]

    shown = having(week_report(), Contentions([told["gone"]]))
    text = section_named("contention").text
    said = [part for part in text(shown, Style(width=100), HourFormat(1)) if isinstance(part, str)]
    assert said[1] == "The queue of 4.0 hours is unknown: none is stored."
    assert not any("Nobody waited" in part for part in said)
