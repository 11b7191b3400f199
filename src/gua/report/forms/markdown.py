"""The report as Markdown for chat and mail: sections as tables, names escaped against markup and mentions."""

import re
from collections.abc import Iterator
from typing import Final

from gua.core.plaintext import safe
from gua.report.forms.text import numbered, sentences, warnings
from gua.report.kit.basis import evidence, meanings
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Heading, Part, Table
from gua.report.kit.words import recoveries
from gua.report.model import Report

_WIDE: Final = Style(width=1_000_000)
# Inline markup of CommonMark and its dialects; parentheses only matter beside these.
_MARKUP: Final = re.compile(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_BEGIN: Final = re.compile(r"^([-+=#]+|[0-9]+[.)])(?=\s|$)")
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ZERO_WIDTH: Final = "\u200b"
_REFERENCE: Final = re.compile(r"(?i)@|#(?=[0-9])|(?<![a-z0-9])(?:https?|ftp|mailto|www)(?=[:.])")


def render_markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown: the requested sections and the basis."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    return "\n\n".join(_blocks(report, hours)) + "\n"


def _blocks(report: Report, hours: HourFormat) -> Iterator[str]:
    title, *rest = sentences(report, _WIDE)
    yield f"# {escape(title)}"
    yield from map(paragraph, rest)
    for warning in (*warnings(report, _WIDE, hours), *recoveries(report, _WIDE)):
        yield f"> **Note:** {escape(warning)}"
    for mark, section in numbered(report):
        yield f"## {f'{mark} ' if mark.strip() else ''}{escape(section.titled(report))}"
        for part in section.text(report, _WIDE, hours):
            yield from _drawn(part)
    yield "## Basis"
    yield "\n".join(f"- **{escape(label)}**: {escape(text)}" for label, text in meanings(report))
    yield "\n".join(f"- **{escape(label)}**: {escape(text)}" for label, text in evidence(report, _WIDE, hours))


def _drawn(part: Part) -> Iterator[str]:
    match part:
        case str():
            yield paragraph(part)
        case Heading():
            yield f"### {escape(part.text)}"
        case Drawn():
            yield paragraph(part.line)
        case Table() if part.rows:
            titles = [escape(column.title) for column in part.columns]
            sides = [":--" if column.left else "--:" for column in part.columns]
            rows = (titles, sides, *(map(escape, row) for row in part.rows))
            yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
            if part.notes:
                yield paragraph("; ".join(f"{title}: {note}" for title, note in part.notes))


def escape(text: str) -> str:
    """Return text as Markdown that renders literally: no markup, HTML, link or mention.

    A zero-width space breaks ``@``, ``#1`` and bare URLs, as no escape works in every chat.
    """
    plain = "".join(_ENTITIES.get(character, character) for character in safe(text))
    marked = _MARKUP.sub(r"\\\1", plain)
    return _REFERENCE.sub(lambda found: found[0] + _ZERO_WIDTH, marked)


def paragraph(text: str) -> str:
    """Return text as a paragraph that cannot start a heading, list or rule."""
    return _BEGIN.sub(lambda found: f"{found[1][:-1]}\\{found[1][-1]}", escape(text))
