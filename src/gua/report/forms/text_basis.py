"""The basis lines: how to read the report and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.kit.basis import evidence, meanings
from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.model import Report


def basis(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what the words mean, then what the numbers were made of."""
    yield style.title("Basis")
    for label, text in meanings(report):
        yield from style.term(label, text)
    yield ""
    for label, text in evidence(report, style, hours):
        yield from style.term(label, text)
