"""The whole page: one file, no script, nothing that it would have to fetch."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from gua.report.forms.html_basis import basis, heading, title
from gua.report.kit.bars import patterns
from gua.report.kit.figures import HourFormat
from gua.report.kit.markup import Markup, join, tag
from gua.report.model import Report
from gua.report.section_list import sections

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_BASIS: Final = "basis"


def render_html(report: Report) -> str:
    """Return the report as one HTML page: its sections in their order, those without anything to say left out."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    drawn = {
        section.name: (section.titled(report), body)
        for section in sections()
        if section.is_shown(report) and (body := section.html(report, hours)) is not None
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
