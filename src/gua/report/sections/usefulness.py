"""How much of the active and idle-held hours was idle seconds, of all cards and of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.core.idle_time import ACTIVE_FROM
from gua.report.kit.basis import moment
from gua.report.kit.fields import Cell, Cells, cells, columns
from gua.report.kit.figures import NONE, HourFormat, amount, amounts, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn, card_table
from gua.report.kit.words import NAME_WIDTH, NOT_KNOWN, index, known
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.energy import JOULES_PER_KWH
from gua.report.sections.headline import state_units
from gua.report.sections.usefulness_rows import (
    METRICS,
    BusyWithFewSms,
    CardIdleTime,
    IdleTime,
    MeanActivity,
    OwnerActivity,
    Usefulness,
    usefulness,
)
from gua.report.states import ACTIVE, IDLE_HELD

_STATES: Final = (
    TableColumn(title="", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="samples tell of"),
    TableColumn(title="idle of that"),
    TableColumn(title="%"),
    TableColumn(title="kWh", leaves=2),
    TableColumn(title="of idle hours", leaves=2),
)
_KWH_DECIMALS: Final = 2
_CARDS: Final = (
    TableColumn(title="active"),
    TableColumn(title="samples tell of"),
    TableColumn(title="idle of that"),
    TableColumn(title="%"),
)


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield idle seconds, then what performance counters tell of active hours."""
    yield from _idle_seconds(report, style, hours)
    yield from activity(report, style, hours)


def _idle_seconds(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the idle seconds of each state over all cards, and of the active hours of each card."""
    found = report[Usefulness]
    if not found.loaded.sampled_gpu_ms:
        yield "Not known: no sample tells busy from idle seconds of any active or idle-held card."
        return
    yield (
        "A card is active where the mean of a tick is. Idle of that: seconds whose samples lie below "
        f"{ACTIVE_FROM * 100:.4g} %, the agents' threshold. What no sample tells of is not known. kWh: by power "
        "samples, of as many idle hours."
    )
    yield Table(
        columns=_STATES,
        rows=_by_state(report, hours),
    )
    yield (
        f"While a program may have been loaded, {percent(found.loaded.idle_share)} % of what samples tell of was idle "
        "(execution-idle, arXiv 2604.04745)."
    )
    shown = sorted((card for card in found.cards if card.states[ACTIVE].gpu_ms), key=_most_idle)
    if not shown:
        return
    yield Heading("Active hours by card, the most idle first")
    told = [(card, _told(card.states[ACTIVE], hours)) for card in shown]
    yield from card_table(report, style, "usefulness", _CARDS, told)


def _most_idle(card: CardIdleTime) -> float:
    return -card.states[ACTIVE].idle_gpu_ms


def _by_state(report: Report, hours: HourFormat) -> list[list[str]]:
    """Return a row for each state and one for both, to which each column adds up.

    Hours are written as in the headline, and what samples tell of the active ones as on the first screen.
    """
    found = report[Usefulness]
    parts = list(found.states.values())
    every = [*parts, found.loaded]

    def told(values: Sequence[float]) -> list[str]:
        (both,) = hours.units([sum(values)])
        first = min(hours.units(values[:1])[0], both)
        return [*map(hours.written, [*values, sum(values)], [first, both - first, both])]

    times = [part.gpu_ms for part in parts]
    units = [state_units(report, hours)[state] for state in (ACTIVE, IDLE_HELD)]
    energies = [(part.idle_joules or 0) / JOULES_PER_KWH for part in parts]
    columns = (
        [*found.states, "both"],
        [*map(hours.written, [*times, sum(times)], [*units, sum(units)])],
        told([part.sampled_gpu_ms for part in parts]),
        _known(told([part.idle_gpu_ms for part in parts]), (part.sampled_gpu_ms > 0 for part in every)),
        [percent(part.idle_share) for part in every],
        _known(
            [*amounts(energies, _KWH_DECIMALS), amount(sum(energies), _KWH_DECIMALS)],
            (part.idle_joules is not None for part in every),
        ),
        told([part.measured_gpu_ms for part in parts]),
    )
    return [list(row) for row in zip(*columns, strict=True)]


def _known(written: Sequence[str], are_known: Iterable[bool]) -> list[str]:
    return [one if is_known else NONE for one, is_known in zip(written, are_known, strict=True)]


def _told(part: IdleTime, hours: HourFormat) -> list[str]:
    """Return hours, those that samples tell of, and the idle ones of them: of what nothing tells, none is not 0."""
    return [
        hours.of(part.gpu_ms),
        hours.of(part.sampled_gpu_ms),
        hours.of(part.idle_gpu_ms) if part.sampled_gpu_ms else NONE,
        percent(part.idle_share),
    ]


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
_ACTIVITY_OF_CARDS: Final = (
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
    yield from card_table(
        report, style, "usefulness", _ACTIVITY_OF_CARDS, [(card, _card(card, hours)) for card in shown]
    )


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


_OF_METRIC: Final = tuple(column for column in columns(MeanActivity) if column != "metric")
_ACTIVITY_COLUMNS: Final = tuple(f"{metric}_{column}" for metric in METRICS for column in _OF_METRIC)


def _rows(found: Usefulness, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        for state, part in card.states.items():
            activity = _activity_cells(card) if state == ACTIVE else dict.fromkeys(_ACTIVITY_COLUMNS)
            yield {**cells(card), "state": state, **cells(part), **activity}


def _activity_cells(card: CardIdleTime) -> dict[str, Cell]:
    """Return what counters tell of a card's active time, by column; ``None`` where they do not."""
    told = {one.metric: one for one in card.activity}
    return {
        f"{metric}_{column}": cells(told[metric])[column] if metric in told else None
        for metric in METRICS
        for column in _OF_METRIC
    }


USEFULNESS_SECTION = Section(
    name="usefulness",
    title="What the active hours were worth",
    model=Usefulness,
    collect=usefulness,
    text=_text,
    csv=Csv((*columns(CardIdleTime), "state", *columns(IdleTime), *_ACTIVITY_COLUMNS), _rows),
)
