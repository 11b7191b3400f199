"""What the report is about, what makes it doubtful, and what its numbers rest on: the words of the text form."""

from __future__ import annotations

from typing import Final

from gua.report.forms.first_screen.heading import window
from gua.report.forms.text_heading import whereabouts
from gua.report.forms.warnings import warnings
from gua.report.kit.basis import chosen, evidence, meanings
from gua.report.kit.figures import HourFormat
from gua.report.kit.html import CLASSES, Markup, join, swatch, tag
from gua.report.kit.style import WIDEST, Style
from gua.report.model import Report

STYLE: Final = Style(width=WIDEST, times=5)


def heading(report: Report, hours: HourFormat) -> Markup:
    """Return the head of the page with its warnings."""
    doubts = [tag("li", words) for words in warnings(report, STYLE, hours)]
    return tag(
        "header",
        tag("h1", "GPU usage report"),
        tag("p", window(report), class_="window"),
        tag("p", whereabouts(report, STYLE)),
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
