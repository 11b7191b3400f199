"""The report as text: the sections asked for, then what they rest on. Every bar has its number."""

from __future__ import annotations

from collections.abc import Container, Iterator

from gua.report.forms.text_basis import basis
from gua.report.forms.text_heading import heading
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import draw
from gua.report.model import Report
from gua.report.section import AnySection
from gua.report.section_list import is_part_of, section_named, section_numbers


def render_text(report: Report, style: Style, *, with_basis: bool = True) -> str:
    """Return the report for a terminal or a file, no line wider than the style's width."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = ["\n".join(heading(report, style, hours))]
    blocks += ["\n".join(section_lines(*one, report, style, hours)) for one in numbered(report)]
    if with_basis:
        blocks.append("\n".join(basis(report, style, hours)))
    return "\n\n".join(blocks) + "\n"


def numbered(report: Report, *, without: Container[str] = ()) -> Iterator[tuple[str, AnySection]]:
    """Yield the sections that the report has, each with its number, which one below that it is part of lacks."""
    before: set[str] = set()
    for section in (section_named(name) for name in report.sections if name not in without):
        if section.is_shown(report):
            yield "  " if is_part_of(section.name, before) else f"{section_numbers()[section.name]}.", section
            before.add(section.name)


def section_lines(mark: str, section: AnySection, report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the lines of a section below its title, which begins with a mark."""
    for place, line in enumerate(style.wrap(section.titled(report), indent=len(mark) + 1)):
        yield style.title(line if place else f"{mark} {line.lstrip()}")
    for part in (section.drawn or section.text)(report, style, hours):
        yield from draw(part, style)
