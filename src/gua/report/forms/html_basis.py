"""What the report is about, what makes it doubtful, and what its numbers rest on: the words of the text form."""

from __future__ import annotations

from typing import Final

from gua.report.forms.warnings import warnings
from gua.report.kit.bars import CLASSES, swatch
from gua.report.kit.basis import chosen, evidence, length, meanings, moment
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.markup import Markup, join, tag
from gua.report.kit.style import WIDEST, Style
from gua.report.model import Report
from gua.report.window import names

STYLE: Final = Style(width=WIDEST)


def title(report: Report) -> str:
    """Return the page's title in one line."""
    window = report.window
    return (
        f"GPU usage from {moment(window.since_ms, window.timezone)} to {moment(window.until_ms, window.timezone)} "
        f"{window.timezone}"
    )


def heading(report: Report, hours: HourFormat) -> Markup:
    """Return the head of the page with its warnings."""
    window = report.window
    where = names(STYLE.name(host, 24) for host in report.hosts)
    about = f"{plural(len(report.cards), 'card')} on {plural(len(report.hosts), 'host')}: {where}"
    doubts = [tag("li", words) for words in warnings(report, STYLE, hours)]
    return tag(
        "header",
        tag("h1", "GPU usage report"),
        tag(
            "p",
            f"{moment(window.since_ms, window.timezone)} to {moment(window.until_ms, window.timezone)} "
            f"{window.timezone} ",
            tag("span", f"({length(window.until_ms - window.since_ms)})", class_="quiet"),
            class_="window",
        ),
        tag("p", about),
        tag("p", f"Only {chosen(report, STYLE)}") if report.filters else None,
        tag("ul", *doubts, class_="warnings", aria_label="What makes this report doubtful") if doubts else None,
    )


def basis(report: Report, hours: HourFormat) -> Markup:
    """Return how to read the report and how far to trust it."""
    return tag(
        "div",
        _terms("What the words mean", list(meanings(report))),
        _terms("What the numbers rest on", list(evidence(report, STYLE, hours))),
        class_="two",
    )


def _terms(head: str, terms: list[tuple[str, str]]) -> Markup:
    rows = [
        join([tag("dt", swatch(CLASSES[label]) if label in CLASSES else None, label), tag("dd", words)])
        for label, words in terms
    ]
    return tag("div", tag("h3", head), tag("dl", *rows))
