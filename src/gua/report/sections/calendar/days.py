"""Days: each with its split, so that a trend is seen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from gua.report.kit.figures import HourFormat, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.calendar.model import Days
from gua.report.sections.calendar.week import WEEKDAYS
from gua.report.states import STATES, observed_ms

_COLUMNS: Final = (
    TableColumn(title="day", left=True),
    *(TableColumn(title=state) for state in STATES),
    TableColumn(title="GPU-hours", leaves=2),
    TableColumn(title="day's hours", leaves=1),
)
SECONDS_PER_HOUR: Final = 3600


def days(report: Report, _style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a line a day of the window's zone; a day in which the clock changed has 23 or 25 hours."""
    yield "% of what was observed on the day"
    yield Table(
        columns=_COLUMNS,
        rows=[
            [
                f"{one.date} {WEEKDAYS[date.fromisoformat(one.date).weekday()]}",
                *percents([one.states[state].gpu_ms for state in STATES]),
                hours.of(observed_ms(one.states)),
                f"{one.seconds / SECONDS_PER_HOUR:.2f}".rstrip("0").rstrip("."),
            ]
            for one in report[Days]
        ],
        notes=[("day's hours", "how much of it is in the window; 23 or 25 where the clock changed")],
        bars=[one.states for one in report[Days]],
    )
