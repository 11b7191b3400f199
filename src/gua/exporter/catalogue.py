"""Prometheus metrics of a tick: the OpenTelemetry catalogue with counters, card states and allocations.

Names follow https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/: dots become
underscores; the unit and, for counters, ``_total`` are suffixes. The Collector's prometheus exporter yields the same.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample

from gua.core import fields, metrics
from gua.core.allocation import parts, use
from gua.core.facts import busiest, card_facts, ratio, totals_by_type
from gua.core.fields import Field, PointForm
from gua.core.metrics import Metric, MetricKind
from gua.core.plaintext import storable
from gua.core.rules import SHIPPED, State, classify, process_state, without_process
from gua.core.tick import (
    AgentReading,
    AllocationSourceReading,
    CardReading,
    Origin,
    ProcessReading,
    Tick,
)
from gua.core.words import Mig, ProcessList, ProcessType, Use

Labels = dict[str, str]
Sums = dict[str, dict[str, float]]
"""Counter values by series (its labels as text) and counter name."""

_UNITS: Final = {"s": "seconds", "By": "bytes", "J": "joules", "W": "watts", "Cel": "celsius"}
_RATIO: Final = "ratio"

clean: Final = lru_cache(maxsize=4096)(storable)
"""Label value without NUL and lone surrogates, cut to 256 characters, as in OTLP export."""


def new_family(name: str, text: str, *, is_counter: bool = False) -> Family:
    """Return a metric family without samples; ``name`` is without the suffix ``_total`` of counters."""
    return Family(name, text, "counter" if is_counter else "gauge")


def add(family: Family, labels: Labels, value: float) -> None:
    """Add a sample to the family, with the suffix ``_total`` for counters. The labels are not copied."""
    family.samples.append(Sample(family.name + "_total" * (family.type == "counter"), labels, value))


def labels_of(values: Iterable[tuple[str, object]]) -> Labels:
    """Return attributes as labels; values that are ``None`` or empty are left out."""
    return {label_name(name): clean(str(value)) for name, value in values if value not in {None, ""}}


def is_counter(metric: Metric) -> bool:
    """Return whether the metric is a Prometheus counter. Deltas count: Prometheus lacks them, so ticks are summed."""
    return metric.kind in {MetricKind.DELTA, MetricKind.COUNTER}


def family_name(metric: Metric) -> str:
    """Return the metric's Prometheus name with its unit, without the suffix ``_total`` of counters."""
    name = label_name(metric.name)
    # Annotations such as {process} are not units.
    unit = _UNITS.get(metric.unit)
    if metric.unit == "1" and metric.kind is MetricKind.GAUGE:
        unit = _RATIO
    return name if unit is None or unit in name.split("_") else f"{name}_{unit}"


def label_name(attribute: str) -> str:
    """Return the Prometheus label name of an OpenTelemetry attribute: dots become underscores."""
    return attribute.replace(".", "_")


@dataclass(frozen=True, slots=True)
class Series:
    """Labels of a card, process, allocation or source, and its counter values by name."""

    labels: Labels = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    def total(self, name: str, amount: float) -> float:
        """Add the amount of this tick to the named counter and return its value, rounded to three decimals."""
        total = self.sums[name] = round(amount + self.sums.get(name, 0), 3)
        return total

    def add_fields(self, families: Mapping[str, Family], every: Iterable[Field], reading: object) -> None:
        """Add a sample of each field to its metric's family: deltas as running sums; unknown values are left out."""
        for each in every:
            number = each.form.to_wire(getattr(reading, each.name))
            if number is None:
                continue
            if each.metric.kind is MetricKind.DELTA:
                # Keyed by field: several fields of one metric may differ in attributes only.
                number = self.total(f"{each.metric.name} {each.name}", number)
            labels = self.labels | labels_of(each.attributes) if each.attributes else self.labels
            add(families[each.metric.name], labels, number)


class Counters:
    """Counter values of a card's series before and after a tick; a series missing from a tick loses its values."""

    def __init__(self, before: Sums) -> None:
        self.before = before
        self.after: Sums = {}

    def series(self, labels: Labels) -> Series:
        """Return the series with these labels and its counter values so far; it counts as part of this tick."""
        key = str(labels)
        sums = self.after[key] = dict(self.before.get(key, {}))
        return Series(labels, sums)

    def had(self, labels: Labels) -> bool:
        """Return whether the previous tick contained the series."""
        return str(labels) in self.before

    def has(self, labels: Labels) -> bool:
        """Return whether this tick already contains the series: a page must not contain a series twice."""
        return str(labels) in self.after


