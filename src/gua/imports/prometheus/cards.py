"""Which card, host, pod and job a series is of: labels of exporters, and of the targets that Prometheus scraped."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gua.core.plaintext import storable
from gua.core.words import Mig
from gua.imports.prometheus.exporters import (
    CLUSTER_LABEL,
    DRA_PREFIX,
    EXPORTERS,
    NODE_LABELS,
    POD_LABELS,
    REPLICA_LABELS,
    Exporter,
)
from gua.imports.rows import program

Labels = Mapping[str, str]
Target = tuple[str, ...]
"""Exporter, job, instance and replica of a series: what was scraped, and which Prometheus kept it."""
KUBERNETES: Final = "kubernetes"
SLURM: Final = "slurm"
_SLICES: Final = 7
# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html
_SLICES_OF: Final = {"A30": 4, "RTX PRO 6000": 4, "RTX PRO 5000": 2, "RTX PRO 4500": 2}
_PROFILE: Final = re.compile(r"(?:^|\s)(\d)g\.\d+gb", re.IGNORECASE)
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,120}")
_BARE_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_WORD: Final = re.compile(r"""\s*(?:['"]([^'"]+)['"]|(\S+))""")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_MOST_NUMBER: Final = 2**32 - 1
_INSTANCE: Final = re.compile(r"[0-9]{1,4}")
_PORT: Final = re.compile(r":\d+$")
_INDEX: Final = re.compile(r"(\d{1,4})(?::\d+)?")
_NOT_OF_TARGETS: Final = {"job", "instance", *(name for pair in POD_LABELS for name in pair), "container"}
_NO_LABEL: Final = {"", "N/A", "<none>"}
_FIRST_WITHOUT_RESERVE: Final = 510
"""Since this driver NVML's used memory excludes the driver's reserve."""


class Attribution(NamedTuple):
    """An allocation of a card, as labels tell it: a pod by namespace and name, or a Slurm job by its number."""

    source: str
    id: str
    owner: str | None = None
    uid: int | None = None
    job_name: str | None = None
    pod_uid: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None


class ScrapedCard(NamedTuple):
    """A card: a whole GPU, or a MIG instance with its ``slices`` of all ``total`` slices of the GPU ``parent``."""

    uuid: str
    host: str
    gpu_index: int | None = None
    name: str | None = None
    model: str | None = None
    driver_version: str | None = None
    pci: str | None = None
    mig: Mig | None = None
    parent: str | None = None
    slices: int = 1
    total: int = 1
    cluster: str | None = None

    @property
    def has_old_driver(self) -> bool:
        """Whether the driver counts its reserve as used memory."""
        major = (self.driver_version or "").partition(".")[0]
        return major.isdecimal() and int(major) < _FIRST_WITHOUT_RESERVE


@dataclass(slots=True)
class Directory:
    """What the labels of all series in the time of an import say, as :mod:`gua.imports.prometheus.survey` read them.

    ``target_pods`` are pods of the exporters themselves, by job and instance. ``mapped`` are jobs with a card that
    had a pod, or a Slurm job: there a card without one is unallocated. ``unclear`` are jobs with pod labels but without
    ``up``, so that a pod may be the exporter's own. ``facts`` are the labels of info metrics, by exporter and UUID.
    ``known_hosts`` are hosts that the store's agents have cards under. ``has_clusters``: two or more clusters.
    """

    target_pods: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    target_labels: set[str] = field(default_factory=set)
    mapped: dict[tuple[str, str], str] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    dra_jobs: set[str] = field(default_factory=set)
    facts: dict[tuple[str, str], Labels] = field(default_factory=dict)
    hosts: dict[str, tuple[int, str]] = field(default_factory=dict)
    known_hosts: dict[str, str] = field(default_factory=dict)
    owners: dict[tuple[str, str], Labels] = field(default_factory=dict)
    pod_owner: dict[tuple[str, str], str] = field(default_factory=dict)
    has_clusters: bool = False
    left_out: Counter[str] = field(default_factory=Counter)

    def target(self, exporter: Exporter, labels: Labels) -> Target:
        """Return what was scraped, by the target's own labels except its pod's; labels of replicas are part of it."""
        others = sorted((self.target_labels | REPLICA_LABELS) & labels.keys() - _NOT_OF_TARGETS)
        return (exporter.name, labels.get("job", ""), labels.get("instance", ""), *(labels[one] for one in others))

    def card(self, exporter: Exporter, labels: Labels) -> ScrapedCard | None:
        """Return the card of a series; ``None`` for a series without a valid UUID."""
        uuid = card_uuid(exporter, labels)
        if uuid is None:
            return None
        every = {**self.facts.get((exporter.name, uuid), {}), **labels}
        own = first(every, exporter.instance)
        profile = first(every, exporter.profile)
        names = (profile, first(every, exporter.model), first(every, ("hw_name",)))
        sliced = next((found for name in names if name and (found := _PROFILE.search(name))), None)
        instance = f"MIG-{uuid}/{own}/0" if own is not None and not uuid.startswith("MIG-") else None
        is_instance = instance is not None or uuid.startswith("MIG-") or every.get("gua_gpu_mig") == Mig.INSTANCE
        model = first(every, exporter.model)
        known = self.known_hosts.get(instance or uuid) or self.known_hosts.get(uuid)
        total = next((number for name, number in _SLICES_OF.items() if name in (model or "")), _SLICES)
        slices = int(sliced[1]) if sliced else 0
        return ScrapedCard(
            uuid=instance or uuid,
            host=known or self.host(exporter, uuid, labels),
            gpu_index=_index(first(every, exporter.index)),
            name=f"{model or 'GPU'} MIG {profile}" if instance else first(every, ("hw_name",)) or model,
            model=model,
            driver_version=first(every, exporter.driver),
            pci=first(every, exporter.pci),
            mig=_mig(every, is_instance=is_instance),
            parent=(uuid if instance else first(every, ("hw_parent",))) if is_instance else None,
            slices=min(slices, total) if is_instance else 1,
            total=total if is_instance else 1,
            cluster=first(labels, (CLUSTER_LABEL,)),
        )

    def host(self, exporter: Exporter, uuid: str, labels: Labels) -> str:
        """Return the card's host: as a more preferred exporter of the card names it, else as this series does."""
        order, preferred = self.hosts.get(uuid, (len(EXPORTERS), ""))
        return preferred if order < EXPORTERS.index(exporter) else self.own_host(exporter, labels)

    def own_host(self, exporter: Exporter, labels: Labels) -> str:
        """Return the host of a series: the exporter's label, else a node label, else the instance without its port."""
        host = first(labels, exporter.host) or first(labels, NODE_LABELS)
        if host is None or host in self.target_pods.get(place(labels), ()):  # in a container: the name of its pod
            host = first(labels, NODE_LABELS) or _PORT.sub("", labels.get("instance", "")) or "unknown"
        cluster = labels.get(CLUSTER_LABEL)
        return storable(f"{cluster}/{host}" if self.has_clusters and cluster else host)

    def attribution(self, exporter: Exporter, labels: Labels) -> Attribution | None:
        """Return the pod or job that has the card, ``None`` without one."""
        job = first(labels, exporter.job)
        if job is not None and job != "0":
            return self.of_job(job, whole_number(first(labels, exporter.job_user)))
        pod = self.pod(exporter, labels)
        if pod is None:
            return None
        namespace, name = pod
        info = self.owners.get(pod, {})
        uid = info.get("uid") or first(labels, ("exported_pod_uid", "pod_uid"))
        return Attribution(
            source=KUBERNETES,
            id=uid or f"{namespace}/{name}",
            owner=self.pod_owner.get(pod) or namespace,
            job_name=first(info, ("owner_name",)),
            pod_uid=uid,
            pod_name=name,
            pod_namespace=namespace,
        )

    def of_job(self, job: str, uid: int | None) -> Attribution:
        """Return the attribution to a Slurm job."""
        return Attribution(source=SLURM, id=storable(job), owner=None if uid is None else str(uid), uid=uid)

    def pod(self, exporter: Exporter, labels: Labels) -> tuple[str, str] | None:
        """Return namespace and name of the card's pod; ``None`` without one, and for the exporter's own pod.

        Without ``honor_labels`` the card's pod is in ``exported_pod``, and ``pod`` is the exporter's. With it, ``pod``
        is the card's; an empty label there removes the target's. ``up`` has the target's labels alone.
        """
        if not exporter.has_pods:
            return None
        own = self.target_pods.get(place(labels), set())
        for pod, namespace in POD_LABELS:
            name = first(labels, (pod,))
            if name is not None and not (pod == "pod" and (name in own or labels.get("job") in self.unclear)):
                return storable(labels.get(namespace, "")), storable(name)
        return None


