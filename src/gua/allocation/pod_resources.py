"""What pods have of a node's devices, as the kubelet answers it: ``v1.PodResourcesLister/List``.

https://github.com/kubernetes/kubelet/blob/v0.37.0/pkg/apis/podresources/v1/api.proto. The answer has a pod's name and
namespace, no uid, and in older kubelets pods that ended, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gua.allocation.protobuf import delimited
from gua.core.pods import is_name

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
LIST: Final = "/v1.PodResourcesLister/List"
# Fields of ListPodResourcesResponse, PodResources, ContainerResources, ContainerDevices, DynamicResource, ClaimResource
# and CDIDevice.
_PODS, _NAME, _NAMESPACE, _CONTAINERS = 1, 1, 2, 3
_DEVICES, _CLAIMS = 2, 5
_RESOURCE, _IDS = 1, 2
_CLAIMED = 4
_CDI, _DRIVER, _POOL, _DEVICE = 1, 2, 3, 4


class Device(NamedTuple):
    """One id that a device plugin gave for a resource, as in ``nvidia.com/gpu`` and ``GPU-…``."""

    resource: str
    id: str


class ClaimedDevice(NamedTuple):
    """One device that a DRA driver gave for a claim; ``cdi`` are its names for the container's runtime."""

    driver: str
    pool: str
    name: str
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PodDevices:
    """A pod and the devices of all of its containers, each once."""

    name: str
    namespace: str
    devices: frozenset[Device] = frozenset()
    claimed: frozenset[ClaimedDevice] = frozenset()

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


def parse_pod_resources(answer: bytes) -> tuple[PodDevices, ...]:
    """Return all pods of a ListPodResourcesResponse. Raises ValueError for anything else."""
    return tuple(_pod(value) for number, value in delimited(answer) if number == _PODS)


def _pod(message: bytes) -> PodDevices:
    name = namespace = ""
    devices: set[Device] = set()
    claimed: set[ClaimedDevice] = set()
    for number, value in delimited(message):
        if number == _NAME:
            name = value.decode()
        elif number == _NAMESPACE:
            namespace = value.decode()
        elif number == _CONTAINERS:
            for part, content in delimited(value):
                if part == _DEVICES:
                    devices.update(_devices(content))
                elif part == _CLAIMS:
                    claimed.update(_claimed(each) for of, each in delimited(content) if of == _CLAIMED)
    if not is_name(name) or not is_name(namespace):
        msg = "a pod without a proper name"
        raise ValueError(msg)
    return PodDevices(name=name, namespace=namespace, devices=frozenset(devices), claimed=frozenset(claimed))


def _devices(message: bytes) -> Iterator[Device]:
    fields = list(delimited(message))
    resource = "".join(value.decode() for number, value in fields if number == _RESOURCE)
    return (Device(resource, value.decode()) for number, value in fields if number == _IDS)


def _claimed(message: bytes) -> ClaimedDevice:
    texts = {_DRIVER: "", _POOL: "", _DEVICE: ""}
    cdi: list[str] = []
    for number, value in delimited(message):
        if number in texts:
            texts[number] = value.decode()
        elif number == _CDI:
            cdi.extend(name.decode() for part, name in delimited(value) if part == 1)
    return ClaimedDevice(texts[_DRIVER], texts[_POOL], texts[_DEVICE], tuple(cdi))
