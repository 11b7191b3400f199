"""The catalogue's names as Prometheus has them.

https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/ : dots become underscores, the unit
and, for counters, ``_total`` come at the end. They are the names that the Collector's prometheus exporter gives.
"""

from __future__ import annotations

from typing import Final

from gua.core.metrics import Metric, MetricKind

_UNITS: Final = {"s": "seconds", "By": "bytes", "J": "joules", "W": "watts", "Cel": "celsius"}
_RATIO: Final = "ratio"


def is_counter(metric: Metric) -> bool:
    """Return whether the metric only grows: amounts of ticks are summed up for Prometheus, which knows no deltas."""
    return metric.kind in (MetricKind.DELTA, MetricKind.COUNTER)


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
