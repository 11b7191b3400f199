"""Client for the kubelet's gRPC service ``v1.PodResourcesLister``: devices allocated to the node's pods.

pod_resources.proto has the messages. The response contains pods' names and namespaces without uids; older kubelets
include pods that ended.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from gua.core.errors import GuaError
from gua.core.pods import is_name
from gua.core.untrusted import require
from gua.state.socket_address import short_address

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
LIST: Final = "/v1.PodResourcesLister/List"
CALL_SECONDS: Final = 3.0
MOST_BYTES: Final = 4 * 2**20


class CallError(GuaError):
    """The call to the kubelet failed; the message is the reason in a few words."""


class NoSocketError(CallError):
    """The socket does not exist, or this process may not use it."""


class Device(NamedTuple):
    """A device id allocated by a device plugin, and its resource, as in ``nvidia.com/gpu`` and ``GPU-…``."""

    resource: str
    id: str


class ClaimedDevice(NamedTuple):
    """A device allocated by a DRA driver for a resource claim; ``cdi`` are its CDI names (container runtime)."""

    driver: str
    name: str
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PodDevices:
    """A pod and the devices of all its containers, each once."""

    name: str
    namespace: str
    devices: frozenset[Device] = frozenset()
    claimed: frozenset[ClaimedDevice] = frozenset()

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


def query_pod_resources(
    socket: Path, *, seconds: float = CALL_SECONDS, most_bytes: int = MOST_BYTES
) -> tuple[tuple[PodDevices, ...], float]:
    """Return the kubelet's response for all pods, and the time since the kubelet started [s].

    The response takes at most ``seconds`` and has at most ``most_bytes``.

    Raises NoSocketError for a missing or forbidden socket, CallError for a timeout, refusal or invalid response.
    """
    try:
        socket.stat()
        with short_address(socket) as address:
            answer = _call(f"unix:{quote(address)}", seconds, most_bytes)
        pods = parse_pod_resources(answer)
    except PermissionError:
        raise NoSocketError(f"{socket}: Permission denied") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSocketError(f"{socket}: {error.strerror}") from None
    except OSError as error:
        raise CallError(error.strerror or str(error)) from None
    except ValueError as error:
        raise CallError(f"its answer is garbage: {error}") from None
    try:
        age_seconds = time.time() - socket.stat().st_mtime
    except OSError:
        age_seconds = 0.0
    return pods, age_seconds


def _call(target: str, seconds: float, most_bytes: int) -> bytes:
    """Return the serialized response. Raises CallError, and PermissionError if this process may not connect."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's core otherwise logs the same errors to stderr
    import grpc  # noqa: PLC0415 - takes 20 MB, needed only on hosts with a kubelet

    options = (("grpc.max_receive_message_length", most_bytes), ("grpc.use_local_subchannel_pool", 1))
    try:
        with grpc.insecure_channel(target, options=options) as channel:
            answer: bytes = channel.unary_unary(LIST)(b"", timeout=seconds)
    except grpc.RpcError as error:
        code, details = error.code(), str(error.details() or "")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            msg = f"no answer within {seconds:g} s"
        elif "larger than max" in details:
            msg = f"its answer is longer than {most_bytes / 2**20:g} MiB"
        else:
            # For connection errors the reason comes last, after the target.
            connecting, _, reason = details.rpartition(f"{target}: ")
            msg = reason.rpartition("error: ")[2] if connecting else f"{code.value[1]}: {details}"
            msg = msg.removesuffix(": ")
            if connecting and msg.startswith("Permission denied"):
                raise PermissionError from None
        raise CallError(msg) from None
    return answer


def parse_pod_resources(answer: bytes) -> tuple[PodDevices, ...]:
    """Return all pods of a serialized ListPodResourcesResponse. Raises ValueError for anything else."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above

    from gua.allocation.pod_resources_pb2 import ListPodResourcesResponse  # noqa: PLC0415 - as above

    try:
        pods = ListPodResourcesResponse.FromString(answer).pod_resources
    except DecodeError as error:
        raise ValueError(error) from None
    require(all(is_name(pod.name) and is_name(pod.namespace) for pod in pods), "a pod without a proper name")
    return tuple(
        PodDevices(
            name=pod.name,
            namespace=pod.namespace,
            devices=frozenset(
                Device(each.resource_name, id_)
                for container in pod.containers
                for each in container.devices
                for id_ in each.device_ids
            ),
            claimed=frozenset(
                ClaimedDevice(each.driver_name, each.device_name, tuple(cdi.name for cdi in each.cdi_devices))
                for container in pod.containers
                for claim in container.dynamic_resources
                for each in claim.claim_resources
            ),
        )
        for pod in pods
    )
