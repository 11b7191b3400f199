"""Allocations on the page: whom each card is promised to, what became of it, and for how long nobody has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from gua.core import fields, metrics
from gua.core.allocation import parts, use
from gua.core.rules import State
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading
from gua.core.words import Mig, Use
from gua.exporter.counters import Counters
from gua.exporter.families import Family, braced, inside
from gua.exporter.names import label_name

USE_TIME: Final = "gua_gpu_use_time_seconds"
USE: Final = "gua_gpu_allocation_use"
EMPTY_DURATION: Final = "gua_gpu_allocation_empty_duration_seconds"
SOURCE_OK: Final = "gua_allocation_source_ok"
HELP: Final[Mapping[str, str]] = {
    USE_TIME: "GPU time of the card by what became of it: used, held, used-by-others and empty of what was promised, "
    "unallocated-use and free of the rest, or unknown.",
    USE: "1 for what becomes of the allocation in the last tick; no sample for others.",
    EMPTY_DURATION: "For how long the allocation has been empty, in ticks in a row; 0 while it is not, no sample while "
    "that is unknown.",
    SOURCE_OK: "1 while the source of allocations can be read, 0 while it cannot.",
}
COUNTERS: Final = frozenset({USE_TIME})
# What names an allocation, and whose it is, on each of its series: alerts need no join.
_NAMED: Final = ("gua.allocation.owner", "slurm.job.name", "k8s.pod.name", "k8s.namespace.name")
_BREAK_INTERVALS: Final = 2

_MOST_LABELS: Final = 2048
_facts: Final = attrgetter("source", "id", *fields.ALLOCATION_INFO.values())

_Key = tuple[str, str]
_Facts = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A card at its last tick: for how long [ms] each of its allocations has been empty."""

    ts_ms: int
    empty_ms: Mapping[_Key, int] = field(default_factory=dict)


class AllocationSeries:
    """Adds what ticks say of allocations to families; remembers for how long each has been empty."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._labels: dict[_Facts, tuple[str, str]] = {}

    def add_card(  # noqa: PLR0913 - a card, its verdict, and where its samples go
        self,
        made: Mapping[str, Family],
        card: CardReading,
        state: State,
        identity: str,
        counters: Counters,
        *,
        ts_ms: int,
        interval_ms: int,
    ) -> set[str]:
        """Add a card's samples, and return the labels of its allocations: their sums go on with them."""
        if card.allocation is None:
            return set()
        # Slices that no instance has: none at this tick, and maybe some before.
        was_told = (USE_TIME, _use_labels(identity, Use.FREE)) in counters.before
        if card.mig is not Mig.PARENT or card.gpu_time_ms or was_told:
            self._add_use_time(made, card, state, identity, counters)
        before = self._before(card, ts_ms, interval_ms)
        # Of what a failed source does not tell any more, nobody knows that it has ended.
        is_known = card.unallocated_gpu_time_ms is not None
        empty_ms: dict[_Key, int] = {} if is_known else dict(before)
        there: set[str] = set()
        for allocation in card.allocations:
            key = allocation.source, allocation.id
            labels, info = self._labels_of(card.uuid, allocation)
            if labels in there:  # a series may stand on a page once only
                continue
            there.add(labels)
            _add_amounts(made, allocation, labels, counters)
            made[metrics.ALLOCATION_INFO.name].add(info, 1)
            has_ended = allocation.until_ms is not None and allocation.until_ms <= ts_ms
            if has_ended or card.mig is Mig.PARENT:  # nobody could come to slices that no instance has
                continue
            now = use(state, allocation.relation)
            made[USE].add(f'{{{labels},use="{now}"}}', 1)
            empty_ms[key] = _empty_ms(now, before.get(key, 0), allocation.duration_ms)
            if now is not Use.UNKNOWN:
                made[EMPTY_DURATION].add(f"{{{labels}}}", empty_ms[key] / 1000)
        self._seen[card.uuid] = _Seen(ts_ms, empty_ms)
        return there

    def _labels_of(self, uuid: str, allocation: AllocationReading) -> tuple[str, str]:
        """Return an allocation's labels, and those of its info; they are seldom other ones than a tick ago."""
        facts = (uuid, *_facts(allocation))
        labels = self._labels.get(facts)
        if labels is None:
            if len(self._labels) >= _MOST_LABELS:
                self._labels.clear()
            identity = _identity(uuid, allocation)
            labels = self._labels[facts] = identity, f"{{{identity},{_info(allocation)}}}"
        return labels

    def forget(self, *, ts_ms: int, interval_ms: int) -> None:
        """Forget cards that have not been in a tick for so long that what they are at begins anew."""
        longest_ms = _BREAK_INTERVALS * interval_ms
        self._seen = {uuid: seen for uuid, seen in self._seen.items() if abs(ts_ms - seen.ts_ms) <= longest_ms}

    def _before(self, card: CardReading, ts_ms: int, interval_ms: int) -> Mapping[_Key, int]:
        seen = self._seen.get(card.uuid)
        if seen is None or not 0 <= ts_ms - card.duration_ms - seen.ts_ms <= _BREAK_INTERVALS * interval_ms:
            return {}
        return seen.empty_ms

    @staticmethod
    def _add_use_time(
        made: Mapping[str, Family], card: CardReading, state: State, identity: str, counters: Counters
    ) -> None:
        times = dict.fromkeys(Use, 0)
        for part in parts(card, state):
            times[part.use] += part.gpu_time_ms
        for each, gpu_time_ms in times.items():
            labels = _use_labels(identity, each)
            made[USE_TIME].add(f"{{{labels}}}", counters.added(USE_TIME, labels, gpu_time_ms / 1000))


