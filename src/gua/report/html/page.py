"""The whole page: one file, no script, nothing that it would have to fetch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from gua.report import sections
from gua.report.figures import HourFormat
from gua.report.html.bars import patterns
from gua.report.html.basis import basis, heading, title
from gua.report.html.breakdown import cards, groups
from gua.report.html.costs import energy, money
from gua.report.html.headline import headline, idle_capacity
from gua.report.html.markup import Markup, join, tag
from gua.report.html.now import now
from gua.report.html.streaks import contention, streaks, what_if
from gua.report.html.timeline import timeline
from gua.report.html.times import before, days, time_of_day, week
from gua.report.html.who import who
from gua.report.model import Report
from gua.report.text.render import SECTIONS

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Section = Callable[[Report, HourFormat], Markup | None]
_SECTIONS: Final[Mapping[str, Section]] = MappingProxyType(
    {
        sections.HEADLINE: headline,
        sections.NOW: now,
        sections.IDLE_CAPACITY: idle_capacity,
        sections.GROUPS: groups,
        sections.CARDS: cards,
        sections.WHO: who,
        sections.STREAKS: streaks,
        sections.WHAT_IF: what_if,
        sections.CONTENTION: contention,
        sections.MONEY: money,
        sections.ENERGY: energy,
        sections.TIME_OF_DAY: time_of_day,
        sections.WEEK: week,
        sections.DAYS: days,
        sections.BEFORE: before,
        sections.TIMELINE: timeline,
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
