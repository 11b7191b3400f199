"""Hours of the week: how much of each was idle-held, a column a weekday."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.figures import NONE, HourFormat
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.calendar.model import Week
from gua.report.sections.calendar.time_of_day import legend
from gua.report.states import IDLE_HELD, share

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADE_WIDTH: Final = 1
_HOURS: Final = 24


def week(report: Report, _style: Style, _hours: HourFormat) -> Iterator[Part]:
    """Yield the idle-held share of every hour of the week, a line an hour."""
    yield _SAYS
    found = _by_hour(report)
    yield Table(
        columns=[TableColumn(title="hour", left=True), *(TableColumn(title=day) for day in WEEKDAYS)],
        rows=[
            [f"{hour:02d}-{(hour + 1) % _HOURS:02d}", *(whole(found.get((day, hour))) for day in range(len(WEEKDAYS)))]
            for hour in range(_HOURS)
        ],
    )


_SAYS: Final = "idle-held in % of what was observed in the hour; other states with --csv week or --json"


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, each number with a shade."""
    if style.width < STACKED_BELOW:
        yield from week(report, style, hours)
        return
    yield f"{_SAYS}; {legend(style)}"
    found = _by_hour(report)
    yield Drawn("  hour   " + "  ".join(f"{day:>5}" for day in WEEKDAYS))
    for hour in range(_HOURS):
        shown = []
        for day in range(len(WEEKDAYS)):
            part = found.get((day, hour))
            shown.append(f"{style.paint(IDLE_HELD, style.shade(part, _SHADE_WIDTH))}{whole(part):>4}")
        yield Drawn((f"  {hour:02d}-{(hour + 1) % _HOURS:02d}  " + "  ".join(shown)).rstrip())


def whole(part: float | None) -> str:
    """Return a share in whole percent: ``<1`` for what is no zero, ``>99`` for what is not all."""
    if part is None:
        return NONE
    rounded = round(part * 100)
    if rounded == 0 and part > 0:
        return "<1"
    return ">99" if rounded == 100 and part < 1 else str(rounded)


def _by_hour(report: Report) -> dict[tuple[int, int], float | None]:
    return {(one.weekday, one.hour): share(one.states, IDLE_HELD) for one in report[Week]}