def first(labels: Labels, names: Iterable[str]) -> str | None:
    """Return the first of the labels that has a value, cleaned and bounded for storage."""
    value = next((labels[name] for name in names if labels.get(name, "") not in _NO_LABEL), None)
    return None if value is None else storable(value)


def whole_number(text: str | None) -> int | None:
    """Return a label's number, such as a pid or uid; ``None`` for anything that is none of 32 bits."""
    value = int(text) if text and _NUMBER.fullmatch(text) else None
    return None if value is None or value > _MOST_NUMBER else value


def program_of(exporter: Exporter, labels: Labels) -> str | None:
    """Return the name of the program that labels of a process name, without its path; ``None`` if unknown.

    Of a whole command line it is the first word: the others may be secrets.
    """
    text = labels.get(exporter.program)
    if text is not None and exporter.program_info:
        matched = _WORD.match(text)
        text = matched and (matched[1] or matched[2])
    return program(text)


def place(labels: Labels) -> tuple[str, str]:
    """Return job and instance of a series."""
    return labels.get("job", ""), labels.get("instance", "")


def card_uuid(exporter: Exporter, labels: Labels) -> str | None:
    """Return NVML's UUID of the card, with the prefix that nvidia_gpu_exporter removes; ``None`` for anything else."""
    instance = first(labels, exporter.instance)
    if instance is not None and not _INSTANCE.fullmatch(instance):
        return None
    text = first(labels, exporter.uuid) or ""
    if _BARE_UUID.fullmatch(text):
        return f"GPU-{text}"
    return text if _UUID.fullmatch(text) else None


def has_dra(labels: Labels) -> bool:
    """Return whether the card was allocated by Dynamic Resource Allocation."""
    return any(name.startswith(DRA_PREFIX) for name in labels)


def _index(text: str | None) -> int | None:
    matched = _INDEX.fullmatch(text or "")
    return int(matched[1]) if matched else None


def _mig(labels: Labels, *, is_instance: bool) -> Mig | None:
    if is_instance:
        return Mig.INSTANCE
    return Mig.PARENT if labels.get("gua_gpu_mig") == Mig.PARENT else None
