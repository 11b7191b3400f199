"""Whole reports of a small lab with everything in it that is easily got wrong."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fakes.reports import render_json
from fakes.store import UNTIL_MS, lab
from gua.core.plaintext import cells
from gua.report.collect import collect
from gua.report.forms.text import render_text
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.window import ReportRequest

Golden = Callable[[str, str], None]


@pytest.fixture
def report() -> Report:
    return collect(lab(), ReportRequest(now_ms=UNTIL_MS, since="2d", timezone="Europe/Berlin"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_of_every_width_is_the_golden_one(report: Report, golden: Golden, width: int) -> None:
    golden(f"report-{width}.txt", render_text(report, Style(width=width)))


def test_plain_text_is_the_golden_one(report: Report, golden: Golden) -> None:
    text = render_text(report, Style(width=80, unicode=False))
    assert text.isascii()
    golden("report-ascii.txt", text)


def test_coloured_text_is_the_golden_one(report: Report, golden: Golden) -> None:
    golden("report-colour.txt", render_text(report, Style(width=120, colour=True)))


def test_json_is_the_golden_one(report: Report, golden: Golden) -> None:
    golden("report.json", render_json(report))


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [*range(20, 60, 4), *range(60, 141, 3)])
def test_no_line_is_wider_than_the_requested_width(report: Report, width: int, *, unicode: bool) -> None:
    lines = render_text(report, Style(width=width, unicode=unicode)).splitlines()
    assert [line for line in lines if cells(line) > width] == []


def test_hostile_names_reach_no_terminal(report: Report) -> None:
    text = render_text(report, Style(width=120))
    assert not {character for character in text if ord(character) < 32} - {"\n"}
    assert "\u202e" not in text
    assert "\x07" not in text


def test_json_keeps_names_as_they_are(report: Report) -> None:
    hosts = json.loads(render_json(report))["hosts"]
    assert hosts == ["gpu-1", "lab-2\u202e.example\x1b[31m"]
