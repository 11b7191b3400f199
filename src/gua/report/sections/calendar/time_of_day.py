"""Time of day: for each hour of the day every state's share, shaded and as a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.figures import HourFormat, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.calendar.model import TimeOfDay
from gua.report.states import STATES, share

_SHADE_WIDTH: Final = 3
_CELL: Final = max(map(len, STATES))
_APART: Final = "   "
_TWO_HALVES_FROM: Final = 118
_SHADE_WORDS: Final = ("below 25", "below 50", "below 75", "75 or more")


def legend(style: Style) -> str:
    """Return what the shades mean."""
    return ", ".join(f"{shade} {words}" for shade, words in zip(style.shades, _SHADE_WORDS, strict=True))


def time_of_day(report: Report, _style: Style, _hours: HourFormat) -> Iterator[Part]:
    """Yield a line an hour."""
    yield "% of what was observed in the hour"
    yield Table(
        columns=[TableColumn(title="hour", left=True), *(TableColumn(title=state) for state in STATES)],
        rows=[[_label(hour), *_parts(report, hour)] for hour in range(len(report[TimeOfDay]))],
        bars=[hour.states for hour in report[TimeOfDay]],
    )


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, each number with a shade, in two halves where there is room."""
    if style.width < STACKED_BELOW:
        yield from time_of_day(report, style, hours)
        return
    yield f"% of what was observed in the hour; {legend(style)}"
    header = "  hour   " + "  ".join(" " * (_CELL - len(state)) + style.paint(state, state) for state in STATES)
    rows = [_hour(report, style, hour) for hour in range(len(report[TimeOfDay]))]
    if style.width < _TWO_HALVES_FROM:
        yield from map(Drawn, (header, *rows))
        return
    half = len(rows) // 2
    yield Drawn(header + _APART + header)
    yield from (Drawn(left + _APART + right) for left, right in zip(rows[:half], rows[half:], strict=True))


def _label(hour: int) -> str:
    return f"{hour:02d}-{(hour + 1) % 24:02d}"


def _parts(report: Report, hour: int) -> list[str]:
    return percents([report[TimeOfDay][hour].states[state].gpu_ms for state in STATES])


def _hour(report: Report, style: Style, hour: int) -> str:
    states = report[TimeOfDay][hour].states
    shown = (
        f"{style.paint(state, style.shade(share(states, state), _SHADE_WIDTH))}{part:>{_CELL - _SHADE_WIDTH}}"
        for state, part in zip(STATES, _parts(report, hour), strict=True)
    )
    return f"  {_label(hour)}  " + "  ".join(shown)
