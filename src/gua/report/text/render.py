"""The report as text: the sections asked for, then what they rest on. Every bar has its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gua.report import sections
from gua.report.basis import moment
from gua.report.figures import HourFormat
from gua.report.model import Report
from gua.report.style import Style
from gua.report.tables import Body
from gua.report.text import (
    cards,
    energy,
    groups,
    headline,
    idle_capacity,
    now,
    time_of_day,
    timeline,
    week,
    who,
)
from gua.report.text.basis import basis
from gua.report.text.before import before
from gua.report.text.contention import contention
from gua.report.text.days import days
from gua.report.text.draw import draw
from gua.report.text.heading import heading
from gua.report.text.money import money
from gua.report.text.streaks import streaks
from gua.report.text.what_if import what_if


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
    sections.HEADLINE: Section(title=_named("Where the GPU-hours went"), body=headline.headline, drawn=headline.drawn),
    sections.NOW: Section(
        title=_now_title,
        body=now.now,
        has=lambda report: report.now is not None or report.streaks_skipped is not None,
    ),
    sections.IDLE_CAPACITY: Section(
        title=_named("Idle capacity"), body=idle_capacity.idle_capacity, drawn=idle_capacity.drawn
    ),
    sections.GROUPS: Section(
        title=groups.title, body=groups.groups, drawn=groups.drawn, has=lambda report: bool(report.rollups)
    ),
    sections.CARDS: Section(title=_named("Per card"), body=cards.cards, drawn=cards.drawn),
    sections.WHO: Section(title=_named("Top identities"), body=who.who, drawn=who.drawn),
    sections.STREAKS: Section(title=_named("Idle streaks"), body=streaks, has=_has_streaks),
    sections.WHAT_IF: Section(title=_named("What if idle cards were reclaimed"), body=what_if, has=_has_streaks),
    sections.CONTENTION: Section(
        title=_named("Contention"), body=contention, has=lambda report: bool(report.contention)
    ),
    sections.MONEY: Section(title=_named("Money"), body=money, has=lambda report: report.money is not None),
    sections.ENERGY: Section(title=_named("Energy"), body=energy.energy, has=lambda report: report.energy is not None),
    sections.TIME_OF_DAY: Section(title=_zone("Time of day"), body=time_of_day.time_of_day, drawn=time_of_day.drawn),
    sections.WEEK: Section(
        title=_zone("Hours of the week"), body=week.week, drawn=week.drawn, has=lambda report: bool(report.week)
    ),
    sections.DAYS: Section(title=_zone("Days"), body=days, has=lambda report: bool(report.days)),
    sections.BEFORE: Section(
        title=_named("This window and the one before"), body=before, has=lambda report: report.before is not None
    ),
    sections.TIMELINE: Section(
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
        if name == sections.CARDS and sections.GROUPS in report.sections and report.rollups:
            yield "  ", section
            continue
        number += 1
        yield f"{number}.", section


def _section(mark: str, section: Section, report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    for place, line in enumerate(style.wrap(section.title(report), indent=len(mark) + 1)):
        yield style.title(line if place else f"{mark} {line.lstrip()}")
    for part in (section.drawn or section.body)(report, style, hours):
        yield from draw(part, style)