_USE_TIME: Final = "gua_gpu_use_time_seconds"
_USE: Final = "gua_gpu_allocation_use"
_EMPTY_DURATION: Final = "gua_gpu_allocation_empty_duration_seconds"
_SOURCE_OK: Final = "gua_allocation_source_ok"
_HELP: Final = {
    _USE_TIME: "GPU time of the card by what became of it: used, held, used-by-others and empty of what was allocated, "
    "unallocated-use and free of the rest, or unknown.",
    _USE: "1 for what becomes of the allocation in the last tick; no sample for others.",
    _EMPTY_DURATION: "For how long the allocation has been empty, in ticks in a row; 0 while it is not, no sample "
    "while that is unknown.",
    _SOURCE_OK: "1 while the source of allocations can be read, 0 while it cannot.",
}
# These identify an allocation and its owner on each of its series, so that alerts need no join.
_NAMED: Final = ("gua.allocation.owner", "slurm.job.name", "k8s.pod.name", "k8s.namespace.name")
_BREAK_INTERVALS: Final = 2

_Key = tuple[str, str]


def _add_use_time(made: Mapping[str, Family], card: CardReading, state: State, counters: Counters) -> None:
    uses = {each: labels_of([("hw.id", card.uuid), ("use", each)]) for each in Use}
    if card.mig is Mig.PARENT and not card.gpu_time_ms and not counters.had(uses[Use.FREE]):
        return  # no unallocated MIG slices at this tick or the one before
    times = dict.fromkeys(Use, 0)
    for part in parts(card, state):
        times[part.use] += part.gpu_time_ms
    for each, gpu_time_ms in times.items():
        add(made[_USE_TIME], uses[each], counters.series(uses[each]).total(_USE_TIME, gpu_time_ms / 1000))


def add_source(made: Mapping[str, Family], source: AllocationSourceReading, counters: Counters) -> None:
    """Add whether an allocation source is readable and its time by status. The reason is for ``gua status`` only."""
    labels = labels_of([("gua.allocation.source", source.source)])
    add(made[_SOURCE_OK], labels, int(source.reason is None))
    status, other = ("ok", "failed") if source.reason is None else ("failed", "ok")
    duration = metrics.ALLOCATION_SOURCE_DURATION.name
    for each, amount in ((status, source.duration_ms / 1000), (other, 0)):
        with_status = labels | {"gua_allocation_source_status": each}
        if each == status or counters.had(with_status):
            add(made[duration], with_status, counters.series(with_status).total(duration, amount))
    series = counters.series(labels)
    series.add_fields(made, fields.SOURCE_FIELDS, source)


# These identify a process's container, pod or job on each of its series, so that alerts need no join.
_HOLDER: Final = (
    "container.id",
    "k8s.pod.uid",
    "slurm.job.id",
    "k8s.pod.name",
    "k8s.namespace.name",
    "k8s.container.name",
)
_PROCESS_DURATION: Final = Field(name="duration_ms", metric=metrics.PROCESS_SAMPLE_DURATION, form=PointForm.MILLI)
_RESERVED: Final = "__"
"""Prefix of labels that Prometheus reserves; a second ``__name__`` makes a page invalid."""
_STATE_HELP: Final = {
    "gua_gpu_state": "1 for the state that the card was in over the last tick, 0 for the others.",
    "gua_gpu_active_without_process": "1 if the active card had no process and no held memory over the last tick, else "
    "0; no sample where that is unknown, or the card is not active.",
    "gua_gpu_unknown": "1 for the reason why the state of the card is unknown; no sample where it is known.",
    "gua_process_state": "1 for the state that the process was in over the last tick; no sample for others, "
    "nor for ignored processes.",
}


