"""The whole page: one file, no script, nothing that it would have to fetch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from gua.report import section_names
from gua.report.forms.html_basis import basis, heading, title
from gua.report.forms.text import SECTIONS
from gua.report.kit.bars import patterns
from gua.report.kit.figures import HourFormat
from gua.report.kit.markup import Markup, join, tag
from gua.report.model import Report
from gua.report.sections.calendar.html import before, days, time_of_day, week
from gua.report.sections.cards.html import cards, groups
from gua.report.sections.headline.html import headline, idle_capacity
from gua.report.sections.money.html import energy, money
from gua.report.sections.now.html import now
from gua.report.sections.streaks.html import contention, streaks, what_if
from gua.report.sections.timeline.html import timeline
from gua.report.sections.usage.html import who

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Section = Callable[[Report, HourFormat], Markup | None]
_SECTIONS: Final[Mapping[str, Section]] = MappingProxyType(
    {
        section_names.HEADLINE: headline,
        section_names.NOW: now,
        section_names.IDLE_CAPACITY: idle_capacity,
        section_names.GROUPS: groups,
        section_names.CARDS: cards,
        section_names.WHO: who,
        section_names.STREAKS: streaks,
        section_names.WHAT_IF: what_if,
        section_names.CONTENTION: contention,
        section_names.MONEY: money,
        section_names.ENERGY: energy,
        section_names.TIME_OF_DAY: time_of_day,
        section_names.WEEK: week,
        section_names.DAYS: days,
        section_names.BEFORE: before,
        section_names.TIMELINE: timeline,
    }
)
_BASIS: Final = "basis"


def render_html(report: Report) -> str:
    """Return the report as one HTML page: its sections in their order, those without anything to say left out."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    drawn = {
        key: (SECTIONS[key].title(report), body)
        for key, section in _SECTIONS.items()
        if key in report.sections and SECTIONS[key].has(report) and (body := section(report, hours)) is not None
    }
    drawn[_BASIS] = ("Basis", basis(report, hours))
    links = [tag("a", key.replace("-", " "), href=f"#{key}") for key in drawn]
    blocks = [
        tag("section", tag("h2", label, id=f"{key}-title"), body, id=key, aria_labelledby=f"{key}-title")
        for key, (label, body) in drawn.items()
    ]
    page = tag(
        "html",
        _head(report),
        tag(
            "body",
            patterns(),
            tag(
                "main",
                heading(report, hours),
                tag("nav", *links, aria_label="Sections"),
                join(blocks, Markup("\n")),
            ),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _head(report: Report) -> Markup:
    css = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        # Without one, a browser would ask the server that the page came from.
        tag("link", rel="icon", href="data:,"),
        tag("title", title(report)),
        tag("style", Markup(css)),
    )
