"""Pods of a node as the kubelet lists them, with their device limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gua.core.workloads import NO_WORK, Work

# DNS-1123 as Kubernetes requires for names of pods, namespaces and containers; other values are rejected.
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def is_name(value: object) -> bool:
    """Return whether the value is a valid name of a pod, namespace or container."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPod:
    """A pod in a node's pod list.

    ``uids`` are the listed uid and, for a static pod, the one in its cgroup path, which then comes first.
    ``limits`` are whole devices by resource, as in ``nvidia.com/gpu``; ``None`` is an unreadable limit.
    ``containers`` are names by container id, without the runtime's ``containerd://``. ``has_claims``: the pod also
    requests devices by resource claims, whose devices the list does not contain. Times are Unix ms.
    ``ended_ms`` is the known end of its last container. ``workload`` is what its labels declare.
    """

    name: str
    namespace: str
    uids: tuple[str, ...]
    limits: Mapping[str, int | None] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    has_claims: bool = False
    since_ms: int | None = None
    has_ended: bool = False
    ended_ms: int | None = None
    workload: Work = NO_WORK

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name
