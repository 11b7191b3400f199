"""One demo week with every section filled in, in every form that has a golden file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.reports import HOSTILE, bare_report, empty_report, having, render_json, week_report
from gua.core.plaintext import cells
from gua.report.forms.text import render_text
from gua.report.kit.style import NARROWEST, Style
from gua.report.model import Report
from gua.report.section_list import section_named, section_names
from gua.report.sections.now_rows import Now

Golden = Callable[[str, str], None]
BARS = "█▉▊▋▌▍▎▏▒·░▓"


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140])
def test_text_of_every_width_is_the_golden_one(report: Report, golden: Golden, width: int) -> None:
    golden(f"week-{width}.txt", render_text(report, Style(width=width)))


def test_plain_text_is_the_golden_one(report: Report, golden: Golden) -> None:
    text = render_text(report, Style(width=80, unicode=False))
    assert text.isascii()
    golden("week-ascii.txt", text)


def test_json_is_the_golden_one(report: Report, golden: Golden) -> None:
    whole = json.loads(render_json(report))
    for card in whole["timeline"]["cards"]:  # a week of hours is long and all alike
        card["cells"] = card["cells"][:3]
    golden("week.json", json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [*range(NARROWEST, 60, 3), *range(60, 141, 7)])
def test_no_line_is_wider_than_the_requested_width(report: Report, width: int, *, unicode: bool) -> None:
    lines = render_text(report, Style(width=width, unicode=unicode)).splitlines()
    assert [line for line in lines if cells(line) > width] == []


@pytest.mark.parametrize("width", [20, 80])
def test_hostile_names_reach_no_terminal(report: Report, width: int) -> None:
    text = render_text(report, Style(width=width))
    assert not {character for character in text if ord(character) < 32 or 127 <= ord(character) < 160} - {"\n"}
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f")


@pytest.mark.parametrize("width", [20, 60, 120])
def test_colour_changes_no_letter(report: Report, width: int) -> None:
    coloured = render_text(report, Style(width=width, colour=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(report, Style(width=width))
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b[")


@pytest.mark.parametrize("width", [80, 140])
def test_no_bar_stands_without_its_number(report: Report, width: int) -> None:
    before = ""
    for line in render_text(report, Style(width=width)).splitlines():
        bars = re.findall(rf"[{BARS}]{{3,}}", line)
        # A line of time is all bar: its shares stand in the lines above it.
        assert not bars or re.search(r"\d", line) or re.search(r"\d %", before)
        before = line


@pytest.mark.parametrize("section", section_names())
def test_a_section_alone_stands_between_heading_and_basis(report: Report, section: str) -> None:
    text = render_text(replace(report, sections=(section,)), Style(width=80))
    titles = re.findall(r"^(?:\d+\.|  ) (.+)$", text, flags=re.MULTILINE)
    assert titles[0] == section_named(section).titled(report)
    assert text.startswith("GPU usage from ")
    assert "\nBasis\n" in text


@pytest.mark.parametrize("section", section_names())
def test_json_has_the_keys_of_the_requested_sections_only(report: Report, section: str) -> None:
    every = set(json.loads(render_json(report)))
    without = set(json.loads(render_json(replace(report, sections=tuple({*section_names()} - {section})))))
    alone = set(json.loads(render_json(replace(report, sections=(section,)))))
    assert every - without
    assert alone & without == every - (every - without) - (every - alone)
    assert every - without <= alone


@pytest.mark.parametrize("section", section_names())
def test_a_section_without_anything_draws_or_is_left_out_in_every_form(section: str) -> None:
    bare = bare_report(week_report(), section)
    assert render_text(bare, Style(width=80)).startswith("GPU usage")
    assert json.loads(render_json(bare))["sections"] == [section]


def test_a_window_in_which_nothing_was_observed_draws(golden: Golden) -> None:
    for width in (20, 80, 140):
        lines = render_text(empty_report(), Style(width=width)).splitlines()
        assert [line for line in lines if cells(line) > width] == []
    assert json.loads(render_json(empty_report()))["headline"]["states"]["active"]["share"] is None
    golden("nothing-80.txt", render_text(empty_report(), Style(width=80)))


def test_parts_of_idle_held_add_up_as_written(report: Report) -> None:
    lines = render_text(report, Style(width=80)).splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("idle-held "))
    whole, *parts = (line.split() for line in lines[start : start + 3])
    assert [part[:-2] for part in parts] == [["never", "used"], ["low"]]
    assert round(sum(float(part[-2]) for part in parts), 1) == float(whole[1])
    assert round(sum(float(part[-1]) for part in parts), 1) == float(whole[2])


def test_more_holders_than_are_read_are_counted(report: Report) -> None:
    now = report[Now]
    many = replace(now, holders=now.holders * 3, free=now.free * 16)
    flat = " ".join(render_text(having(report, many), Style(width=80)).split())
    assert f"and {len(many.holders) - 10} more holders: --csv now and --json have all of them." in flat
    assert f"and {len(many.free) - 10} more cards" in flat


def test_hostile_names_are_whole_in_json(report: Report) -> None:
    owners = {one["owner"] for one in json.loads(render_json(report))["owners"]}
    assert owners & set(HOSTILE)
