"""Contention: how long nobody could get a card while cards were held that did nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import HourFormat, percent, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH
from gua.report.model import Report
from gua.report.sections.contention.model import Contention, Contentions

_COLUMNS: Final = (
    TableColumn(title="host", left=True, shortest=8),
    TableColumn(title="GPUs", leaves=1),
    TableColumn(title="contended %"),
    TableColumn(title="hours", leaves=2),
    TableColumn(title="some free %"),
    TableColumn(title="all active %"),
    TableColumn(title="not known %"),
    TableColumn(title="idle-held GPU-h", leaves=4),
)
_PROMISED: Final = TableColumn(title="promised GPU-h", leaves=3)
MOST_HOSTS: Final = 20


def contention(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a line for all cards and one for each host, the most contended first."""
    amounts = Amounts.of_report(report)
    every = [one for one in report[Contentions] if one.host is None]
    hosts = sorted((one for one in report[Contentions] if one.host is not None), key=lambda one: -one.contended_ms)
    looked_at = report.is_allocation_looked_at
    held = "idle-held or promised ones" if looked_at else "idle-held ones"
    for one in every or hosts[:1]:
        yield (
            f"No card was free while {held} existed for {percent(one.share)} % of the time "
            f"({hours.of(one.contended_ms)} hours): whoever waited then need not have."
        )
        yield from _waits(one, hours)
    most = MOST_HOSTS * style.times
    shown = hosts[:most] if len(hosts) > 1 or not every else []
    yield Table(
        columns=[
            *_COLUMNS,
            *([_PROMISED] if looked_at else []),
            *(TableColumn(title=title, leaves=5) for title in amounts.titles("", style.name)),
        ],
        rows=[
            [
                *_row(one, style, hours),
                *([hours.of(one.contended_promised_gpu_ms)] if looked_at else []),
                *amounts.cells(one.cost),
            ]
            for one in (*every, *shown)
        ],
        notes=[
            ("GPUs", "those that are not partitioned, the most at a time; a MIG instance is no GPU for who wants one"),
            ("idle-held GPU-h", "what the idle-held cards were worth in the contended hours"),
            *(
                [(_PROMISED.title, "the same of promised cards that nothing held: free for nobody")]
                if looked_at
                else []
            ),
        ],
    )
    if len(hosts) > most:
        yield f"and {len(hosts) - most:,} hosts with less of it: --csv contention has every one."


def _row(one: Contention, style: Style, hours: HourFormat) -> list[str]:
    contended, free, busy, unknown = percents([one.contended_ms, one.free_ms, one.busy_ms, one.unknown_ms])
    return [
        "(all GPUs)" if one.host is None else style.name(one.host, NAME_WIDTH),
        f"{one.cards:,}",
        contended,
        hours.of(one.contended_ms),
        free,
        busy,
        unknown,
        hours.of(one.contended_gpu_ms),
    ]


def _waits(one: Contention, hours: HourFormat) -> Iterator[str]:
    """Yield how long people really waited, and for what."""
    if one.waits_unknown_ms:
        yield f"Who waited is not known of {hours.of(one.waits_unknown_ms)} hours: no tick that is kept tells it."
    if one.wait_ms is None or one.waited_ms is None:
        return
    if not one.wait_ms:
        when = " in the others" if one.waits_unknown_ms else ""
        yield f"Nobody waited in the queue of gua run and gua reserve{when}."
        return
    most = one.most_waiting or 1
    yield (
        f"In the queue of gua run and gua reserve requests waited {hours.of(one.wait_ms)} hours together, up to {most} "
        f"at a tick. In the {hours.of(one.waited_ms)} hours in which anybody waited, "
        f"{hours.of(one.waited_empty_gpu_ms or 0)} GPU-hours were reserved and empty, "
        f"{hours.of(one.waited_held_gpu_ms or 0)} held, {hours.of(one.waited_others_gpu_ms or 0)} used by others, and "
        f"{hours.of(one.waited_free_gpu_ms or 0)} free, and could not be given to the first of them."
    )
