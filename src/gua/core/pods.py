"""What a node's list of pods says of the devices that they were promised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gua.core.workloads import NO_WORK, Work

# DNS-1123, which Kubernetes holds the names of pods, namespaces and containers to; what is not of it is no name.
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def is_name(value: object) -> bool:
    """Return whether this is a name of a pod, namespace or container."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPod:
    """A pod in a node's list.

    ``uids`` are the uid of the list and, of a static pod, the one that its cgroup bears; the latter comes first.
    ``limits`` are whole devices by resource, as in ``nvidia.com/gpu``; ``None`` is a limit that cannot be read.
    ``containers`` are names by container id, without the runtime's ``containerd://``. ``has_claims``: it asks for
    devices by claims, too, of which the list does not say what for. Times are Unix ms; ``ended_ms`` is when its last
    container ended, where that is known. ``workload`` is what its labels declare.
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
