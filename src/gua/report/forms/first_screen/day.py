"""The hours of the day: a strip of 24 columns for each state, as high as its share of the hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import cells
from gua.report.kit.figures import percents
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.calendar import TimeOfDay
from gua.report.states import STATES, share

_HOURS: Final = 24
_LABEL: Final = max(map(len, STATES))
_EVERY: Final = 6
_STRIP_FROM: Final = _HOURS + 4
_Row = tuple[str, Sequence[float], str]


def day(report: Report, style: Style) -> Iterator[str]:
    """Yield the hours, then each state that occurred with the hour in which it is most.

    Its name and that hour stand beside the strip where they fit, and above it where they do not.
    """
    hours = report.get(TimeOfDay)
    if hours is None:
        return
    rows = [row for row in (_row(hours, state) for state in STATES) if any(row[1])]
    if not rows:
        return
    zone = report.window.timezone
    for columns in (2, 1):
        before = 2 + _LABEL + 2 + columns * _HOURS + 2
        if before + max(cells(text) for text in (zone, *(told for _, _, told in rows))) <= style.width:
            yield f"  {'By hour':{_LABEL}}  {_marks(columns)}  {zone}"
            for state, parts, told in rows:
                strip = _strip(parts, style, columns)
                yield f"  {style.paint(state, f'{state:<{_LABEL}}')}  {style.paint(state, strip)}  {told}"
            return
    yield from style.wrap(f"By hour, {zone}:", indent=0)
    if style.width >= _STRIP_FROM:
        yield f"    {_marks(1)}".rstrip()
    for state, parts, told in rows:
        yield from (style.state(line, state) for line in style.wrap(f"{state}, {told}"))
        if style.width >= _STRIP_FROM:
            yield f"    {style.paint(state, _strip(parts, style, 1).rstrip())}"


def _row(hours: TimeOfDay, state: str) -> _Row:
    """Return a state, its share of each hour, and the hour in which it is most, written as in the section."""
    parts = [share(hour.states, state) or 0 for hour in hours]
    most = max(range(_HOURS), key=parts.__getitem__)
    written = percents([hours[most].states[one].gpu_ms for one in STATES])[STATES.index(state)]
    return state, parts, f"most {most:02d}: {written} %"


def _marks(columns: int) -> str:
    return "".join(f"{hour:<{_EVERY * columns}}" for hour in range(0, _HOURS, _EVERY))


def _strip(parts: Sequence[float], style: Style, columns: int) -> str:
    return "".join(style.height(part) * columns for part in parts)
