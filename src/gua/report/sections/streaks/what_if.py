"""What a rule that reclaims idle cards would have given back, for a row of limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.figures import NONE, HourFormat, percent, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.streaks.model import FALSE_ALARM_MS, Streaks
from gua.report.sections.streaks.text import unknown
from gua.report.states import IDLE_HELD

_COLUMNS: Final = (
    TableColumn(title="idle for more than", left=True),
    TableColumn(title="GPU-hours back"),
    TableColumn(title="% of idle-held", leaves=1),
    TableColumn(title="reclaims"),
    TableColumn(title="holders"),
    TableColumn(title="false alarms"),
)


def what_if(report: Report, _style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a line a limit: GPU-hours given back, of how many holders, with how many false alarms."""
    found = report[Streaks]
    held_ms = report.headline.states[IDLE_HELD].gpu_ms
    yield (
        "A rule that takes the card from whoever is idle on it for more than a limit, played over this window. "
        f"False alarm: active again within {span(FALSE_ALARM_MS)} after the limit."
    )
    yield Table(
        columns=_COLUMNS,
        rows=[
            [
                span(one.limit_ms),
                hours.of(one.gpu_ms),
                percent(one.gpu_ms / held_ms) if held_ms else NONE,
                f"{one.reclaims:,}",
                f"{one.holders:,}",
                f"{one.false_alarms:,}",
            ]
            for one in found.what_if
        ],
    )
    yield from unknown(report, hours)
