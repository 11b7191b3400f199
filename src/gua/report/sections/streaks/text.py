"""Streaks, not averages: how long the idle streaks of processes are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import HourFormat, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.model import Report
from gua.report.sections.streaks.model import Streaks

_COLUMNS: Final = (
    TableColumn(title="longer than", left=True),
    TableColumn(title="streaks"),
    TableColumn(title="holders"),
    TableColumn(title="idle hours", leaves=1),
    TableColumn(title="GPU-hours"),
)


def streaks(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield how many idle streaks are longer than some lengths, and the hours in them."""
    found = report[Streaks]
    amounts = Amounts.of_report(report)
    yield (
        "An idle streak is a process that holds a card and does nothing, until it is active again. Each line "
        "counts those of the lines below it, too."
    )
    yield Table(
        columns=[*_COLUMNS, *(TableColumn(title=title) for title in amounts.titles("", style.name))],
        rows=[
            [
                span(one.longer_than_ms) if one.longer_than_ms else "0 (all)",
                f"{one.streaks:,}",
                f"{one.holders:,}",
                hours.of(one.idle_ms),
                hours.of(one.idle_held_gpu_ms),
                *amounts.cells(one.cost),
            ]
            for one in found.classes
        ],
        notes=[
            ("holders", "Slurm jobs, pods, containers or owners"),
            ("idle hours", "each process's own"),
            ("GPU-hours", "the idle-held time of cards that is theirs"),
        ],
    )
    yield from unknown(report, hours)


def unknown(report: Report, hours: HourFormat) -> Iterator[str]:
    """Yield how much idle-held time has no streaks, if any."""
    unknown_gpu_ms = report[Streaks].unknown_gpu_ms
    if unknown_gpu_ms > 0:
        yield (
            f"{hours.of(unknown_gpu_ms)} idle-held GPU-hours are not in this: their ticks are gone, "
            "and no streaks were kept of them."
        )
