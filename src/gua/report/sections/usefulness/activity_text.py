"""What performance counters tell of active hours: of all cards, of each, of owners, and what only looked busy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn, card_table
from gua.report.kit.words import NAME_WIDTH, NOT_KNOWN, index, known
from gua.report.model import Report
from gua.report.sections.usefulness.model import (
    METRICS,
    BusyWithFewSms,
    CardIdleTime,
    MeanActivity,
    OwnerActivity,
    Usefulness,
)

MOST_OWNERS: Final = 12
MOST_RUNS: Final = 12
_WORDS: Final = {
    "sm": "SMs at work",
    "occupancy": "SM occupancy",
    "tensor": "tensor operations",
    "memory_bandwidth": "memory bandwidth",
}
_METRICS: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="hours told"),
    TableColumn(title="mean %"),
    TableColumn(title="below 10 %"),
)
_CARDS: Final = (
    TableColumn(title="hours told"),
    TableColumn(title="SMs %"),
    TableColumn(title="occupancy %", leaves=1),
    TableColumn(title="tensor %"),
    TableColumn(title="bandwidth %", leaves=2),
    TableColumn(title="few SMs"),
)
_OWNERS: Final = (
    TableColumn(title="owner", left=True, shortest=8),
    TableColumn(title="program", left=True, shortest=8),
    TableColumn(title="hours told"),
    TableColumn(title="SMs %"),
    TableColumn(title="tensor %"),
    TableColumn(title="few SMs"),
)
_RUNS: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="from", left=True),
    TableColumn(title="hours"),
    TableColumn(title="SMs %"),
    TableColumn(title="tensor %", leaves=2),
    TableColumn(title="owners", left=True, shortest=6),
    TableColumn(title="programs", left=True, shortest=6, leaves=1),
)
_HOST: Final = TableColumn(title="host", left=True, shortest=8)


def activity(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield what counters tell; nothing where none were read."""
    found = report[Usefulness]
    if not found.activity:
        return
    yield Heading("Active hours by SMs, tensor cores and memory bandwidth")
    yield (
        "Means of what performance counters (GPM) tell of active hours; what they do not tell of is not known. Few "
        "SMs: hours of ticks with less than 10 % of the SMs at work."
    )
    yield Table(columns=_METRICS, rows=[_metric(one, hours) for one in found.activity])
    yield from _cards(report, style, hours)
    yield from _owners(found, style, hours)
    yield from _runs(report, style, hours)


def _metric(one: MeanActivity, hours: HourFormat) -> list[str]:
    return [_WORDS[one.metric], hours.of(one.told_gpu_ms), percent(one.mean), hours.of(one.low_gpu_ms)]


def _cards(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    shown = sorted((card for card in report[Usefulness].cards if card.activity), key=lambda card: -_few_sms(card))
    yield Heading("By card, the most hours with few SMs first")
    yield from card_table(report, style, "usefulness", _CARDS, [(card, _card(card, hours)) for card in shown])


def _few_sms(card: CardIdleTime) -> float:
    return next((one.low_gpu_ms for one in card.activity if one.metric == METRICS[0]), 0.0)


def _card(card: CardIdleTime, hours: HourFormat) -> list[str]:
    told = {one.metric: one for one in card.activity}
    return [
        hours.of(max(one.told_gpu_ms for one in card.activity)),
        *(percent(told[name].mean) if name in told else NONE for name in METRICS),
        hours.of(told[METRICS[0]].low_gpu_ms) if METRICS[0] in told else NONE,
    ]


def _owners(found: Usefulness, style: Style, hours: HourFormat) -> Iterator[Part]:
    if not found.owners:
        return
    yield Heading("By owner and program, the most hours with few SMs first")
    yield Table(columns=_OWNERS, rows=[_owner(one, style, hours) for one in found.owners[:MOST_OWNERS]], heads=2)
    told_ms = sum(one.gpu_ms for one in found.owners)
    more = len(found.owners) - MOST_OWNERS
    several = f", {plural(more, 'more program')} in --json" if more > 0 else ""
    yield f"Read from ticks: {hours.of(told_ms)} hours{several}. On a shared card each has what the card does."


def _owner(one: OwnerActivity, style: Style, hours: HourFormat) -> list[str]:
    return [
        known(one.owner, style),
        known(one.program, style),
        hours.of(one.gpu_ms),
        percent(one.sm),
        percent(one.tensor),
        hours.of(one.low_gpu_ms),
    ]


def _runs(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    found, several = report[Usefulness], len(report.hosts) > 1
    if not found.busy_with_few_sms:
        return
    yield Heading("Busy with few SMs")
    yield (
        "Half an hour or more in a row at 90 % utilization or more, with less than 10 % of the SMs at work: as a "
        "collective that waits, or a kernel that spins."
    )
    shown = found.busy_with_few_sms[: MOST_RUNS * style.times]
    yield Table(
        columns=[*([_HOST] if several else []), *_RUNS],
        rows=[
            [
                *([style.name(one.host, NAME_WIDTH)] if several else []),
                *_run(one, report.window.timezone, style, hours),
            ]
            for one in shown
        ],
        heads=1 + several,
    )
    if len(found.busy_with_few_sms) > len(shown):
        yield f"and {plural(len(found.busy_with_few_sms) - len(shown), 'more')} in --json."


def _run(one: BusyWithFewSms, timezone: str, style: Style, hours: HourFormat) -> list[str]:
    return [
        index(one.index, one.gpu, style),
        moment(one.since_ms, timezone),
        hours.of(one.observed_ms),
        percent(one.sm),
        percent(one.tensor),
        *(
            style.name(", ".join(name or NOT_KNOWN for name in names) or NONE, NAME_WIDTH)
            for names in (one.owners, one.programs)
        ),
    ]
