"""The hours of the day: a strip of 24 columns for each state, as high as its share of the hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.figures import percent
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.calendar.model import TimeOfDay
from gua.report.states import STATES, share

_HOURS: Final = 24
_LABEL: Final = max(map(len, STATES))
_EVERY: Final = 6
_BESIDE_FROM: Final = 60
_WIDE_FROM: Final = 80
_STRIP_FROM: Final = _HOURS + 4


def day(report: Report, style: Style) -> Iterator[str]:
    """Yield the hours, then each state that occurred with the hour in which it is most."""
    hours = report.get(TimeOfDay)
    if hours is None or not any(share(hour.states, state) for hour in hours for state in STATES):
        return
    beside = style.width >= _BESIDE_FROM
    columns = 2 if style.width >= _WIDE_FROM else 1
    marks = "".join(f"{hour:<{_EVERY * columns}}" for hour in range(0, _HOURS, _EVERY))
    zone = report.window.timezone
    if beside:
        yield f"  {'By hour':{_LABEL}}  {marks}  {zone}"
    else:
        yield from style.wrap(f"By hour, {zone}:", indent=0)
        if style.width >= _STRIP_FROM:
            yield f"    {marks}".rstrip()
    for state in STATES:
        parts = [share(hour.states, state) or 0 for hour in hours]
        if not any(parts):
            continue
        most = max(range(_HOURS), key=parts.__getitem__)
        told = f"most {most:02d}-{(most + 1) % _HOURS:02d}: {percent(parts[most])} %"
        strip = "".join(style.height(part) * columns for part in parts)
        if beside:
            yield f"  {style.paint(state, f'{state:<{_LABEL}}')}  {style.paint(state, strip)}  {told}"
            continue
        yield from (style.state(line, state) for line in style.wrap(f"{state}, {told}"))
        if style.width >= _STRIP_FROM:
            yield f"    {style.paint(state, strip.rstrip())}"
