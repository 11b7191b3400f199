"""What a Prometheus has of GPUs in the time of an import: exporters, cards, hosts, pods, and what is missing."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.plaintext import few, safe
from gua.imports.prometheus.cards import KUBERNETES, SLURM, Directory, Labels, card_uuid, first, has_dra, place
from gua.imports.prometheus.client import Client, TooMuchError
from gua.imports.prometheus.exporters import (
    CLUSTER_LABEL,
    EXPORTERS,
    OWNER_METRIC,
    POD_LABELS_METRIC,
    Exporter,
)

_SLICE_MS: Final = 7 * 86_400_000
_LEAST_SLICE_MS: Final = 3_600_000
_SIMILAR: Final = re.compile(r"gpu|dcgm|nvidia|nvml|cuda", re.IGNORECASE)
_MOST_SIMILAR: Final = 5
_LONGEST_NAME: Final = 80
Item = TypeVar("Item")
_SPECIAL: Final = re.compile(r"[][(){}.*+?^$|\\]")
_MOST_NAMESPACES: Final = 200


@dataclass(slots=True)
class Inventory:
    """Exporters with samples, names of all metrics, the cards' UUIDs by exporter, and what labels say."""

    exporters: tuple[Exporter, ...] = ()
    metrics: frozenset[str] = frozenset()
    uuids: dict[str, set[str]] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    has_instances: bool = False
    directory: Directory = field(default_factory=Directory)

    @property
    def cards(self) -> int:
        """Return the number of cards, a MIG instance counted with its GPU."""
        return len(set[str]().union(*self.uuids.values()))

    def measured(self, exporter: Exporter, column: str) -> bool:
        """Return whether a metric for the column exists."""
        return any(one.metric in self.metrics for one in exporter.measures if one.column == column)


def survey(
    client: Client, since_ms: int, until_ms: int, *, owner_label: str | None = None, exporter: str | None = None
) -> Inventory:
    """Return what exists between two times [Unix ms], by metric names and labels alone.

    ``owner_label`` is a pod label, as kube_pod_labels has it, that names the owner; ``exporter`` the only one to read.
    Raises DataError without metrics of a known exporter, UsageError for an unknown one.
    """
    chosen = [one for one in EXPORTERS if exporter in {None, one.name}]
    if not chosen:
        names = ", ".join(one.name for one in EXPORTERS)
        raise UsageError(f"no exporter {exporter!r}: gua knows {names}")
    client.check()
    window = (since_ms, until_ms)
    every_name = _by_slices(client, "the names of metrics", window, until_ms - since_ms, client.metric_names)
    found = Inventory(metrics=frozenset(every_name))
    found.exporters = tuple(one for one in chosen if not found.metrics.isdisjoint(one.first))
    if not found.exporters:
        similar = sorted(safe(name, _LONGEST_NAME) for name in found.metrics if _SIMILAR.search(name))
        has = (
            f"it has {few(similar, _MOST_SIMILAR)}"
            if similar
            else f"none of its {len(found.metrics):,} metrics is like these"
        )
        known = ", ".join(f"{one.first[0]} ({one.name})" for one in chosen)
        raise DataError(f"{client.url} has no GPU metrics that gua knows: looked for {known}; {has}")
    read = [(one, _series_of(client, one, found.metrics, since_ms, until_ms)) for one in found.exporters]
    directory = found.directory
    found.clusters = {labels[CLUSTER_LABEL] for _, every in read for labels in every if labels.get(CLUSTER_LABEL)}
    directory.has_clusters = len(found.clusters) > 1
    _add_targets(client, directory, [labels for _, every in read for labels in every], since_ms, until_ms)
    pods: set[tuple[str, str]] = set()
    for one, every in read:
        pods |= _add_cards(found, one, every)
    if not found.cards:
        raise DataError(
            f"{client.url} has series of {few([one.name for one in found.exporters], 2)}, but none with the UUID of a "
            "card, which an import needs: see whether the exporter or relabeling drops it"
        )
    _add_owners(client, found, pods, window, owner_label)
    return found


def _series_of(
    client: Client, exporter: Exporter, metrics: frozenset[str], since_ms: int, until_ms: int
) -> list[Labels]:
    names = dict.fromkeys((*exporter.first, *([exporter.info] if exporter.info else ()), *(exporter.job_metrics or ())))
    return list(all_series(client, [name for name in names if name in metrics], since_ms, until_ms))


def all_series(client: Client, selectors: Sequence[str], since_ms: int, until_ms: int) -> Iterator[Labels]:
    """Yield the labels of the selectors' series, each at least once, a week at a time, newest first."""
    if selectors:
        name = safe(selectors[0], _LONGEST_NAME)
        yield from _by_slices(client, name, (since_ms, until_ms), _SLICE_MS, partial(client.series, selectors))


