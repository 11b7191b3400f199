"""What the text says, section by section."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fakes.reports import MINUTE_MS, having, week_report
from fakes.store import UNTIL_MS, FakeStore, card, extent, identity, lab, rules, store_of
from gua.report.collect import collect
from gua.report.forms.text import render_text, warnings
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import Table, TableColumn, draw
from gua.report.sections.energy import Energy, StateEnergy
from gua.report.sections.groups import MOST_CARDS
from gua.report.sections.usage import Usage, usage_by
from gua.report.states import STATES
from gua.report.window import ReportRequest


def text(store: FakeStore, width: int = 80, **style: bool) -> str:
    request = ReportRequest(now_ms=UNTIL_MS, since="2d")
    return render_text(collect(store, request), Style(width=width, **style))


def flat(store: FakeStore) -> str:
    return " ".join(text(store).split())


def section(store: FakeStore, title: str, width: int = 80) -> list[str]:
    (found,) = [block for block in text(store, width).split("\n\n") if f" {title}" in block.splitlines()[0]]
    return found.splitlines()


def test_the_sections_and_the_basis_stand_in_order() -> None:
    titles = re.findall(r"^(\d\. [A-Z].*|Basis)$", text(lab()), flags=re.MULTILINE)
    assert [title.split(" (")[0] for title in titles] == [
        "1. Where the GPU-hours went",
        "2. What to do now",
        "3. Idle capacity",
        "4. Per host",
        "5. Top owners",
        "7. Time of day",
        "Basis",
    ]


def test_it_says_what_active_and_truly_idle_do_not_mean() -> None:
    shown = flat(lab())
    assert "A kernel or codec was resident; it says nothing of useful work." in shown
    assert "No allocation source is read" in shown


def test_settings_that_are_not_the_default_are_marked() -> None:
    assert "512 MiB (not the default)" in flat(lab())
    store = lab()
    store.views["rules"] = rules(active_utilization=0.025, held_memory_ratio=0.01)
    shown = flat(store)
    assert "at 2.5 % (not the default) or more" in shown
    assert "100 MiB or 1 % of the card (not the default), whichever is more" in shown
    assert "utilization below 2.5 %" in shown


def test_unknown_time_has_its_reasons() -> None:
    assert "20.6 GPU-hours in 247 card ticks: utilization could not be read while something may be held" in flat(lab())


def test_low_coverage_and_overlapping_agents_are_shown_before_any_number() -> None:
    before = text(lab()).split("1. Where")[0]
    assert "Only 80.0 % of the expected time was observed" in before
    assert "Host gpu-1 has 50.0 observed hours of a card in 48.0 hours" in before


def test_simulated_numbers_say_so() -> None:
    store = store_of([card("a", "GPU-1", (1.0, 0.0, 0.0, 0.0))], extents=[extent("a", "simulator")])
    assert "! Simulated: no real machine was measured." in text(store).splitlines()


def test_states_of_the_headline_add_up_as_written() -> None:
    rows = [row for row in section(lab(), "Where")[2:8] if row.split()[0] in STATES]
    hours = [float(row.split()[1]) for row in rows]
    assert round(sum(hours), 1) == 148.1
    assert round(sum(float(row.split()[2]) for row in rows), 1) == 100.0
    assert [row.split()[1] for row in section(lab(), "Idle capacity")[2:4]] == [row.split()[1] for row in rows[1:3]]


def test_cards_with_equal_name_and_index_are_distinguished() -> None:
    uuids = ("MIG-1993a403-71dc-4cd1-8a0c-ea2acb219c78", "MIG-c4351914-35df-4837-9bd4-0094be310ddb")
    twins = [card("a", uuid, (0.0, 1.0, 0.0, 0.0), mig="instance", name="MIG 1g.10gb") for uuid in uuids]
    rows = section(store_of(twins), "Per card", 60)[3:5]
    assert [row.split()[1] for row in rows] == ["MIG-1993a403…19c78", "MIG-c4351914…10ddb"]


def test_a_fleet_shows_the_cards_that_stood_idle_longest() -> None:
    fleet = [card("a", f"GPU-{n:03d}", (1.0, n / 100, 0.0, 0.0), gpu_index=n) for n in range(MOST_CARDS + 20)]
    lines = section(store_of(fleet), "Per card")
    assert len(lines) == MOST_CARDS + 5
    assert lines[3].split()[0] == "20"
    assert "and 20 more with less idle time, 1.9 idle GPU-hours together" in " ".join(lines)


def test_owners_that_do_not_fit_are_one_line_that_makes_the_sum_whole() -> None:
    people = [identity(f"user{n}", "python", (1.0, 1.0, 0.0)) for n in range(13)]
    lines = section(store_of([card("a", "GPU-1", (13.0, 13.0, 0.0, 0.0))], identities=people), "Top owners")
    assert lines[-3].split() == ["3", "others", "6.00", "3.00", "3.00", "0.00", "6.00"]


def test_shares_of_usage_add_up_as_written() -> None:
    report = week_report()
    by = report[Usage].usage_by[2]
    thirds = tuple(replace(one, gpu_ms=1e6, share=1 / 3) for one in by.rows)
    assert len(thirds) == 3
    report = having(report, replace(report[Usage], usage_by=(replace(by, rows=thirds),)))
    (table,) = [part for part in usage_by(report, Style(width=80), HourFormat(1)) if isinstance(part, Table)]
    place = [column.title for column in table.columns].index("share %")
    assert [row[place] for row in table.rows] == ["33.4", "33.3", "33.3"]


def test_a_host_without_holders_states_that_in_top_owners() -> None:
    assert "nobody" in section(store_of([card("a", "GPU-1", (0.0, 0.0, 9.0, 0.0))]), "Top owners")[1]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_colour_changes_no_letter(width: int) -> None:
    coloured = text(lab(), width, colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text(lab(), width)
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b[")


def test_a_word_that_is_cut_stays_in_the_characters_of_the_terminal() -> None:
    (line,) = Style(width=20, unicode=False).wrap("h" * 100)
    assert (line.isascii(), len(line), ".." in line) == (True, 20, True)


@pytest.mark.parametrize(("width", "shown"), [(80, 2), (64, 0)])
def test_amounts_in_two_currencies_are_shown_together_or_not_at_all(width: int, shown: int) -> None:
    money = [TableColumn(title=currency, leaves=1) for currency in ("EUR", "USD")]
    table = Table(columns=[TableColumn(title="GPU-hours of", left=True), *money], rows=[["x" * 48, "38", "3.52 12345"]])
    head, _row = draw(table, Style(width=width))
    assert sum(currency in head for currency in ("EUR", "USD")) == shown


def test_unmeasured_energy_is_not_zero() -> None:
    report = week_report()
    nothing = StateEnergy(
        measured_joules=0, measured_ms=0, estimated_joules=7.2e6, estimated_ms=3_600_000, unknown_ms=0
    )
    cards = tuple(replace(each, states={**each.states, "idle-held": nothing}) for each in report[Energy].cards[:1])
    shown = render_text(having(report, replace(report[Energy], cards=cards)), Style(width=80))
    assert re.search(r"^ *idle-held +- +0\.0 +2\.00 +1\.0 ", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("source", "began_minutes", "said"),
    [
        ("agent", 12, "Recording since 2026-03-29 23:48, for 12m so far."),
        ("agent", 59, "Recording since 2026-03-29 23:01, for 59m so far."),
        ("agent", 60, "Only 20.0 % of the expected time"),
        ("import", 12, "Only 20.0 % of the expected time"),
    ],
)
def test_the_first_hour_of_an_agent_shows_its_begin_and_raises_no_alarm(
    source: str, began_minutes: int, said: str
) -> None:
    report = week_report()
    first_ms = report.window.until_ms - began_minutes * MINUTE_MS
    extents = tuple(replace(extent, source=source, first_ms=first_ms) for extent in report.extents)
    scarce = replace(report.coverage, ratio=0.2)
    alarms = said.startswith("Only")
    first, *others = warnings(replace(report, extents=extents, coverage=scarce), Style(width=80), HourFormat(1))
    assert first.startswith(said)
    assert not any(other.startswith("Only") for other in others)
    warned = warnings(
        replace(report, extents=extents, coverage=scarce), Style(width=80), HourFormat(1), says_since=True
    )
    assert (first in warned) is alarms
    older = (*extents, replace(report.extents[0], host="older", source="agent", first_ms=report.window.since_ms))
    beside = [*warnings(replace(report, extents=older, coverage=scarce), Style(width=80), HourFormat(1))]
    assert beside[0].startswith("Only 20.0 %")
