"""One section as CSV: what a spreadsheet or a script reads back, to the last digit."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable

import pytest

from fakes.reports import HOSTILE, LONG, bare_report, week_report
from gua.report.forms.data import render_csv
from gua.report.model import Report
from gua.report.section_list import section_names
from gua.report.sections.now_rows import Now
from gua.report.states import MS_PER_HOUR, STATES


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


def rows(report: Report, section: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(report, section), newline=""), strict=True))


@pytest.mark.parametrize("section", section_names())
def test_every_section_is_the_golden_one(report: Report, golden: Callable[[str, str], None], section: str) -> None:
    whole = render_csv(report, section)
    lines = whole.split("\r\n")
    assert lines[-1] == ""
    # The timeline of a week is long and all alike.
    golden(f"week-{section}.csv", "\n".join(line.replace(LONG[:9_000], "") for line in lines[:60]))


@pytest.mark.parametrize("section", section_names())
def test_every_row_has_a_cell_for_every_column(report: Report, section: str) -> None:
    header, *lines = csv.reader(io.StringIO(render_csv(report, section), newline=""), strict=True)
    assert len(set(header)) == len(header)
    assert lines
    assert {len(line) for line in lines} == {len(header)}


@pytest.mark.parametrize("section", section_names())
def test_no_cell_can_be_a_formula_or_harm_a_terminal(report: Report, section: str) -> None:
    written = render_csv(report, section)
    for line in csv.reader(io.StringIO(written, newline="")):
        for cell in line:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            assert not cell.startswith("-") or float(cell) < 0
    bad = {character for character in written if unicodedata.category(character) in {"Cc", "Cf"}} - {"\r", "\n"}
    assert bad == set()


def test_a_formula_keeps_its_letters_behind_an_apostrophe(report: Report) -> None:
    programs = [row["program"] for row in rows(report, "usage")]
    assert """'=HYPERLINK("http://evil.example")""" in programs
    assert LONG in [row["owner"] for row in rows(report, "usage")]
    assert len(HOSTILE) == 7


def test_numbers_are_in_full_precision(report: Report) -> None:
    every = rows(report, "headline")
    by_state = {row["state"]: row for row in every if row["gpu_hours"]}
    for state in STATES:
        costs = {row["currency"]: float(row["cost"]) for row in every if row["state"] == state}
        assert costs == (report.headline.costs or {})[state].amounts
        assert float(by_state[state]["gpu_hours"]) == report.headline.states[state].gpu_ms / MS_PER_HOUR
        assert float(by_state[state]["share"]) == report.headline.shares[state]


def test_what_is_not_known_is_an_empty_cell_and_zero_is_zero(report: Report) -> None:
    holders = [row for row in rows(report, "now") if row["kind"] == "holder"]
    for row, holder in zip(holders, report[Now].holders, strict=True):
        assert row["pid"] == ("" if holder.pid is None else str(holder.pid))
        assert row["memory_bytes"] == ("" if holder.memory_bytes is None else str(holder.memory_bytes))
    assert {"", "0"} <= {row["memory_bytes"] for row in holders}


@pytest.mark.parametrize("section", section_names())
def test_a_report_that_has_nothing_of_a_section_gives_its_header(section: str) -> None:
    header, *_ = render_csv(bare_report(week_report(), section), section).splitlines()
    assert header == render_csv(week_report(), section).splitlines()[0]
