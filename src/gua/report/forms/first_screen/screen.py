"""The default text: a screen of answers, each in as few lines as it takes; the sections have the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from gua.report.answers import answers
from gua.report.forms.first_screen.ask import MOST_ASKED, MOST_BRIEFLY, whom_to_ask
from gua.report.forms.first_screen.basis import basis
from gua.report.forms.first_screen.cards import cards
from gua.report.forms.first_screen.day import day
from gua.report.forms.first_screen.free import free
from gua.report.forms.first_screen.heading import heading
from gua.report.forms.first_screen.idle_seconds import idle_seconds
from gua.report.forms.first_screen.more import Steps, more, price_step
from gua.report.forms.first_screen.parts import SECTIONS
from gua.report.forms.first_screen.verdict import verdict
from gua.report.forms.text import numbered, section_lines
from gua.report.forms.text_basis import basis as whole_basis
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import draw
from gua.report.model import Report
from gua.report.section_list import section_named
from gua.report.sections.allocation import promised_work
from gua.report.sections.groups import Groupings
from gua.report.sections.usage import usage_by
from gua.report.sections.usage_rows import Usage

LINES: Final = 50
LINES_BRIEFLY: Final = 24
_SCREEN_WIDTH: Final = 80


def render_first_screen(
    report: Report, style: Style, steps: Steps, *, brief: bool = False, with_basis: bool = False
) -> str:
    """Return the answers of a report, within the style's width, and below them what else was asked for.

    Where that would be more than a screen fewer owners are named; less than 80 columns take as many lines as they need.
    """
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    told = answers(report)
    head = _block(heading(report, style, hours, brief=brief))
    active = () if brief else idle_seconds(report, told, style, hours, steps)
    said = _block(chain(verdict(report, told, style, hours), active, price_step(report, style, steps)))
    free_now = _block(free(report, told, style, brief=brief))
    below = [] if brief else [_block(cards(report, style, hours)), _block(day(report, style))]
    last = whole_basis(report, style, hours) if with_basis else () if brief else basis(report, style)
    end = _block(chain(last, more(report, style, steps)))
    shown: list[str] = []
    for most in range(MOST_BRIEFLY if brief else MOST_ASKED, 0, -1):
        asked = _block(whom_to_ask(report, told, style, hours, most=most))
        shown = [_block([head, said]), _block([asked, free_now])] if brief else [head, said, asked, free_now, *below]
        if style.width < _SCREEN_WIDTH or _joined([*shown, end]).count("\n") <= (LINES_BRIEFLY if brief else LINES):
            break
    return _joined([*shown, *map(_block, _asked(report, style, hours)), end])


def _block(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip("\n")


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks)) + "\n"


def _asked(report: Report, style: Style, hours: HourFormat) -> Iterator[Iterable[str]]:
    """Yield what cards and processes are added up by, and the sections that the answers are not made of."""
    groupings = tuple(one for one in report.get(Groupings) or () if one.by in report.groups_by)
    if groupings:
        models = {**report.models, Groupings: Groupings(groupings)}
        yield section_lines("  ", section_named("groups"), replace(report, models=models), style, hours)
    if (usage := report.get(Usage)) and usage.usage_by:
        yield chain.from_iterable(draw(part, style) for part in usage_by(report, style, hours))
    if work := [*promised_work(report, style, hours)]:
        yield chain.from_iterable(draw(part, style) for part in work)
    for mark, section in numbered(report, without=SECTIONS):
        yield section_lines(mark, section, report, style, hours)
