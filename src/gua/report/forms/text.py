"""The report as text: the sections asked for, then what they rest on. Every bar has its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gua.report import section_names
from gua.report.forms.text_basis import basis
from gua.report.forms.text_heading import heading
from gua.report.kit.basis import moment
from gua.report.kit.draw import draw
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import Body
from gua.report.model import Report
from gua.report.sections.calendar import time_of_day, week
from gua.report.sections.calendar.days import days
from gua.report.sections.calendar.previous import before
from gua.report.sections.cards import text as cards
from gua.report.sections.contention.text import contention
from gua.report.sections.energy import text as energy
from gua.report.sections.groups import text as groups
from gua.report.sections.headline import idle_capacity
from gua.report.sections.headline import text as headline
from gua.report.sections.money.text import money
from gua.report.sections.now import text as now
from gua.report.sections.streaks.text import streaks
from gua.report.sections.streaks.what_if import what_if
from gua.report.sections.timeline import text as timeline
from gua.report.sections.usage import text as usage


def _always(_report: Report) -> bool:
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section: its title, what it says, its own form for text where it has one, and whether there is anything."""

    title: Callable[[Report], str]
    body: Body
    drawn: Body | None = None
    has: Callable[[Report], bool] = _always


def _zone(title: str) -> Callable[[Report], str]:
    return lambda report: f"{title} ({report.window.timezone})"


def _named(title: str) -> Callable[[Report], str]:
    return lambda _report: title


def _now_title(report: Report) -> str:
    return f"What to do now (as of {moment(report.window.until_ms, report.window.timezone)})"


def _has_streaks(report: Report) -> bool:
    return report.streaks is not None


SECTIONS: Final = {
    section_names.HEADLINE: Section(
        title=_named("Where the GPU-hours went"), body=headline.headline, drawn=headline.drawn
    ),
    section_names.NOW: Section(
        title=_now_title,
        body=now.now,
        has=lambda report: report.now is not None or report.streaks_skipped is not None,
    ),
    section_names.IDLE_CAPACITY: Section(
        title=_named("Idle capacity"), body=idle_capacity.idle_capacity, drawn=idle_capacity.drawn
    ),
    section_names.GROUPS: Section(
        title=groups.title, body=groups.groups, drawn=groups.drawn, has=lambda report: bool(report.rollups)
    ),
    section_names.CARDS: Section(title=_named("Per card"), body=cards.cards, drawn=cards.drawn),
    section_names.WHO: Section(title=_named("Top identities"), body=usage.who, drawn=usage.drawn),
    section_names.STREAKS: Section(title=_named("Idle streaks"), body=streaks, has=_has_streaks),
    section_names.WHAT_IF: Section(title=_named("What if idle cards were reclaimed"), body=what_if, has=_has_streaks),
    section_names.CONTENTION: Section(
        title=_named("Contention"), body=contention, has=lambda report: bool(report.contention)
    ),
    section_names.MONEY: Section(title=_named("Money"), body=money, has=lambda report: report.money is not None),
    section_names.ENERGY: Section(
        title=_named("Energy"), body=energy.energy, has=lambda report: report.energy is not None
    ),
    section_names.TIME_OF_DAY: Section(
        title=_zone("Time of day"), body=time_of_day.time_of_day, drawn=time_of_day.drawn
    ),
    section_names.WEEK: Section(
        title=_zone("Hours of the week"), body=week.week, drawn=week.drawn, has=lambda report: bool(report.week)
    ),
    section_names.DAYS: Section(title=_zone("Days"), body=days, has=lambda report: bool(report.days)),
    section_names.BEFORE: Section(
        title=_named("This window and the one before"), body=before, has=lambda report: report.before is not None
    ),
    section_names.TIMELINE: Section(
        title=_zone("Timeline"),
        body=timeline.timeline,
        drawn=timeline.drawn,
        has=lambda report: report.timeline is not None,
    ),
}


def render_text(report: Report, style: Style) -> str:
    """Return the report for a terminal or a file, no line wider than the style's width."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = ["\n".join(heading(report, style, hours))]
    blocks += ["\n".join(_section(*one, report, style, hours)) for one in numbered(report)]
    blocks.append("\n".join(basis(report, style, hours)))
    return "\n\n".join(blocks) + "\n"


def numbered(report: Report) -> Iterator[tuple[str, Section]]:
    """Yield the sections that the report has, each with its mark; cards belong to the groups before them."""
    number = 0
    for name, section in SECTIONS.items():
        if name not in report.sections or not section.has(report):
            continue
        if name == section_names.CARDS and section_names.GROUPS in report.sections and report.rollups:
            yield "  ", section
            continue
        number += 1
        yield f"{number}.", section


def _section(mark: str, section: Section, report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    for place, line in enumerate(style.wrap(section.title(report), indent=len(mark) + 1)):
        yield style.title(line if place else f"{mark} {line.lstrip()}")
    for part in (section.drawn or section.body)(report, style, hours):
        yield from draw(part, style)