def _by_slices(
    client: Client, name: str, window: tuple[int, int], slice_ms: int, read: Callable[[int, int], list[Item]]
) -> Iterator[Item]:
    """Yield what ``read`` returns for slices of the window [Unix ms], newest first; smaller ones if it is too much."""
    since_ms, end_ms = window
    while end_ms > since_ms:
        start_ms = max(end_ms - slice_ms, since_ms)
        try:
            items = read(start_ms, end_ms)
        except TooMuchError as error:
            if slice_ms <= _LEAST_SLICE_MS:
                msg = f"{client.url} cannot list an hour of {name} ({error}): raise its limits, or try later"
                raise UnavailableError(msg) from None
            slice_ms = max(slice_ms // 4, _LEAST_SLICE_MS)
            continue
        yield from items
        end_ms = start_ms


def _add_targets(client: Client, directory: Directory, every: Sequence[Labels], since_ms: int, until_ms: int) -> None:
    """Add the targets' own labels, which ``up`` has, and the jobs whose pod labels are unclear without it."""
    jobs = sorted({labels.get("job", "") for labels in every} - {""})
    known = set()
    if jobs:
        for labels in all_series(client, [f"up{{job=~{any_of(jobs)}}}"], since_ms, until_ms):
            known.add(labels.get("job", ""))
            directory.target_labels.update(labels.keys() - {"__name__"})
            if pod := labels.get("pod"):
                directory.target_pods[place(labels)].add(pod)
    directory.unclear = {labels.get("job", "") for labels in every if labels.get("pod")} - known


def _add_cards(found: Inventory, exporter: Exporter, every: Sequence[Labels]) -> set[tuple[str, str]]:
    """Add the exporter's cards and hosts; return the pods (namespace, name) that have cards."""
    directory, order = found.directory, EXPORTERS.index(exporter)
    uuids = found.uuids.setdefault(exporter.name, set())
    pods: set[tuple[str, str]] = set()
    without: set[frozenset[tuple[str, str]]] = set()
    for labels in every:
        job = (exporter.name, labels.get("job", ""))
        uuid = card_uuid(exporter, labels)
        if uuid is None:
            without.add(frozenset(labels.items()))
            continue
        if exporter.info and labels.get("__name__") == exporter.info:
            directory.facts.setdefault((exporter.name, uuid), labels)
        uuids.add(uuid)
        found.has_instances |= first(labels, exporter.instance) is not None
        host = directory.own_host(exporter, labels)
        found.hosts.add(host)
        if order < directory.hosts.get(uuid, (len(EXPORTERS), ""))[0]:
            directory.hosts[uuid] = order, host
        if has_dra(labels):
            directory.dra_jobs.add(labels.get("job", ""))
        pod = directory.pod(exporter, labels)
        if pod is not None:
            pods.add(pod)
            directory.mapped[job] = KUBERNETES
        elif first(labels, exporter.job) or labels.get("__name__") in (exporter.job_metrics or ()):
            directory.mapped.setdefault(job, SLURM)
    if without:
        directory.left_out[f"series of {exporter.name} without the UUID of a card"] = len(without)
    return pods


def _add_owners(
    client: Client, found: Inventory, pods: set[tuple[str, str]], window: tuple[int, int], owner_label: str | None
) -> None:
    """Add uid and controller of the pods, and the owners that a label names, from kube-state-metrics."""
    namespaces = sorted({namespace for namespace, _ in pods})[:_MOST_NAMESPACES]
    if not namespaces:
        return
    for metric in (OWNER_METRIC, *([POD_LABELS_METRIC] if owner_label else ())):
        if metric not in found.metrics:
            continue
        which = any_of(namespaces)
        selectors = [f"{metric}{{namespace=~{which}}}", f"{metric}{{exported_namespace=~{which}}}"]
        for labels in all_series(client, selectors, *window):
            pod = (
                labels.get("exported_namespace") or labels.get("namespace", ""),
                labels.get("exported_pod") or labels.get("pod", ""),
            )
            if pod not in pods:
                continue
            if metric == OWNER_METRIC:
                found.directory.owners.setdefault(pod, labels)
            elif owner := first(labels, (f"label_{owner_label}",)):
                found.directory.pod_owner.setdefault(pod, owner)


def any_of(values: Sequence[str]) -> str:
    """Return a quoted regular expression for a matcher that matches each value as it is."""
    return json.dumps("|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values), ensure_ascii=False)


def sources(found: Inventory) -> Iterator[str]:
    """Yield each exporter with its GPUs, metrics and what allocates its cards."""
    for exporter in found.exporters:
        mapped = sorted({source for (name, _), source in found.directory.mapped.items() if name == exporter.name})
        allocation = f"allocation by {few(mapped, 2)}" if mapped else "no allocation"
        metrics = sum(metric in found.metrics for metric in exporter.metrics)
        yield f"{exporter.name}: {len(found.uuids.get(exporter.name, ())):,} GPUs, {metrics} metrics, {allocation}"


def missing(found: Inventory) -> Iterator[tuple[str, str]]:
    """Yield what the exporters lack for a whole report, and the setting that adds it."""
    for exporter in found.exporters:
        if not found.measured(exporter, "memory_used_bytes"):
            yield f"{exporter.name}: no metric of used memory", exporter.settings.get("memory", _UPGRADE)
        if not found.measured(exporter, "utilization"):
            yield f"{exporter.name}: no metric of utilization", exporter.settings.get("utilization", _UPGRADE)
    dcgm = next((one for one in found.exporters if one.has_pods), None)
    if dcgm is None:
        return
    if not any(name == dcgm.name for name, _ in found.directory.mapped):
        yield f"{dcgm.name}: no pod and no Slurm job on any card", dcgm.settings["pods"]
    if found.has_instances and "DCGM_FI_PROF_GR_ENGINE_ACTIVE" not in found.metrics:
        yield f"{dcgm.name}: MIG instances have no utilization", dcgm.settings["mig"]
    for job in sorted(found.directory.unclear):
        yield (
            f"job {safe(job, _LONGEST_NAME)}: pods of cards and of the exporter look alike without the metric up",
            "store up for this job",
        )
    for job in sorted(found.directory.dra_jobs):
        yield f"job {safe(job, _LONGEST_NAME)}: {DRA}", "nothing known: its issue 569 is open"


DRA: Final = "with DRA dcgm-exporter may leave out cards without a pod (its issue 569): they are unobserved"
_UPGRADE: Final = "use a newer version of the exporter"
