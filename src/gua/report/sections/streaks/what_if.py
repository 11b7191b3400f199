"""What a rule that reclaims idle cards would have given back, for a row of limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import NONE, HourFormat, percent, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.streaks.model import FALSE_ALARM_MS, Streaks, WhatIf, WhatIfEmpty
from gua.report.sections.streaks.text import unknown
from gua.report.states import IDLE_HELD

_REST: Final = (TableColumn(title="reclaims"), TableColumn(title="holders"), TableColumn(title="false alarms"))
_EMPTY_REST: Final = (_REST[0], TableColumn(title="allocations"), _REST[2])


def what_if(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a line a limit: GPU-hours given back, of how many holders, with how many false alarms."""
    found = report[Streaks]
    amounts = Amounts.of_report(report)
    held_ms = report.headline.states[IDLE_HELD].gpu_ms
    yield (
        "A rule that takes the card from whoever is idle on it for more than a limit, played over this window. "
        f"False alarm: active again within {span(FALSE_ALARM_MS)} after the limit."
    )
    yield Table(
        columns=[*_limit("idle", amounts, style), TableColumn(title="% of idle-held", leaves=1), *_REST],
        rows=[
            [
                *_given_back(one, amounts, hours),
                percent(one.gpu_ms / held_ms) if held_ms else NONE,
                f"{one.reclaims:,}",
                f"{one.holders:,}",
                f"{one.false_alarms:,}",
            ]
            for one in found.what_if
        ],
    )
    yield from unknown(report, hours)
    if not found.what_if_empty:
        return
    yield Heading("What if empty allocations were taken back")
    yield (
        "A rule that takes a card from an allocation as soon as nobody has been there for more than a limit, played "
        f"over this window. False alarm: its owner came within {span(FALSE_ALARM_MS)} after the limit."
    )
    yield Table(
        columns=[*_limit("empty", amounts, style), *_EMPTY_REST],
        rows=[
            [
                *_given_back(one, amounts, hours),
                f"{one.reclaims:,}",
                f"{one.allocations:,}",
                f"{one.false_alarms:,}",
            ]
            for one in found.what_if_empty
        ],
    )


def _limit(what: str, amounts: Amounts, style: Style) -> list[TableColumn]:
    of = (f"{what} for more than", "GPU-hours back", *amounts.titles("", style.name))
    return [TableColumn(title=title, left=not place) for place, title in enumerate(of)]


def _given_back(one: WhatIf | WhatIfEmpty, amounts: Amounts, hours: HourFormat) -> list[str]:
    return [span(one.limit_ms), hours.of(one.gpu_ms), *amounts.cells(one.cost)]
