"""A section is one file and one line: declared there, it is in every form, without anything else to write."""

from __future__ import annotations

import csv
import importlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import get_type_hints

import pytest

from fakes.reports import having, render_json, week_report
from fakes.store import UNTIL_MS, lab
from gua.cli import output_options
from gua.report import section_list, sections
from gua.report.collect import collect
from gua.report.forms.data import render_csv
from gua.report.forms.html import render_html
from gua.report.forms.markdown import render_markdown
from gua.report.forms.text import render_text
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.window import ReportRequest

SECTION = dedent(
    '''
    """Noise of fans."""

    from __future__ import annotations

    from dataclasses import dataclass

    from gua.report.kit.fields import Hours, Ratio, Timestamp, cells, columns
    from gua.report.kit.tables import Table, TableColumn
    from gua.report.section import Csv, Section


    @dataclass(frozen=True, kw_only=True, slots=True)
    class HostNoise:
        """A host, how long it was loud [ms], and since when (Unix ms)."""

        host: str
        loud_ms: Hours[float]
        since_ms: Timestamp[int | None]
        share: Ratio[float | None]


    class Noise(tuple[HostNoise, ...]):
        """Every host."""

        __slots__ = ()


    def _collect(asking):
        hosts = sorted({extent.host for extent in asking.extents})
        return lambda headline, cards: Noise(
            HostNoise(host=host, loud_ms=5_400_000, since_ms=None, share=1 / 3) for host in hosts
        )


    def _text(report, style, hours):
        rows = [[style.name(row.host), hours.of(row.loud_ms)] for row in report[Noise]]
        yield Table(columns=[TableColumn(title="host", left=True), TableColumn(title="loud hours")], rows=rows)


    FAN_NOISE_SECTION = Section(
        name="fan-noise",
        title="How loud it was",
        model=Noise,
        collect=_collect,
        text=_text,
        csv=Csv(columns(HostNoise), lambda noise, report: map(cells, noise)),
    )
    '''
)


@pytest.fixture(autouse=True)
def new_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a file among those of the sections, and its line into their list."""
    tmp_path.joinpath("fan_noise.py").write_text(SECTION, encoding="utf-8")
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    monkeypatch.setattr(sections, "LISTED", {**sections.LISTED, "fan-noise": sections.Listed("fan_noise")})
    yield
    section_list.section_named.cache_clear()
    sys.modules.pop("gua.report.sections.fan_noise", None)


@pytest.fixture
def report() -> Report:
    asked = ReportRequest(now_ms=UNTIL_MS, since="2d", sections=frozenset(section_list.choose_sections(["fan-noise"])))
    return collect(lab(), asked)


def test_it_is_named_with_the_others_and_shown_where_it_is_chosen() -> None:
    assert section_list.section_names()[-1] == "fan-noise"
    assert "fan-noise" in section_list.choose_sections(["all"])
    assert "fan-noise" not in section_list.default_sections()
    options = get_type_hints(importlib.reload(output_options).OutputOptions, include_extras=True)
    option = options["sections"].__metadata__[0]
    assert "notices, fan-noise, or all" in option.help


def test_text_and_markdown_have_it(report: Report) -> None:
    assert "21. How loud it was\n  host" in render_text(report, Style(width=80))
    assert "gpu-1" in render_text(report, Style(width=20)).partition("How loud it was")[2]
    assert "## 21. How loud it was\n\n| host | loud hours |" in render_markdown(report)


def test_the_page_has_it(report: Report) -> None:
    page = render_html(report)
    assert '<section id="fan-noise" aria-labelledby="fan-noise-title">' in page
    assert '<th scope="row"><bdi>gpu-1</bdi></th><td class="n">1.5</td>' in page


def test_json_and_csv_are_made_of_its_fields(report: Report) -> None:
    made = json.loads(render_json(report))
    assert made["sections"] == ["fan-noise"]
    assert made["fan_noise"][0] == {"host": "gpu-1", "loud_hours": 1.5, "since": None, "share": 0.333333}
    header, *rows = csv.reader(io.StringIO(render_csv(report, "fan-noise"), newline=""))
    assert header == ["host", "loud_hours", "since", "share"]
    assert rows[0] == ["gpu-1", "1.5", "", str(1 / 3)]


def test_a_report_that_has_nothing_of_it_leaves_it_out(report: Report) -> None:
    nothing = replace(report, models={})
    assert "How loud" not in render_text(nothing, Style(width=80))
    assert json.loads(render_json(nothing))["fan_noise"] == []
    assert render_csv(nothing, "fan-noise").count("\r\n") == 1


def test_it_stands_beside_all_others() -> None:
    noise = importlib.import_module("gua.report.sections.fan_noise")
    whole = having(week_report(), noise.Noise((noise.HostNoise(host="gpu-1", loud_ms=1, since_ms=None, share=None),)))
    assert render_text(whole, Style(width=80)).count("How loud it was") == 1
