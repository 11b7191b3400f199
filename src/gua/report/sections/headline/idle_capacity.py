"""Idle capacity: what stood idle, in hours and in whole GPUs over the whole window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import HourFormat, gpus
from gua.report.kit.style import Style, table
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.headline.text import state_hours
from gua.report.states import IDLE_HELD, TRULY_IDLE

_MEANS: Final = "that is"


def idle_capacity(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield idle-held and truly-idle, each with what it means."""
    meanings = _meanings(report)
    yield Table(
        columns=[
            *(TableColumn(title=title, left=not title) for title in _titles(report, style)),
            TableColumn(title=_MEANS, left=True),
        ],
        rows=[[*row, meaning] for row, meaning in zip(_rows(report, hours), meanings.values(), strict=True)],
    )
    yield _whole(report)


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, the meanings wrapped beside their lines."""
    if style.width < STACKED_BELOW:
        yield from idle_capacity(report, style, hours)
        return
    lines = table([_titles(report, style), *_rows(report, hours)], left=1)
    yield Drawn(lines[0])
    for (state, meaning), line in zip(_meanings(report).items(), lines[1:], strict=True):
        first, *rest = style.wrap(meaning, indent=len(line) + 2)
        yield Drawn(f"{style.state(line, state)}  {first.lstrip()}")
        yield from map(Drawn, rest)
    yield _whole(report)


def _meanings(report: Report) -> dict[str, str]:
    threshold = next(setting.value for setting in report.rules if setting.key == "active_utilization")
    return {
        IDLE_HELD: f"memory held, utilization below {threshold * 100:.4g} %",
        TRULY_IDLE: (
            "nothing holds them; some may be promised"
            if report.is_allocation_looked_at
            else "nothing holds them; allocation is not looked at"
        ),
    }


def _titles(report: Report, style: Style) -> list[str]:
    return ["", "GPU-hours", "GPUs", *Amounts.of_report(report).titles("", style.name)]


def _rows(report: Report, hours: HourFormat) -> list[list[str]]:
    written, amounts, costs = state_hours(report, hours), Amounts.of_report(report), report.headline.costs
    return [
        [
            state,
            written[state],
            gpus(report.headline.equivalent_gpus[state]),
            *amounts.cells(costs[state] if costs else None),
        ]
        for state in (IDLE_HELD, TRULY_IDLE)
    ]


def _whole(report: Report) -> str:
    whole = sum(value for value in report.headline.equivalent_gpus.values() if value is not None)
    return f"GPUs: as many as if they had been idle all the time, of {gpus(whole)} expected."
