"""The head of the screen: what makes the report doubtful, and which time, hosts and GPUs it is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.core.plaintext import cells
from gua.report.forms.text_heading import whereabouts
from gua.report.forms.warnings import warnings
from gua.report.kit.basis import at, chosen, length
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.style import Style
from gua.report.model import Report

MOST_WARNINGS: Final = 3
MOST_BRIEFLY: Final = 2
_MUCH: Final = 0.01  # of the window


def heading(report: Report, style: Style, hours: HourFormat, *, brief: bool) -> Iterator[str]:
    """Yield the warnings, the window, and the GPUs."""
    for text in _warnings(report, style, hours, MOST_BRIEFLY if brief else MOST_WARNINGS):
        for line in style.wrap(f"! {text}", indent=0, hanging=2):
            yield style.paint("warning", line)
    yield from style.wrap(window(report), indent=0)
    yield from style.wrap(whereabouts(report, style), indent=0)
    if report.filters:
        yield from style.wrap(f"only {chosen(report, style)}", indent=0)


def _warnings(report: Report, style: Style, hours: HourFormat, most: int) -> Iterator[str]:
    """Yield the warnings; of one that takes more than a line what is wrong, without what follows from it."""
    every = list(warnings(report, style, hours, says_since=True))
    shown = every if len(every) <= most else every[: most - 1]
    for text in shown:
        yield text if cells(text) + 2 <= style.width else text.partition(": ")[0]
    if rest := len(every) - len(shown):
        yield f"and {plural(rest, 'more warning')}: --full has them"


def window(report: Report) -> str:
    """Return which time the report is about, or what of it is recorded where that is much less."""
    chosen, zone = report.window, report.window.timezone
    since_ms, until_ms = report.coverage.effective_since_ms, recorded_until_ms(report)
    if since_ms is None or since_ms - chosen.since_ms < _much_ms(report):
        since_ms = chosen.since_ms
    whole = f"GPU usage of {length(until_ms - since_ms)}"
    if (since_ms, until_ms) == (chosen.since_ms, chosen.until_ms):
        return f"{whole}: {at(since_ms, chosen)} to {at(until_ms, chosen)} {zone}"
    end = "" if report.ends_now else f" to {at(until_ms, chosen)}"
    return f"{whole}, recorded since {at(since_ms, chosen)}{end} {zone}"


def recorded_until_ms(report: Report) -> int:
    """Return when the window ends (Unix ms), or its recording, where that ended much earlier."""
    until_ms, recorded_ms = report.window.until_ms, report.coverage.effective_until_ms
    is_over = recorded_ms is not None and not report.ends_now and until_ms - recorded_ms >= _much_ms(report)
    return recorded_ms if is_over and recorded_ms is not None else until_ms


def _much_ms(report: Report) -> float:
    return _MUCH * (report.window.until_ms - report.window.since_ms)
