"""What performance counters tell of active hours: asked for by host where it is read from ticks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gua.core.metrics import ACTIVITY_SCALE
from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, Moment, View
from gua.report.asking import Asking
from gua.report.questions import Answer, ask, ask_if
from gua.report.sections.usefulness.model import METRICS, BusyWithFewSms, MeanActivity, OwnerActivity

_NO_HOUR: Final = -1  # an empty list of numbers has no type in SQL


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


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedActivity:
    """The answers, as they are wanted: of owners and runs none is asked for where no card tells anything."""

    cards: Answer[ActivityRow]
    owners: Sequence[Answer[OwnerActivityRow]]
    runs: Sequence[Answer[BusyWithFewSmsRow]]


def ask_activity(asking: Asking) -> AskedActivity:
    """Ask what cards tell; of those of a large fleet a question for every few hosts."""
    cards = ask(asking.reader, ACTIVITY, asking.read)
    kept: list[Sequence[ActivityRow]] = []

    def told() -> Sequence[ActivityRow]:
        if not kept:
            kept.append(cards())
        return kept[0]

    hours = [hour.hour for hour in asking.hours] or [_NO_HOUR]
    parts = [{**asking.bounds, "hosts": hosts, "tick_hours": hours} for hosts in asking.hosts_of_ticks(asking.hours)]
    return AskedActivity(
        cards=told,
        owners=[ask_if(asking.reader, told, ACTIVITY_OWNERS, part) for part in parts],
        runs=[ask_if(asking.reader, told, BUSY_WITH_FEW_SMS, part) for part in parts],
    )


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
        BusyWithFewSms(
            host=row.host,
            gpu=row.gpu,
            index=row.gpu_index,
            model=row.model,
            since_ms=row.since_ms,
            until_ms=row.until_ms,
            observed_ms=row.observed_ms,
            gpu_ms=row.gpu_us / 1000,
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
