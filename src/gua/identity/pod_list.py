"""Names of pods and containers in a ``v1`` PodList, as the kubelet and the API server answer it.

https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#podlist-v1-core
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gua.core.untrusted import object_in, objects_in

# DNS-1123, which Kubernetes holds the names of pods, namespaces and containers to; what is not of it is no name.
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
# A static pod's cgroup bears the hash of its file; its uid in the list may be that of its mirror.
_HASH: Final = "kubernetes.io/config.hash"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod's name; ``containers`` are names by container id, without the runtime's ``containerd://``."""

    name: str
    namespace: str
    containers: Mapping[str, str] = field(default_factory=dict)


def parse_pods(body: bytes) -> dict[str, Pod]:
    """Return the pods of a list by uid; those without a uid or a proper name are left out.

    Raises ValueError for anything but a PodList.
    """
    try:
        pod_list = json.loads(body)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    if not isinstance(pod_list, dict) or pod_list.get("kind") != "PodList":
        msg = "no PodList"
        raise ValueError(msg)
    pods: dict[str, Pod] = {}
    for item in objects_in(pod_list.get("items")):
        metadata = object_in(item.get("metadata"))
        name, namespace = _name(metadata.get("name")), _name(metadata.get("namespace"))
        if name is None or namespace is None:
            continue
        pod = Pod(name=name, namespace=namespace, containers=dict(_containers(object_in(item.get("status")))))
        for uid in (metadata.get("uid"), object_in(metadata.get("annotations")).get(_HASH)):
            if isinstance(uid, str) and uid:
                pods[uid] = pod
    return pods


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for statuses in _STATUSES:
        for container in objects_in(status.get(statuses)):
            name, identity = _name(container.get("name")), container.get("containerID")
            if name is not None and isinstance(identity, str) and identity:
                yield identity.rpartition("://")[2], name


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None