class Catalogue:
    """Converts ticks to metric families, in order; counters add up the ticks since the first.

    A counter continues through ticks with an unknown amount, and ends with its card or process.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}
        self._sources: Sums = {}
        self._empty: dict[str, tuple[int, Mapping[_Key, int]]] = {}
        """By card: its last tick [Unix ms], and for how long each of its allocations has been empty [ms]."""

    def families(self, tick: Tick) -> list[Family]:
        """Return the families of a tick: cards, processes, allocations, agent and ``target_info``.

        Unknown values, and whatever this tick does not contain, have no sample.
        """
        made = {
            each.name: new_family(family_name(each), each.description, is_counter=is_counter(each))
            for each in metrics.CATALOGUE
        }
        others = _STATE_HELP | _HELP
        made |= {name: new_family(name, text, is_counter=name == _USE_TIME) for name, text in others.items()}
        after: dict[str, Sums] = {}
        for card in tick.cards:
            uuid = clean(card.uuid)
            if uuid not in after:  # a page must not contain a series twice
                counters = Counters(self._sums.get(uuid, {}))
                self._add_card(made, card, counters, tick)
                after[uuid] = counters.after
        # A card without a tick for more than two intervals is forgotten: its empty time starts at 0 again.
        longest_ms = _BREAK_INTERVALS * tick.origin.interval_ms
        self._empty = {uuid: seen for uuid, seen in self._empty.items() if abs(tick.ts_ms - seen[0]) <= longest_ms}
        sources = Counters(self._sources)
        for source in {clean(each.source): each for each in tick.allocation_sources}.values():
            add_source(made, source, sources)
        if tick.agent is not None:
            _add_agent(made, tick.agent)
        self._sums, self._sources = after, sources.after
        return [*made.values(), target_info(tick.origin)]

    def _add_card(self, made: dict[str, Family], card: CardReading, counters: Counters, tick: Tick) -> None:
        series = counters.series(labels_of([("hw.id", card.uuid)]))
        series.add_fields(made, fields.CARD_FIELDS, card)
        if card.failed is not None:
            _add(made, metrics.STATUS, int(not card.failed), series.labels | labels_of(fields.STATUS_OK))
        values = [(key, getattr(card, name)) for key, name in metrics.CARD_FACTS.items()]
        info = labels_of((key, str(value).lower() if isinstance(value, bool) else value) for key, value in values)
        _add(made, metrics.INFO, 1, series.labels | info)
        _add(made, metrics.PROCESS_UTILIZATION_MAX, busiest(card.processes), series.labels)
        if card.process_list is ProcessList.KNOWN:
            for kind, of_type in totals_by_type(card.processes).items():
                labels = series.labels | {"gua_process_type": kind.value}
                _add(made, metrics.PROCESS_COUNT, of_type.count, labels)
                _add(made, metrics.PROCESS_MEMORY, of_type.memory_bytes, labels)
                _add(made, metrics.PROCESS_MEMORY_UNKNOWN, of_type.unknown, labels)
        state = _add_state(made, card, series.labels)
        self._add_allocations(made, card, state, counters, tick)
        for process in card.processes:
            labels = labels_of(
                [
                    ("hw.id", card.uuid),
                    ("process.pid", process.pid),
                    ("process.creation.time", fields.moment(process.created_ms)),
                    ("process.owner", process.owner),
                    ("gua.process.comm", process.comm),
                    *((name, getattr(process, metrics.PROCESS_FACTS[name])) for name in _HOLDER),
                ]
            )
            if not counters.has(labels):
                _add_process(made, card, process, counters.series(labels))
        if card.process_list is not ProcessList.KNOWN and not card.processes:
            counters.after = counters.before | counters.after  # the unlisted processes may still run

    def _add_allocations(
        self, made: Mapping[str, Family], card: CardReading, state: State, counters: Counters, tick: Tick
    ) -> None:
        """Add the samples of a card's allocations and GPU time by use; none if its allocations were not read."""
        ts_ms, interval_ms = tick.ts_ms, tick.origin.interval_ms
        if card.allocation is None:
            return
        _add_use_time(made, card, state, counters)
        seen_ms, before = self._empty.get(card.uuid, (0, {}))
        if not 0 <= ts_ms - card.duration_ms - seen_ms <= _BREAK_INTERVALS * interval_ms:
            before = {}
        # After a source failed, missing allocations may still exist: their empty time is retained.
        is_known = card.unallocated_gpu_time_ms is not None
        empty_ms: dict[_Key, int] = {} if is_known else dict(before)
        for allocation in card.allocations:
            ids = zip(metrics.ALLOCATION_ATTRIBUTES, (card.uuid, allocation.source, allocation.id), strict=True)
            names = ((name, getattr(allocation, metrics.ALLOCATION_FACTS[name])) for name in _NAMED)
            labels = labels_of([*ids, *names])
            if counters.has(labels):
                continue
            series = counters.series(labels)
            series.add_fields(made, fields.ALLOCATION_FIELDS, allocation)
            others = ((name, key) for name, key in metrics.ALLOCATION_FACTS.items() if name not in _NAMED)
            values = ((name, key, getattr(allocation, key)) for name, key in others)
            info = ((name, fields.moment(value) if key in fields.MOMENTS else value) for name, key, value in values)
            add(made[metrics.ALLOCATION_INFO.name], labels | labels_of(info), 1)
            has_ended = allocation.until_ms is not None and allocation.until_ms <= ts_ms
            if has_ended or card.mig is Mig.PARENT:  # unallocated MIG slices cannot have processes
                continue
            key = allocation.source, allocation.id
            now = use(state, allocation.relation)
            add(made[_USE], labels | {"use": str(now)}, 1)
            # Unknown use neither ends the empty time nor adds to it.
            empty_ms[key] = before.get(key, 0) if now in {Use.EMPTY, Use.UNKNOWN} else 0
            empty_ms[key] += allocation.duration_ms if now is Use.EMPTY else 0
            if now is not Use.UNKNOWN:
                add(made[_EMPTY_DURATION], labels, empty_ms[key] / 1000)
        self._empty[card.uuid] = ts_ms, empty_ms


