"""Metric families for Prometheus: their names, their labels, and sums of amounts over ticks.

Names: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/ : dots become underscores, the
unit and, for counters, ``_total`` come at the end. The Collector's prometheus exporter gives the same names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample

from gua.core.fields import Field
from gua.core.metrics import Metric, MetricKind
from gua.core.plaintext import storable

Labels = dict[str, str]
Sums = dict[str, dict[str, float]]
"""By a series' labels, as text, its sums by a name for each."""

_UNITS: Final = {"s": "seconds", "By": "bytes", "J": "joules", "W": "watts", "Cel": "celsius"}
_RATIO: Final = "ratio"

clean: Final = lru_cache(maxsize=4096)(storable)
"""Return a label's value without NUL and lone surrogates, of at most 256 characters, as OTLP has it."""


def new_family(name: str, text: str, *, is_counter: bool = False) -> Family:
    """Return a family without samples; ``name`` is without the ``_total`` that samples of counters have."""
    return Family(name, text, "counter" if is_counter else "gauge")


def add(family: Family, labels: Labels, value: float) -> None:
    """Add a sample. The labels are not copied."""
    family.samples.append(Sample(family.name + "_total" * (family.type == "counter"), labels, value))


def labels_of(values: Iterable[tuple[str, object]]) -> Labels:
    """Return attributes as labels; those that are ``None`` or empty are left out."""
    return {label_name(name): clean(str(value)) for name, value in values if value not in {None, ""}}


def is_counter(metric: Metric) -> bool:
    """Return whether the metric only grows: Prometheus has no deltas, so the amounts of ticks are summed up."""
    return metric.kind in {MetricKind.DELTA, MetricKind.COUNTER}


def family_name(metric: Metric) -> str:
    """Return the metric's name without the ``_total`` that samples of counters have."""
    name = label_name(metric.name)
    unit = _unit(metric)
    return name if unit is None or unit in name.split("_") else f"{name}_{unit}"


def label_name(attribute: str) -> str:
    """Return an attribute's name as a label."""
    return attribute.replace(".", "_")


def _unit(metric: Metric) -> str | None:
    if metric.unit == "1":
        return _RATIO if metric.kind is MetricKind.GAUGE else None
    return _UNITS.get(metric.unit)  # annotations as in {process} are no units


@dataclass(frozen=True, slots=True)
class Series:
    """The labels of a card, process, allocation or source, and its sums by a name for each."""

    labels: Labels = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    def total(self, name: str, amount: float) -> float:
        """Return the sum with the amount of this tick, to three decimals, which is how amounts are counted."""
        total = self.sums[name] = round(amount + self.sums.get(name, 0), 3)
        return total

    def add_field(self, families: Mapping[str, Family], each: Field, value: float | None) -> None:
        """Add a field to the family of its metric: an amount of the tick as the sum of all, the unknown not at all."""
        number = each.form.to_wire(value)
        if number is None or not math.isfinite(number):
            return
        if each.metric.kind is MetricKind.DELTA:
            # By the field: a metric may have several that differ in attributes.
            number = self.total(f"{each.metric.name} {each.name}", number)
        labels = self.labels | labels_of(each.attributes) if each.attributes else self.labels
        add(families[each.metric.name], labels, number)


class Counters:
    """The sums of a card and of what is on it, before and after a tick. A series keeps its sums while ticks name it."""

    def __init__(self, before: Sums) -> None:
        self.before = before
        self.after: Sums = {}

    def series(self, labels: Labels) -> Series:
        """Return the series of these labels with its sums so far."""
        key = str(labels)
        sums = self.after[key] = dict(self.before.get(key, {}))
        return Series(labels, sums)

    def had(self, labels: Labels) -> bool:
        """Return whether the last tick named the series."""
        return str(labels) in self.before

    def has(self, labels: Labels) -> bool:
        """Return whether this tick named the series already: it may stand on a page once only."""
        return str(labels) in self.after
