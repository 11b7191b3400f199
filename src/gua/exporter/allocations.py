"""Allocations on the page: whom each card is promised to, what became of it, and for how long nobody has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import Metric as Family

from gua.core import fields, metrics
from gua.core.allocation import parts, use
from gua.core.rules import State
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading
from gua.core.words import Mig, Use
from gua.exporter.families import Counters, Labels, add, labels_of, new_family

_USE_TIME: Final = "gua_gpu_use_time_seconds"
_USE: Final = "gua_gpu_allocation_use"
_EMPTY_DURATION: Final = "gua_gpu_allocation_empty_duration_seconds"
_SOURCE_OK: Final = "gua_allocation_source_ok"
_HELP: Final[Mapping[str, str]] = {
    _USE_TIME: "GPU time of the card by what became of it: used, held, used-by-others and empty of what was promised, "
    "unallocated-use and free of the rest, or unknown.",
    _USE: "1 for what becomes of the allocation in the last tick; no sample for others.",
    _EMPTY_DURATION: "For how long the allocation has been empty, in ticks in a row; 0 while it is not, no sample "
    "while that is unknown.",
    _SOURCE_OK: "1 while the source of allocations can be read, 0 while it cannot.",
}
# What names an allocation, and whose it is, on each of its series: alerts need no join.
_NAMED: Final = ("gua.allocation.owner", "slurm.job.name", "k8s.pod.name", "k8s.namespace.name")
_BREAK_INTERVALS: Final = 2

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A card at its last tick: for how long [ms] each of its allocations has been empty."""

    ts_ms: int
    empty_ms: Mapping[_Key, int]


def new_families() -> dict[str, Family]:
    """Return the families that are not metrics of the catalogue, by their names."""
    return {name: new_family(name, text, is_counter=name == _USE_TIME) for name, text in _HELP.items()}


class AllocationSeries:
    """Adds what ticks say of allocations to families; remembers for how long each has been empty."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def add_card(  # noqa: PLR0913 - a card, its verdict, and where its samples go
        self,
        made: Mapping[str, Family],
        card: CardReading,
        state: State,
        counters: Counters,
        *,
        ts_ms: int,
        interval_ms: int,
    ) -> None:
        """Add a card's samples."""
        if card.allocation is None:
            return
        _add_use_time(made, card, state, counters)
        seen = self._seen.get(card.uuid)
        before: Mapping[_Key, int] = {}
        if seen is not None and 0 <= ts_ms - card.duration_ms - seen.ts_ms <= _BREAK_INTERVALS * interval_ms:
            before = seen.empty_ms
        # Of what a failed source does not tell any more, nobody knows that it has ended.
        is_known = card.unallocated_gpu_time_ms is not None
        empty_ms: dict[_Key, int] = {} if is_known else dict(before)
        for allocation in card.allocations:
            labels = _labels(card.uuid, allocation)
            if counters.has(labels):
                continue
            series = counters.series(labels)
            for each in fields.ALLOCATION_FIELDS:
                series.add_field(made, each, getattr(allocation, each.name))
            add(made[metrics.ALLOCATION_INFO.name], labels | _info(allocation), 1)
            has_ended = allocation.until_ms is not None and allocation.until_ms <= ts_ms
            if has_ended or card.mig is Mig.PARENT:  # nobody could come to slices that no instance has
                continue
            key = allocation.source, allocation.id
            now = use(state, allocation.relation)
            add(made[_USE], labels | {"use": str(now)}, 1)
            # What is unknown neither ends the time for which it has been empty nor counts for it.
            empty_ms[key] = before.get(key, 0) if now in {Use.EMPTY, Use.UNKNOWN} else 0
            empty_ms[key] += allocation.duration_ms if now is Use.EMPTY else 0
            if now is not Use.UNKNOWN:
                add(made[_EMPTY_DURATION], labels, empty_ms[key] / 1000)
        self._seen[card.uuid] = _Seen(ts_ms, empty_ms)

    def forget(self, *, ts_ms: int, interval_ms: int) -> None:
        """Forget cards that have not been in a tick for so long that what they are at begins anew."""
        longest_ms = _BREAK_INTERVALS * interval_ms
        self._seen = {uuid: seen for uuid, seen in self._seen.items() if abs(ts_ms - seen.ts_ms) <= longest_ms}


def _add_use_time(made: Mapping[str, Family], card: CardReading, state: State, counters: Counters) -> None:
    uses = {each: labels_of([("hw.id", card.uuid), ("use", each)]) for each in Use}
    if card.mig is Mig.PARENT and not card.gpu_time_ms and not counters.had(uses[Use.FREE]):
        return  # slices that no instance has: none at this tick, and none before
    times = dict.fromkeys(Use, 0)
    for part in parts(card, state):
        times[part.use] += part.gpu_time_ms
    for each, gpu_time_ms in times.items():
        add(made[_USE_TIME], uses[each], counters.series(uses[each]).total(_USE_TIME, gpu_time_ms / 1000))


def add_source(made: Mapping[str, Family], source: AllocationSourceReading, counters: Counters) -> None:
    """Add whether a source can be read, and for how long it could and could not; why not is for gua status."""
    labels = labels_of([("gua.allocation.source", source.source)])
    add(made[_SOURCE_OK], labels, int(source.reason is None))
    status, other = ("ok", "failed") if source.reason is None else ("failed", "ok")
    duration = metrics.ALLOCATION_SOURCE_DURATION.name
    for each, amount in ((status, source.duration_ms / 1000), (other, 0)):
        with_status = labels | {"gua_allocation_source_status": each}
        if each == status or counters.had(with_status):
            add(made[duration], with_status, counters.series(with_status).total(duration, amount))
    series = counters.series(labels)
    for field in fields.SOURCE_FIELDS:
        series.add_field(made, field, getattr(source, field.name))


def _labels(uuid: str, allocation: AllocationReading) -> Labels:
    names = [*zip(metrics.ALLOCATION_ATTRIBUTES, (uuid, allocation.source, allocation.id), strict=True)]
    return labels_of([*names, *((name, getattr(allocation, fields.ALLOCATION_INFO[name])) for name in _NAMED)])


def _info(allocation: AllocationReading) -> Labels:
    """Return what of an allocation is not on each of its series."""
    return labels_of(
        (name, fields.moment(value) if key in fields.MOMENTS else value)
        for name, key in fields.ALLOCATION_INFO.items()
        if name not in _NAMED
        for value in [getattr(allocation, key)]
    )