def target_info(origin: Origin) -> Family:
    """Return the ``target_info`` metric of OpenTelemetry: one sample with the OTLP resource attributes as labels."""
    own = {
        "host_name": origin.host,
        "host_id": origin.host_id,
        "service_name": origin.service_name,
        "service_version": origin.service_version,
        "service_instance_id": origin.instance_id,
        "gua_sample_interval": f"{origin.interval_ms / 1000:g}",
        "gua_source": str(origin.source),
    }
    further = {_legal(key): value for key, value in origin.attributes if not _legal(key).startswith(_RESERVED)}
    family = new_family("target_info", "What the agent's OTLP resource says of it.")
    add(family, labels_of((further | own).items()), 1)
    return family


def _add(made: dict[str, Family], metric: Metric, value: float | None, labels: Labels) -> None:
    if value is not None and math.isfinite(value):
        add(made[metric.name], labels, value)


def _add_process(made: dict[str, Family], card: CardReading, process: ProcessReading, series: Series) -> None:
    series.add_fields(made, [_PROCESS_DURATION], card)
    series.add_fields(made, fields.PROCESS_FIELDS, process)
    info = labels_of((key, getattr(process, name)) for key, name in metrics.PROCESS_FACTS.items() if key not in _HOLDER)
    _add(made, metrics.PROCESS_INFO, 1, series.labels | info)
    if process.type is not ProcessType.IGNORED:
        state = process_state(ratio(process.utilization), SHIPPED)
        add(made["gua_process_state"], series.labels | {"state": str(state)}, 1)


def _add_state(made: dict[str, Family], card: CardReading, labels: Labels) -> State:
    facts = card_facts(card)
    verdict = classify(facts, SHIPPED)
    if card.mig is Mig.PARENT and card.gpu_time_ms == 0:
        return verdict.state  # fully partitioned: a sample would count as one more card
    for state in State:
        add(made["gua_gpu_state"], labels | {"state": str(state)}, int(state is verdict.state))
    if (without := without_process(facts, SHIPPED)) is not None:
        add(made["gua_gpu_active_without_process"], labels, int(without))
    if verdict.reason is not None:
        add(made["gua_gpu_unknown"], labels | {"reason": str(verdict.reason)}, 1)
    return verdict.state


def _add_agent(made: dict[str, Family], agent: AgentReading) -> None:
    Series().add_fields(made, fields.AGENT_FIELDS, agent)
    # Cleaning may make two codes equal, and a page must not contain a series twice.
    errors: defaultdict[tuple[str, str], int] = defaultdict(int)
    for error in agent.errors:
        errors[clean(error.call), clean(error.code)] += error.count
    for (call, code), count in errors.items():
        _add(made, metrics.AGENT_ERRORS, count, labels_of([("call", call), ("code", code)]))


def _legal(name: str) -> str:
    """Return a user's attribute name as a label name: characters other than letters, digits and _ become _."""
    legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal or "_"
