"""What the report is about, and what makes it doubtful: said before any number."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.forms.warnings import warnings
from gua.report.kit.basis import at, chosen, length
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.style import Style
from gua.report.kit.words import gpus_in_words, parts
from gua.report.model import Report
from gua.report.window import names


def sentences(report: Report, style: Style) -> Iterator[str]:
    """Yield which time, which cards and hosts, and how they were chosen."""
    window = report.window
    yield (
        f"GPU usage from {at(window.since_ms, window)} to "
        f"{at(window.until_ms, window)} {window.timezone} ({length(window.until_ms - window.since_ms)})"
    )
    yield whereabouts(report, style)
    if report.filters:
        yield f"only {chosen(report, style)}"


def whereabouts(report: Report, style: Style) -> str:
    """Return how many GPUs a report is about, and on which hosts they are."""
    where = names(style.name(host, 24) for host in report.hosts)
    return f"{gpus_in_words(parts(report.cards))} on {plural(len(report.hosts), 'host')}: {where}"


def heading(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what the report is about, and what makes it doubtful."""
    for text in sentences(report, style):
        yield from style.wrap(text, indent=0)
    for text in warnings(report, style, hours):
        for line in style.wrap(f"! {text}", indent=0, hanging=2):
            yield style.paint("warning", line)
