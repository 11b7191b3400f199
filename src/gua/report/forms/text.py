"""The report as text: the sections asked for, then what they rest on. Every bar has its number."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.forms.text_basis import basis
from gua.report.forms.text_heading import heading
from gua.report.kit.draw import draw
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.section import AnySection
from gua.report.section_list import sections


def render_text(report: Report, style: Style) -> str:
    """Return the report for a terminal or a file, no line wider than the style's width."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = ["\n".join(heading(report, style, hours))]
    blocks += ["\n".join(_section(*one, report, style, hours)) for one in numbered(report)]
    blocks.append("\n".join(basis(report, style, hours)))
    return "\n\n".join(blocks) + "\n"


def numbered(report: Report) -> Iterator[tuple[str, AnySection]]:
    """Yield the sections that the report has, each with its mark; one that is part of another has no number."""
    shown = [section for section in sections() if section.is_shown(report)]
    names = {section.name for section in shown}
    number = 0
    for section in shown:
        number += section.part_of not in names
        yield "  " if section.part_of in names else f"{number}.", section


def _section(mark: str, section: AnySection, report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    for place, line in enumerate(style.wrap(section.titled(report), indent=len(mark) + 1)):
        yield style.title(line if place else f"{mark} {line.lstrip()}")
    for part in (section.drawn or section.text)(report, style, hours):
        yield from draw(part, style)
