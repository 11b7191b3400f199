"""The exporters whose samples can be imported, as exporters.toml declares them: a new one is a table there."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from gua.core.fields import CARD_FIELDS

FREE: Final = "memory_free_bytes"
"""Name for free memory: no column, but used + free + reserved memory is the card's."""
_MOST_BYTES: Final = 2**50
_NEWEST: Final = "the driver's mean of its last second"
_UNITS: Final = {"percent": 0.01, "MiB": 2**20, "mW": 0.001, "mJ": 0.001}
"""Factors of the units that differ from those of readings: ratios, bytes, watts, degrees, joules."""
_STORED: Final = {one.column.name: one.column.scale for one in CARD_FIELDS if one.column is not None}
# The largest stored values that are plausible; ratios are at most 1.
_MOST: Final = {
    "power_mw": 100_000_000,
    "temperature_celsius": 300,
    "energy_total_mj": 2**53,
    "xid": 65_535,
    **dict.fromkeys(("memory_used_bytes", "memory_limit_bytes", "memory_reserved_bytes", FREE), _MOST_BYTES),
}


class Measure(NamedTuple):
    """A metric for a column of ``gua.card_ticks``: stored value = sample x ``scale``, within ``least`` and ``most``.

    A sample outside these limits is unknown. ``matchers`` are further matchers of the selector. On MIG instances
    exporters repeat the values of the whole GPU, or 0: ``whole_only`` leaves them out there.
    """

    column: str
    metric: str
    scale: float
    most: int
    least: int = 0
    matchers: str = ""
    whole_only: bool = False

    @property
    def selector(self) -> str:
        """Return the selector of the metric's series."""
        return f"{self.metric}{{{self.matchers}}}" if self.matchers else self.metric


class ProcessMeasure(NamedTuple):
    """A metric with a series per process and card: a ``ProcessReading``'s ``field`` = sample x ``scale``."""

    field: str
    metric: str
    scale: float
    most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporter:
    """Metrics and labels of one exporter. Of several label names, the first that a series has counts.

    ``measures``: of several for one column, the first with a sample counts. A card was read when a metric of
    ``first`` has a sample. ``sampled`` says what one sample of utilization is. ``reserve_excluded``: used memory
    excludes the driver's reserve, which is not exported. ``settings`` are what to set where something is missing.
    ``instance`` and ``profile`` are labels of MIG instances that have the UUID of their GPU. ``job_metrics`` have the
    number of a Slurm job and of its user as value.
    """

    name: str
    measures: tuple[Measure, ...]
    first: tuple[str, ...]
    sampled: str = _NEWEST
    uuid: tuple[str, ...] = ("uuid",)
    index: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    info: str = ""
    has_pods: bool = False
    job: tuple[str, ...] = ()
    job_user: tuple[str, ...] = ()
    job_metrics: tuple[str, str] | None = None
    processes: tuple[ProcessMeasure, ...] = ()
    pid: str = "pid"
    user: str = ""
    program: str = ""
    program_info: str = ""
    reserve_excluded: bool = False
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return all metric names, each once."""
        names = [*(one.metric for one in self.measures), *(one.metric for one in self.processes)]
        return tuple(dict.fromkeys((*names, *(self.job_metrics or ()))))


def _measure(column: str, metric: str, unit: str, *, matchers: str = "", whole_only: bool = False) -> Measure:
    """Return the measure of a row of exporters.toml: its scale is the unit's times that of the stored column."""
    of_column = _STORED.get(column, 1)
    most = _MOST.get(column, of_column)
    least = -100 if column == "temperature_celsius" else 0
    return Measure(column, metric, _UNITS.get(unit, 1) * of_column, most, least, matchers, whole_only)


def _process_measure(field: str, metric: str, unit: str) -> ProcessMeasure:
    return ProcessMeasure(field, metric, _UNITS.get(unit, 1), 1 if field == "utilization" else _MOST_BYTES)


def _exporter(row: dict[str, Any]) -> Exporter:
    """Return the exporter of a table of exporters.toml."""
    measures = tuple(_measure(**each) for each in row.pop("measures"))
    processes = tuple(_process_measure(**each) for each in row.pop("processes", ()))
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Exporter(measures=measures, processes=processes, **values)


_TABLE: Final = Path(__file__).with_name("exporters.toml")
EXPORTERS: Final = tuple(_exporter(row) for row in tomllib.loads(_TABLE.read_text("utf-8"))["exporter"])
"""In the order of preference for a card that several of them export at the same time."""

POD_LABELS: Final = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"))
"""Labels of a card's pod and namespace: without ``honor_labels``, with it, and with dcgm-exporter's old names."""
REPLICA_LABELS: Final = frozenset({"prometheus_replica", "replica", "__replica__", "prometheus"})
CLUSTER_LABEL: Final = "cluster"
NODE_LABELS: Final = ("node", "kubernetes_node", "nodename")
DRA_PREFIX: Final = "dra_"
"""Prefix of labels of cards that Kubernetes allocated by Dynamic Resource Allocation."""
OWNER_METRIC: Final = "kube_pod_owner"
POD_LABELS_METRIC: Final = "kube_pod_labels"
