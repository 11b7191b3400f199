"""The whole page: one file, no script, nothing that it would have to fetch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from gua.report.forms.first_screen.heading import window
from gua.report.forms.html_answers import first
from gua.report.forms.html_basis import STYLE, basis, heading
from gua.report.kit.figures import HourFormat
from gua.report.kit.html import Markup, draw_parts, has_figures, join, patterns, tag
from gua.report.kit.tables import Table
from gua.report.model import Report
from gua.report.section import AnySection
from gua.report.section_list import section_named

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_BASIS: Final = "basis"


def render_html(report: Report) -> str:
    """Return the report as one HTML page: its sections in their order, those without anything to say left out."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = [
        one
        for section in map(section_named, report.sections)
        if section.is_shown(report) and (one := _block(section, report, hours))
    ]
    blocks.append(_Block(_BASIS, _BASIS.capitalize(), basis(report, hours)))
    page = tag(
        "html",
        _head(report),
        tag(
            "body",
            patterns(),
            tag(
                "main",
                heading(report, hours),
                first(report, hours),
                tag("nav", *(block.link for block in blocks), aria_label="Sections"),
                join((block.drawn for block in blocks), Markup("\n")),
            ),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


@dataclass(frozen=True, slots=True)
class _Block:
    """A section on the page; one in which no table has a figure is folded: ``nothing`` is what it says instead."""

    key: str
    title: str
    body: Markup
    nothing: str | None = None

    @property
    def link(self) -> Markup:
        """Return what leads to it: its title without what stands in brackets."""
        return tag("a", self.title.partition(" (")[0], href=f"#{self.key}")

    @property
    def drawn(self) -> Markup:
        """Return the section."""
        head = tag("h2", self.title, id=f"{self.key}-title")
        parts: tuple[Markup, ...] = (head, self.body)
        if self.nothing is not None:
            parts = (tag("details", tag("summary", head, tag("span", self.nothing, class_="quiet")), self.body),)
        return tag("section", *parts, id=self.key, aria_labelledby=f"{self.key}-title")


def _block(section: AnySection, report: Report, hours: HourFormat) -> _Block | None:
    title = section.titled(report)
    parts = list(section.text(report, STYLE, hours))
    body = draw_parts(parts, title) if section.html is None else section.html(report, hours)
    has_content = any(isinstance(part, Table) and has_figures(part) for part in parts)
    nothing = None if has_content else next((part for part in parts if isinstance(part, str)), "nothing to show")
    return None if body is None else _Block(section.name, title, body, nothing)


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
        tag("title", window(report)),
        tag("style", Markup(css)),
    )
