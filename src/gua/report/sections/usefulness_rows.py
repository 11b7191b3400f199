"""How much of the time in which a program may be loaded was idle seconds, by the driver's samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, Moment, StateName, View
from gua.report.asking import Asking, Finish
from gua.report.hours import NO_HOUR
from gua.report.kit.fields import Hours, Number, Ratio, Timestamp, filled, grouped, of_card
from gua.report.model import Card, Headline, OfCard
from gua.report.states import ACTIVE, IDLE_HELD

METRICS: Final = ("sm", "occupancy", "tensor", "memory_bandwidth")
"""Metrics in the order of the numbers that hours are kept with, from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleTime:
    """Some GPU time and the idle seconds in it.

    ``sampled_gpu_ms`` of ``gpu_ms`` is what samples of utilization tell busy from idle seconds of; ``idle_gpu_ms`` of
    that lay below the threshold of active, a share of ``idle_share`` (of what samples tell; ``None`` where they tell
    nothing). ``idle_joules`` is the energy of ``measured_gpu_ms`` of the idle time, the part that power samples cover;
    ``None`` where they cover nothing.
    """

    gpu_ms: Hours[float]
    sampled_gpu_ms: Hours[float]
    idle_gpu_ms: Hours[float]
    idle_share: Ratio[float | None]
    measured_gpu_ms: Hours[float]
    idle_joules: Number[float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanActivity:
    """What performance counters tell of some active time: of one metric, and only where it is told.

    ``metric`` is sm (multiprocessors that were busy), occupancy, tensor or memory_bandwidth. ``mean`` is over the
    ``told_gpu_ms`` that it is told of, ``low_gpu_ms`` those of ticks in which it was below 10 %.
    """

    metric: str
    told_gpu_ms: Hours[float]
    mean: Ratio[float]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerActivity:
    """An owner's program in active ticks that tell how many SMs were busy; of a shared card each has the card's.

    ``low_gpu_ms`` of ``gpu_ms`` are those with less than 10 % of the SMs. ``tensor`` is ``None`` where it is not told.
    """

    owner: str | None
    program: str | None
    gpu_ms: Hours[float]
    sm: Ratio[float]
    tensor: Ratio[float | None]
    low_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BusyWithFewSms(OfCard):
    """A run of ticks in which a card was at 90 % or more with less than 10 % of its SMs, half an hour or longer.

    ``observed_ms`` is the time of its ticks. ``owners`` and ``programs`` are all that were there, ``None`` one that is
    not known; nobody on the list where they are empty.
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
    """A card's time in the states active and idle-held; ``activity`` is that of its active time, as far as told."""

    states: Mapping[str, IdleTime]
    activity: tuple[MeanActivity, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Usefulness:
    """All cards, and each; ``loaded`` is both states together, in which a program may be loaded.

    ``activity`` is that of the active time of all cards, ``owners`` and ``busy_with_few_sms`` are read from ticks: all
    of them are empty where no performance counters were read.
    """

    states: Mapping[str, IdleTime]
    loaded: IdleTime
    cards: tuple[CardIdleTime, ...]
    activity: tuple[MeanActivity, ...] = ()
    owners: tuple[OwnerActivity, ...] = ()
    busy_with_few_sms: tuple[BusyWithFewSms, ...] = ()


class IdleTimeRow(NamedTuple):
    """A card's GPU time in one state, in us, and the energy of what power samples cover of its idle time, in mJ."""

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


IDLE_TIME: Final = View("idle_time", IdleTimeRow, READ)


def usefulness(asking: Asking) -> Finish:
    """Query the idle seconds of each card, and what its performance counters tell: owners and runs where any does."""
    idle, told = asking.rows(IDLE_TIME), asking.rows(ACTIVITY)
    hours = [hour.hour for hour in asking.hours] or [NO_HOUR]
    owners = asking.rows_of_ticks(ACTIVITY_OWNERS, asking.hours, only_if=told, tick_hours=hours)
    runs = asking.rows_of_ticks(BUSY_WITH_FEW_SMS, asking.hours, only_if=told, tick_hours=hours)

    def finish(_headline: Headline, _cards: Sequence[Card]) -> Usefulness:
        return replace(usefulness_of(idle(), told()), owners=owners_of(owners()), busy_with_few_sms=runs_of(runs()))

    return finish


def usefulness_of(rows: Iterable[IdleTimeRow], activity: Sequence[ActivityRow] = ()) -> Usefulness:
    """Return the rows of ``gua_report.idle_time`` as cards, in the order of their indexes, and all of them together."""
    found = sorted(rows, key=lambda row: (row.host, row.gpu_index is None, row.gpu_index or 0, row.gpu))
    told = grouped(activity, of_card)
    return Usefulness(
        states=_by_state(found),
        loaded=_added(found, ACTIVE, IDLE_HELD),
        cards=tuple(
            _card(list(of_card), told.get((host, gpu), ()))
            for (host, _, gpu), of_card in groupby(found, key=lambda row: (row.host, row.gpu_index, row.gpu))
        ),
        activity=means_of(activity),
    )


def _card(rows: list[IdleTimeRow], activity: Sequence[ActivityRow]) -> CardIdleTime:
    return filled(CardIdleTime, rows[0], states=_by_state(rows), activity=means_of(activity))


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


class ActivityRow(NamedTuple):
    """Of a card's active GPU time [us] what a metric is told of, that x the metric [1/200], and what was low."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    metric: Count
    told_us: Count
    weighted: Count
    low_us: Count


class OwnerActivityRow(NamedTuple):
    """An owner's program: GPU time [us] of which SM activity is told, tensor activity, and both weighted [us/200]."""

    owner: str | None
    program: str | None
    gpu_us: Count
    sm_weighted: Count
    tensor_us: Count
    tensor_weighted: Count
    low_us: Count


class BusyWithFewSmsRow(NamedTuple):
    """A run of a card, as above; an owner that is not known is empty."""

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


ACTIVITY: Final = View("activity", ActivityRow, READ)
ACTIVITY_OWNERS: Final = View("activity_owners", OwnerActivityRow, (*BOUNDS, "tick_hours"))
BUSY_WITH_FEW_SMS: Final = View("busy_with_few_sms", BusyWithFewSmsRow, (*BOUNDS, "tick_hours"))


def means_of(rows: Iterable[ActivityRow]) -> tuple[MeanActivity, ...]:
    """Return each metric that is told, over all rows."""
    added: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        for place, value in enumerate((row.told_us, row.weighted, row.low_us)):
            added[row.metric][place] += value
    return tuple(
        MeanActivity(
            metric=name,
            told_gpu_ms=added[number][0] / 1000,
            mean=_mean(added[number][1], added[number][0]),
            low_gpu_ms=added[number][2] / 1000,
        )
        for number, name in enumerate(METRICS, start=1)
        if number in added
    )


def owners_of(rows: Iterable[OwnerActivityRow]) -> tuple[OwnerActivity, ...]:
    """Return owners' programs, those with the most GPU time of few SMs first."""
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
    """Return the runs, the longest first."""
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


def _mean(weighted: int, told_us: int) -> float:
    return weighted / (told_us * ACTIVITY_SCALE)
