"""Section usefulness: idle seconds in active and idle-held time, and SM, tensor and memory activity."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from gua.core.idleness import ACTIVE_FROM
from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, Moment, StateName, View
from gua.report.context import Finish, ReportContext
from gua.report.hours import NO_HOUR
from gua.report.kit.basis import moment
from gua.report.kit.fields import Cells, Hours, Number, Ratio, Timestamp, cells, columns, filled, grouped, of_card
from gua.report.kit.figures import NONE, HourFormat, amount, amounts, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table, TableColumn, card_rows, more, placed_rows, table_of
from gua.report.kit.words import NAME_WIDTH, NOT_KNOWN, known
from gua.report.model import Card, Headline, OfCard, Report
from gua.report.section import Csv, Section
from gua.report.sections.energy import JOULES_PER_KWH
from gua.report.sections.headline import state_units
from gua.report.states import ACTIVE, IDLE_HELD

METRICS: Final = ("sm", "occupancy", "tensor", "memory_bandwidth")
"""Performance metrics; a metric's number in the hourly rollups is its position here, from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleTime:
    """Some GPU time and the idle seconds in it.

    ``sampled_gpu_ms`` is the part of ``gpu_ms`` with utilization samples. ``idle_gpu_ms`` is the part of the sampled
    time below the threshold of active, ``idle_share`` its share (0 to 1); ``None`` without samples. ``idle_joules`` is
    the energy of ``measured_gpu_ms``, the idle time with power samples; ``None`` without any.
    """

    gpu_ms: Hours[float]
    sampled_gpu_ms: Hours[float]
    idle_gpu_ms: Hours[float]
    idle_share: Ratio[float | None]
    measured_gpu_ms: Hours[float]
    idle_joules: Number[float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanActivity:
    """The mean of one performance metric over active time with counters.

    ``metric`` is sm (busy multiprocessors), occupancy, tensor or memory_bandwidth. ``mean`` (0 to 1) is over
    ``known_gpu_ms``, the GPU time with counters; ``low_gpu_ms`` is the part of it below 10 %.
    """

    metric: str
    known_gpu_ms: Hours[float]
    mean: Ratio[float]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerActivity:
    """An owner's program in active ticks with SM activity; on a shared card each program gets the card's values.

    ``low_gpu_ms`` is the part of ``gpu_ms`` with less than 10 % of the SMs busy. ``tensor`` is ``None`` without
    counters.
    """

    owner: str | None
    program: str | None
    gpu_ms: Hours[float]
    sm: Ratio[float]
    tensor: Ratio[float | None]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BusyWithFewSms(OfCard):
    """An interval of 30 minutes or more with a card at 90 % utilization or more, but less than 10 % of its SMs busy.

    ``observed_ms`` is the time of its ticks. ``owners`` and ``programs`` are all on the card in it, ``None`` for an
    unknown one; they are empty without a listed process.
    """

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    observed_ms: Hours[int]
    gpu_ms: Hours[float]
    sm: Ratio[float]
    tensor: Ratio[float | None]
    owners: tuple[str | None, ...]
    programs: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardIdleTime(OfCard):
    """A card's idle seconds in active and idle-held time; ``activity`` has the metrics of its active time."""

    states: Mapping[str, IdleTime]
    activity: tuple[MeanActivity, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Usefulness:
    """Idle seconds and activity of all cards, and of each; ``loaded`` is active and idle-held time together.

    ``activity`` covers the active time of all cards. ``owners`` and ``busy_with_few_sms`` are read from ticks. All
    three are empty without performance counters.
    """

    states: Mapping[str, IdleTime]
    loaded: IdleTime
    cards: tuple[CardIdleTime, ...]
    activity: tuple[MeanActivity, ...] = ()
    owners: tuple[OwnerActivity, ...] = ()
    busy_with_few_sms: tuple[BusyWithFewSms, ...] = ()


class IdleTimeRow(NamedTuple):
    """A card's GPU time in one state [us], and the energy of its idle time with power samples [mJ]."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    state: StateName
    gpu_us: Count
    sampled_us: Count
    idle_us: Count
    powered_us: Count
    idle_mj: Count


class ActivityRow(NamedTuple):
    """A card's active GPU time with a metric [us], the metric times that [us/200], and the part below 10 % [us]."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    metric: Count
    known_us: Count
    weighted: Count
    low_us: Count


class OwnerActivityRow(NamedTuple):
    """SM and tensor activity [us/200] of an owner's program, with the GPU time [us] they were sampled for."""

    owner: str | None
    program: str | None
    gpu_us: Count
    sm_weighted: Count
    tensor_us: Count
    tensor_weighted: Count
    low_us: Count


class BusyWithFewSmsRow(NamedTuple):
    """An interval of :class:`BusyWithFewSms` on a card; an unknown owner or program is ``""``."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    since_ms: Moment
    until_ms: Moment
    observed_ms: Count
    gpu_us: Count
    sm_weighted: Count
    tensor_us: Count
    tensor_weighted: Count
    owners: tuple[str, ...]
    programs: tuple[str, ...]


IDLE_TIME: Final = View("idle_time", IdleTimeRow, READ)
ACTIVITY: Final = View("activity", ActivityRow, READ)
ACTIVITY_OWNERS: Final = View("activity_owners", OwnerActivityRow, (*BOUNDS, "tick_hours"))
BUSY_WITH_FEW_SMS: Final = View("busy_with_few_sms", BusyWithFewSmsRow, (*BOUNDS, "tick_hours"))


def usefulness(context: ReportContext) -> Finish:
    """Query the idle seconds and activity of each card; owners and intervals only where any card has counters."""
    idle, activity = context.rows(IDLE_TIME), context.rows(ACTIVITY)
    hours = [hour.hour for hour in context.hours] or [NO_HOUR]
    owners = context.rows_of_ticks(ACTIVITY_OWNERS, context.hours, only_if=activity, tick_hours=hours)
    runs = context.rows_of_ticks(BUSY_WITH_FEW_SMS, context.hours, only_if=activity, tick_hours=hours)

    def finish(_headline: Headline, _cards: Sequence[Card]) -> Usefulness:
        return replace(usefulness_of(idle(), activity()), owners=owners_of(owners()), busy_with_few_sms=runs_of(runs()))

    return finish


def usefulness_of(idle: Iterable[IdleTimeRow], activity: Sequence[ActivityRow] = ()) -> Usefulness:
    """Return the rows of ``gua_report.idle_time`` per card, ordered by host and index, and for all cards together."""
    found = sorted(idle, key=lambda row: (row.host, row.gpu_index is None, row.gpu_index or 0, row.gpu))
    by_card = grouped(activity, of_card)
    return Usefulness(
        states=_by_state(found),
        loaded=_added(found, ACTIVE, IDLE_HELD),
        cards=tuple(
            filled(CardIdleTime, rows[0], states=_by_state(rows), activity=means_of(by_card.get(card, ())))
            for card, rows in grouped(found, of_card).items()
        ),
        activity=means_of(activity),
    )


def _by_state(rows: list[IdleTimeRow]) -> dict[str, IdleTime]:
    return {state: _added(rows, state) for state in (ACTIVE, IDLE_HELD)}


def _added(rows: Iterable[IdleTimeRow], *states: str) -> IdleTime:
    chosen = [row for row in rows if row.state in states]
    sampled_us, idle_us = sum(row.sampled_us for row in chosen), sum(row.idle_us for row in chosen)
    powered_us = sum(row.powered_us for row in chosen)
    return IdleTime(
        gpu_ms=sum(row.gpu_us for row in chosen) / 1000,
        sampled_gpu_ms=sampled_us / 1000,
        idle_gpu_ms=idle_us / 1000,
        idle_share=idle_us / sampled_us if sampled_us else None,
        measured_gpu_ms=powered_us / 1000,
        idle_joules=sum(row.idle_mj for row in chosen) / 1000 if powered_us else None,
    )


def means_of(rows: Iterable[ActivityRow]) -> tuple[MeanActivity, ...]:
    """Return the mean of each sampled metric over all rows, in the order of ``METRICS``."""
    found = grouped(rows, lambda row: row.metric)
    return tuple(
        MeanActivity(
            metric=name,
            known_gpu_ms=sum(row.known_us for row in found[number]) / 1000,
            mean=_mean(sum(row.weighted for row in found[number]), sum(row.known_us for row in found[number])),
            low_gpu_ms=sum(row.low_us for row in found[number]) / 1000,
        )
        for number, name in enumerate(METRICS, start=1)
        if number in found
    )


def owners_of(rows: Iterable[OwnerActivityRow]) -> tuple[OwnerActivity, ...]:
    """Return owners' programs, the most GPU time with few SMs first."""
    added: dict[tuple[str | None, str | None], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows:
        for place, value in enumerate((row.gpu_us, row.sm_weighted, row.tensor_us, row.tensor_weighted, row.low_us)):
            added[row.owner, row.program][place] += value
    found = [
        OwnerActivity(
            owner=owner,
            program=program,
            gpu_ms=gpu_us / 1000,
            sm=_mean(sm, gpu_us),
            tensor=_mean(tensor, tensor_us) if tensor_us else None,
            low_gpu_ms=low_us / 1000,
        )
        for (owner, program), (gpu_us, sm, tensor_us, tensor, low_us) in added.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.low_gpu_ms, -one.gpu_ms, one.owner or "", one.program or "")))


def runs_of(rows: Iterable[BusyWithFewSmsRow]) -> tuple[BusyWithFewSms, ...]:
    """Return the intervals, the longest first."""
    found = [
        filled(
            BusyWithFewSms,
            row,
            sm=_mean(row.sm_weighted, row.gpu_us),
            tensor=_mean(row.tensor_weighted, row.tensor_us) if row.tensor_us else None,
            owners=tuple(name or None for name in row.owners),
            programs=tuple(name or None for name in row.programs),
        )
        for row in rows
        if row.gpu_us
    ]
    return tuple(sorted(found, key=lambda one: (-one.observed_ms, one.host, one.gpu, one.since_ms)))


def _mean(weighted: int, known_us: int) -> float:
    return weighted / (known_us * ACTIVITY_SCALE)


_KWH_DECIMALS: Final = 2


def _idle_seconds(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the idle seconds of each state over all cards, and of the active hours of each card."""
    found = report[Usefulness]
    if not found.loaded.sampled_gpu_ms:
        yield "Unknown: no active or idle-held card has utilization samples."
        return
    yield (
        "A card is active where the mean of a tick is. Idle of that: seconds whose samples lie below "
        f"{ACTIVE_FROM * 100:.4g} %, the agents' threshold. Time without samples is unknown. kWh: by power "
        "samples, of as many idle hours."
    )
    yield _states_table(report, hours)
    yield (
        f"While a program may have been loaded, {percent(found.loaded.idle_share)} % of the sampled time was idle "
        "(execution-idle, arXiv 2604.04745)."
    )
    shown = [card for card in found.cards if card.states[ACTIVE].gpu_ms]
    if not shown:
        return
    yield Heading("Active hours by card, the most idle first")
    rows = card_rows(report, style, sorted(shown, key=lambda card: -card.states[ACTIVE].idle_gpu_ms))
    rows.add("active", lambda card: hours.of(card.states[ACTIVE].gpu_ms))
    rows.add("sampled", lambda card: hours.of(card.states[ACTIVE].sampled_gpu_ms))
    # Without samples idle time is unknown, not 0.
    rows.add(
        "idle of that",
        lambda card: NONE if not (part := card.states[ACTIVE]).sampled_gpu_ms else hours.of(part.idle_gpu_ms),
    )
    rows.add("%", lambda card: percent(card.states[ACTIVE].idle_share))
    yield rows.table()
    yield from more(rows.rest, "card", _EVERY)


_EVERY: Final = "--csv usefulness has every one"


def _states_table(report: Report, hours: HourFormat) -> Table:
    """Return a row per state and one for both; rows add up in each column.

    Hours are rounded as in the headline, sampled active hours as on the first screen.
    """
    found = report[Usefulness]
    parts = list(found.states.values())
    every = [*parts, found.loaded]

    def written(values: Sequence[float]) -> list[str]:
        (both,) = hours.units([sum(values)])
        first = min(hours.units(values[:1])[0], both)
        return [*map(hours.written, [*values, sum(values)], [first, both - first, both])]

    times = [part.gpu_ms for part in parts]
    units = [state_units(report, hours)[state] for state in (ACTIVE, IDLE_HELD)]
    energies = [(part.idle_joules or 0) / JOULES_PER_KWH for part in parts]
    columns = {
        TableColumn(title="", left=True): [*found.states, "both"],
        TableColumn(title="GPU-hours"): [*map(hours.written, [*times, sum(times)], [*units, sum(units)])],
        TableColumn(title="sampled"): written([part.sampled_gpu_ms for part in parts]),
        TableColumn(title="idle of that"): _known(
            written([part.idle_gpu_ms for part in parts]), (part.sampled_gpu_ms > 0 for part in every)
        ),
        TableColumn(title="%"): [percent(part.idle_share) for part in every],
        TableColumn(title="kWh", leaves=2): _known(
            [*amounts(energies, _KWH_DECIMALS), amount(sum(energies), _KWH_DECIMALS)],
            (part.idle_joules is not None for part in every),
        ),
        TableColumn(title="of idle hours", leaves=2): written([part.measured_gpu_ms for part in parts]),
    }
    return table_of(columns)


def _known(written: Sequence[str], are_known: Iterable[bool]) -> list[str]:
    return [one if is_known else NONE for one, is_known in zip(written, are_known, strict=True)]


MOST_OWNERS: Final = 12
MOST_RUNS: Final = 12
_WORDS: Final = {
    "sm": "SMs at work",
    "occupancy": "SM occupancy",
    "tensor": "tensor operations",
    "memory_bandwidth": "memory bandwidth",
}


def _activity(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the activity tables; nothing without performance counters."""
    found = report[Usefulness]
    if not found.activity:
        return
    yield Heading("Active hours by SMs, tensor cores and memory bandwidth")
    yield (
        "Means of performance counters (GPM) over active hours; hours without counters are unknown. Few "
        "SMs: hours of ticks with less than 10 % of the SMs at work."
    )
    rows = Rows(found.activity)
    rows.add("", lambda one: _WORDS[one.metric], left=True)
    rows.add("hours known", lambda one: hours.of(one.known_gpu_ms))
    rows.add("mean %", lambda one: percent(one.mean))
    rows.add("below 10 %", lambda one: hours.of(one.low_gpu_ms))
    yield rows.table()
    yield from _activity_of_cards(report, style, hours)
    yield from _activity_of_owners(found, style, hours)
    yield from _busy_with_few_sms(report, style, hours)


def _activity_of_cards(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    yield Heading("By card, the most hours with few SMs first")

    def of_metric(card: CardIdleTime, metric: str) -> MeanActivity | None:
        return next((one for one in card.activity if one.metric == metric), None)

    def few_sms(card: CardIdleTime) -> float | None:
        found = of_metric(card, METRICS[0])
        return None if found is None else found.low_gpu_ms

    def mean(card: CardIdleTime, metric: str) -> str:
        return NONE if (found := of_metric(card, metric)) is None else percent(found.mean)

    shown = sorted((card for card in report[Usefulness].cards if card.activity), key=lambda card: -(few_sms(card) or 0))
    rows = card_rows(report, style, shown)
    rows.add("hours known", lambda card: hours.of(max(one.known_gpu_ms for one in card.activity)))
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
    rows.add("hours known", lambda one: hours.of(one.gpu_ms))
    rows.add("SMs %", lambda one: percent(one.sm))
    rows.add("tensor %", lambda one: percent(one.tensor))
    rows.add("few SMs", lambda one: hours.of(one.low_gpu_ms))
    yield rows.table()
    known_ms = sum(one.gpu_ms for one in found.owners)
    several = f", {plural(rows.rest, 'more program')} in --json" if rows.rest else ""
    yield f"Read from ticks: {hours.of(known_ms)} hours{several}. On a shared card each has what the card does."


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

    rows = placed_rows(report, style, found, MOST_RUNS * style.times)
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
        known = {f"{one.metric}_{column}": cell for one in card.activity for column, cell in cells(one).items()}
        activity = {column: known.get(column) for column in _ACTIVITY_COLUMNS}
        for state, part in card.states.items():
            yield {**cells(card), "state": state, **cells(part), **(activity if state == ACTIVE else {})}


USEFULNESS_SECTION = Section(
    name="usefulness",
    title="What the active hours were worth",
    model=Usefulness,
    collect=usefulness,
    text=lambda *report: chain(_idle_seconds(*report), _activity(*report)),
    csv=Csv((*columns(CardIdleTime), "state", *columns(IdleTime), *_ACTIVITY_COLUMNS), _rows),
)
