"""A node's list of pods: where the kubelet answers it, and what it tells.

https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#podlist-v1-core
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gua.core.errors import UsageError
from gua.core.pods import ListedPod, is_name
from gua.core.untrusted import LAST_MS, object_in, objects_in, require
from gua.core.workloads import declared

# Where Kubernetes puts a service account's token, which it replaces within the hour, and the cluster's authority.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
# A static pod's cgroup bears the hash of its file; its uid in the list may be that of its mirror.
_HASH: Final = "kubernetes.io/config.hash"
_ENDED: Final = ("Succeeded", "Failed")
_COUNT: Final = re.compile(r"[0-9]{1,5}")
_VENDOR: Final = "nvidia.com/"
_LABELS: Final = {"kind": "gua/kind", "model": "gua/model"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """A kubelet at ``host``:``port``; with ``insecure`` whoever answers there is believed, and gets the token."""

    host: str
    port: int
    path: str = "/pods"
    insecure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.path}"


def parse_kubelet(text: str, *, insecure: bool = False) -> Kubelet:
    """Return the kubelet at ``https://HOST[:PORT][/PATH]``; the port is 10250, the path ``/pods`` if not given.

    A host that is an IPv6 address may lack its brackets, as NODE_IP does in a manifest, if port and path are given.
    Raises UsageError.
    """
    text = text.strip()
    try:
        url = urlsplit(_bracketed(text))
        port = 10250 if url.port is None else url.port
        plain = text.isascii() and text.isprintable() and " " not in text
    except ValueError:
        url, port, plain = urlsplit(""), 0, False
    if url.scheme != "https" or not url.hostname or not port or not plain or url.query or "@" in url.netloc:
        msg = f"--kubelet {text!r} is no address of a kubelet: write https://NODE:10250/pods"
        raise UsageError(msg)
    return Kubelet(host=url.hostname, port=port, path=url.path if url.path.strip("/") else "/pods", insecure=insecure)


def _bracketed(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    netloc, slash, path = rest.partition("/")
    if netloc.count(":") > 1 and "[" not in netloc:
        host, _, port = netloc.rpartition(":")
        netloc = f"[{host}]:{port}"
    return f"{scheme}{separator}{netloc}{slash}{path}"


def items_of(body: bytes) -> list[dict[str, Any]]:
    """Return the pods of a list as they stand there. Raises ValueError for anything but a PodList."""
    try:
        pod_list = json.loads(body)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    require(object_in(pod_list).get("kind") == "PodList", "no PodList")
    return objects_in(pod_list.get("items"))


def read_pod(item: Mapping[str, Any]) -> ListedPod | None:
    """Return a pod of a list, ``None`` of one without a uid or a proper name."""
    metadata, spec, status = (object_in(item.get(part)) for part in ("metadata", "spec", "status"))
    name, namespace, uids = _name(metadata.get("name")), _name(metadata.get("namespace")), _uids(metadata)
    if name is None or namespace is None or not uids:
        return None
    containers = [container for statuses in _STATUSES for container in objects_in(status.get(statuses))]
    states = [object_in(container.get("state")) for container in containers]
    # Removed, and none of its containers is left: only its entry is.
    is_gone = (
        metadata.get("deletionTimestamp") is not None and bool(states) and all("terminated" in each for each in states)
    )
    has_ended = status.get("phase") in _ENDED or is_gone
    ends = [_moment(object_in(state.get("terminated")).get("finishedAt")) for state in states]
    labels = object_in(metadata.get("labels"))
    return ListedPod(
        name=name,
        namespace=namespace,
        uids=uids,
        limits=_limits(spec),
        containers=dict(_named(containers)),
        has_claims=bool(objects_in(spec.get("resourceClaims"))),
        since_ms=_moment(status.get("startTime")),
        workload=declared({key: labels.get(label) for key, label in _LABELS.items()}),
        has_ended=has_ended,
        ended_ms=max((end for end in ends if end is not None), default=None) if has_ended else None,
    )


def _uids(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a pod's uids, the one that cgroups bear first."""
    uids = (object_in(metadata.get("annotations")).get(_HASH), metadata.get("uid"))
    return tuple(dict.fromkeys(uid for uid in uids if isinstance(uid, str) and uid))


def _limits(spec: Mapping[str, Any]) -> dict[str, int | None]:
    """Return how many devices of each of the vendor's resources a pod is promised.

    Containers that only begin a pod give theirs on to the others; those that go on beside these (sidecars) do not:
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers.
    """
    lasting: dict[str, int | None] = {}
    most: dict[str, int | None] = {}
    for container in objects_in(spec.get("initContainers")):
        own = _own_limits(container)
        if container.get("restartPolicy") == "Always":
            lasting = _combined(sum, lasting, own)
        else:
            most = _combined(max, most, _combined(sum, lasting, own))
    for container in objects_in(spec.get("containers")):
        lasting = _combined(sum, lasting, _own_limits(container))
    return {name: count for name, count in _combined(max, most, lasting).items() if count != 0}


def _own_limits(container: Mapping[str, Any]) -> dict[str, int | None]:
    limits = object_in(object_in(container.get("resources")).get("limits"))
    return {name: _count(value) for name, value in limits.items() if name.startswith(_VENDOR)}


def _combined(
    how: Callable[[tuple[int, int]], int], one: Mapping[str, int | None], other: Mapping[str, int | None]
) -> dict[str, int | None]:
    """Return both numbers of each name as one; ``None`` where one is not known."""
    pairs = {name: (one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}
    return {name: None if a is None or b is None else how((a, b)) for name, (a, b) in pairs.items()}


def _count(value: object) -> int | None:
    text = str(value) if type(value) is int else value
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None


def _moment(value: object) -> int | None:
    """Return the Unix time [ms] of a moment as Kubernetes writes it, ``None`` if it is none."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        ms = int(moment.timestamp() * 1000) if moment.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return None
    return ms if 0 < ms <= LAST_MS else None


def _named(containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for container in containers:
        name, identity = _name(container.get("name")), container.get("containerID")
        if name is not None and isinstance(identity, str) and identity:
            yield identity.rpartition("://")[2], name


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and is_name(value) else None
