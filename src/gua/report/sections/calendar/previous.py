"""This window against the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.basis import at, length
from gua.report.kit.figures import HourFormat, percent, percents, points
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.calendar.model import Previous
from gua.report.states import STATES, observed_ms

_COLUMNS: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours", leaves=2),
    TableColumn(title="share %"),
    TableColumn(title="before", leaves=1),
    TableColumn(title="before %"),
    TableColumn(title="change, points"),
)


def previous(report: Report, _style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield each state's share now and then, and by how many points of a hundred it changed."""
    found = report[Previous]
    yield (
        f"Against the {length(found.until_ms - found.since_ms)} before: {at(found.since_ms, report.window)} to "
        f"{at(found.until_ms, report.window)} {report.window.timezone}."
    )
    if not observed_ms(found.states):
        yield "Nothing of that time was observed."
        return
    if found.coverage is not None:
        yield (
            f"observed {percent(found.coverage.ratio)} % of what was expected then, "
            f"{percent(report.coverage.ratio)} % now"
        )
    here = [report.headline.states[state].gpu_ms for state in STATES]
    there = [found.states[state].gpu_ms for state in STATES]
    columns = (
        STATES,
        hours.parts(here),
        percents(here),
        hours.parts(there),
        percents(there),
        points(here, there),
    )
    yield Table(columns=_COLUMNS, rows=[list(row) for row in zip(*columns, strict=True)])
