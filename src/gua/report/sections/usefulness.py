"""How much of the active and idle-held hours was idle seconds, of all cards and of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.core.idleness import ACTIVE_FROM
from gua.report.kit.basis import moment
from gua.report.kit.fields import Cell, Cells, cells, columns
from gua.report.kit.figures import NONE, HourFormat, amount, amounts, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table, TableColumn, card_rows, more
from gua.report.kit.words import NAME_WIDTH, NOT_KNOWN, index, known
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.energy import JOULES_PER_KWH
from gua.report.sections.headline import state_units
from gua.report.sections.usefulness_rows import (
    METRICS,
    CardIdleTime,
    IdleTime,
    MeanActivity,
    Usefulness,
    usefulness,
)
from gua.report.states import ACTIVE, IDLE_HELD

_KWH_DECIMALS: Final = 2


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield idle seconds, then what performance counters tell of active hours."""
    yield from _idle_seconds(report, style, hours)
    yield from _activity(report, style, hours)


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
    yield _by_state(report, hours)
    yield (
        f"While a program may have been loaded, {percent(found.loaded.idle_share)} % of what samples tell of was idle "
        "(execution-idle, arXiv 2604.04745)."
    )
    shown = [card for card in found.cards if card.states[ACTIVE].gpu_ms]
    if not shown:
        return
    yield Heading("Active hours by card, the most idle first")
    rows = card_rows(report, style, sorted(shown, key=lambda card: -card.states[ACTIVE].idle_gpu_ms))
    # Of what nothing tells, none is not 0.
    rows.add(("active", "samples tell of", "idle of that", "%"), lambda card: _told(card.states[ACTIVE], hours))
    yield rows.table()
    yield from more(rows.rest, "card", _EVERY)


_EVERY: Final = "--csv usefulness has every one"


def _by_state(report: Report, hours: HourFormat) -> Table:
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
    columns = {
        TableColumn(title="", left=True): [*found.states, "both"],
        TableColumn(title="GPU-hours"): [*map(hours.written, [*times, sum(times)], [*units, sum(units)])],
        TableColumn(title="samples tell of"): told([part.sampled_gpu_ms for part in parts]),
        TableColumn(title="idle of that"): _known(
            told([part.idle_gpu_ms for part in parts]), (part.sampled_gpu_ms > 0 for part in every)
        ),
        TableColumn(title="%"): [percent(part.idle_share) for part in every],
        TableColumn(title="kWh", leaves=2): _known(
            [*amounts(energies, _KWH_DECIMALS), amount(sum(energies), _KWH_DECIMALS)],
            (part.idle_joules is not None for part in every),
        ),
        TableColumn(title="of idle hours", leaves=2): told([part.measured_gpu_ms for part in parts]),
    }
    return Table(columns=[*columns], rows=[*zip(*columns.values(), strict=True)])


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


def _activity(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield what counters tell; nothing where none were read."""
    found = report[Usefulness]
    if not found.activity:
        return
    yield Heading("Active hours by SMs, tensor cores and memory bandwidth")
    yield (
        "Means of what performance counters (GPM) tell of active hours; what they do not tell of is not known. Few "
        "SMs: hours of ticks with less than 10 % of the SMs at work."
    )
    rows = Rows(found.activity)
    rows.add("", lambda one: _WORDS[one.metric], left=True)
    rows.add("hours told", lambda one: hours.of(one.told_gpu_ms))
    rows.add("mean %", lambda one: percent(one.mean))
    rows.add("below 10 %", lambda one: hours.of(one.low_gpu_ms))
    yield rows.table()
    yield from _activity_of_cards(report, style, hours)
    yield from _activity_of_owners(found, style, hours)
    yield from _busy_with_few_sms(report, style, hours)


def _activity_of_cards(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    yield Heading("By card, the most hours with few SMs first")

    def told(card: CardIdleTime, metric: str) -> MeanActivity | None:
        return next((one for one in card.activity if one.metric == metric), None)

    def few_sms(card: CardIdleTime) -> float | None:
        found = told(card, METRICS[0])
        return None if found is None else found.low_gpu_ms

    def mean(card: CardIdleTime, metric: str) -> str:
        return NONE if (found := told(card, metric)) is None else percent(found.mean)

    shown = sorted((card for card in report[Usefulness].cards if card.activity), key=lambda card: -(few_sms(card) or 0))
    rows = card_rows(report, style, shown)
    rows.add("hours told", lambda card: hours.of(max(one.told_gpu_ms for one in card.activity)))
    sms, occupancy, tensor, bandwidth = METRICS
    rows.add("SMs %", lambda card: mean(card, sms))
    rows.add("occupancy %", lambda card: mean(card, occupancy), leaves=1)
    rows.add("tensor %", lambda card: mean(card, tensor))
    rows.add("bandwidth %", lambda card: mean(card, bandwidth), leaves=2)
    rows.add("few SMs", lambda card: NONE if (ms := few_sms(card)) is None else hours.of(ms))
    yield rows.table()
    yield from more(rows.rest, "card", _EVERY)


def _activity_of_owners(found: Usefulness, style: Style, hours: HourFormat) -> Iterator[Part]:
    if not found.owners:
        return
    yield Heading("By owner and program, the most hours with few SMs first")
    rows = Rows(found.owners, MOST_OWNERS)
    rows.add("owner", lambda one: known(one.owner, style), left=True, shortest=8, is_head=True)
    rows.add("program", lambda one: known(one.program, style), left=True, shortest=8, is_head=True)
    rows.add("hours told", lambda one: hours.of(one.gpu_ms))
    rows.add("SMs %", lambda one: percent(one.sm))
    rows.add("tensor %", lambda one: percent(one.tensor))
    rows.add("few SMs", lambda one: hours.of(one.low_gpu_ms))
    yield rows.table()
    told_ms = sum(one.gpu_ms for one in found.owners)
    several = f", {plural(rows.rest, 'more program')} in --json" if rows.rest else ""
    yield f"Read from ticks: {hours.of(told_ms)} hours{several}. On a shared card each has what the card does."


def _busy_with_few_sms(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    found = report[Usefulness].busy_with_few_sms
    if not found:
        return
    yield Heading("Busy with few SMs")
    yield (
        "Half an hour or more in a row at 90 % utilization or more, with less than 10 % of the SMs at work: as a "
        "collective that waits, or a kernel that spins."
    )

    def names(several: Sequence[str | None]) -> str:
        return style.name(", ".join(name or NOT_KNOWN for name in several) or NONE, NAME_WIDTH)

    rows = Rows(found, MOST_RUNS * style.times)
    rows.add_host(report, style, lambda one: one.host)
    rows.add("gpu", lambda one: index(one.index, one.gpu, style), is_head=True)
    rows.add("from", lambda one: moment(one.since_ms, report.window.timezone), left=True)
    rows.add("hours", lambda one: hours.of(one.observed_ms))
    rows.add("SMs %", lambda one: percent(one.sm))
    rows.add("tensor %", lambda one: percent(one.tensor), leaves=2)
    rows.add("owners", lambda one: names(one.owners), left=True, shortest=6)
    rows.add("programs", lambda one: names(one.programs), left=True, shortest=6, leaves=1)
    yield rows.table()
    if rows.rest:
        yield f"and {plural(rows.rest, 'more')} in --json."


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