def add_source(made: Mapping[str, Family], source: AllocationSourceReading, counters: Counters) -> str:
    """Add whether a source can be read, and for how long it could and could not; why not is for gua status.

    Returns the labels of its other sums: they go on with them where a tick does not tell its amount.
    """
    name = [("gua_allocation_source", source.source)]
    made[SOURCE_OK].add(braced(name), int(source.reason is None))
    status, other = ("ok", "failed") if source.reason is None else ("failed", "ok")
    duration = metrics.ALLOCATION_SOURCE_DURATION.name
    for each, amount in ((status, source.duration_ms / 1000), (other, 0)):
        labels = inside([*name, ("gua_allocation_source_status", each)])
        if each == status or (duration, labels) in counters.before:
            made[duration].add(f"{{{labels}}}", counters.added(duration, labels, amount))
    labels = inside(name)
    for each_field in fields.SOURCE_FIELDS:
        value = each_field.form.to_wire(getattr(source, each_field.name))
        if value is not None:
            family = each_field.metric.name
            is_gauge = each_field.metric.kind is metrics.MetricKind.GAUGE
            made[family].add(f"{{{labels}}}", value if is_gauge else counters.added(family, labels, value))
    return labels


def _use_labels(identity: str, each: Use) -> str:
    return f'{identity},use="{each}"'


def _identity(uuid: str, allocation: AllocationReading) -> str:
    names = [*zip(metrics.ALLOCATION_ATTRIBUTES, (uuid, allocation.source, allocation.id), strict=True)]
    names += [(name, getattr(allocation, fields.ALLOCATION_INFO[name])) for name in _NAMED]
    return inside([(label_name(name), value) for name, value in names])


def _info(allocation: AllocationReading) -> str:
    """Return what of an allocation is not on each of its series."""
    return inside(
        (label_name(name), fields.moment(value) if key in fields.MOMENTS else value)
        for name, key in fields.ALLOCATION_INFO.items()
        if name not in _NAMED
        for value in [getattr(allocation, key)]
    )


def _add_amounts(made: Mapping[str, Family], allocation: AllocationReading, labels: str, counters: Counters) -> None:
    for each in fields.ALLOCATION_FIELDS:
        amount = getattr(allocation, each.name) / 1000
        made[each.metric.name].add(f"{{{labels}}}", counters.added(each.metric.name, labels, amount))


def _empty_ms(now: Use, before_ms: int, duration_ms: int) -> int:
    """Return for how long an allocation has been empty: what is unknown neither ends that nor counts for it."""
    if now is Use.EMPTY:
        return before_ms + duration_ms
    return before_ms if now is Use.UNKNOWN else 0
