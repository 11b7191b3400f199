"""PodResources of the kubelet's own Go types, as a process: what it answers is a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from servers.process import ServerProcess
from servers.tools import pod_resources_server


class PodResourcesServer:
    """A server at a socket below a folder; use it as a context."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "kubelet.sock"
        self._answer = folder / "answer.json"
        command = [str(pod_resources_server()), str(self.socket), str(self._answer)]
        self.process = ServerProcess("pod-resources", command, os.environ, folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def start(self, *, age_seconds: float = 3600) -> None:
        """Start it, as if so long ago; what it answered before it ended is what it answers."""
        self.socket.unlink(missing_ok=True)
        self.process.start(self.socket.exists)
        os.utime(self.socket, (time.time() - age_seconds,) * 2)

    def answer(self, *pods: Mapping[str, Any]) -> None:
        """Answer with these pods from now on, which are written as protobuf's JSON."""
        self.say(json.dumps({"podResources": list(pods)}))

    def say(self, text: str) -> None:
        """Answer with what this JSON says; where it says nothing, every call fails."""
        scratch = self._answer.with_suffix(".new")
        scratch.write_text(text, encoding="utf-8")
        scratch.rename(self._answer)


def told(
    name: str,
    *containers: Mapping[str, Sequence[str]],
    namespace: str = "lab",
    claims: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return a pod: for each container ids by resource; claims are of the first one."""
    return {
        "name": name,
        "namespace": namespace,
        "containers": [
            {
                "name": f"c{place}",
                "cpuIds": ["2", "3", "300"],
                "memory": [{"memoryType": "memory", "size": "1073741824", "topology": {"nodes": [{"ID": "1"}]}}],
                "devices": [
                    {"resourceName": resource, "deviceIds": list(ids), "topology": {"nodes": [{"ID": "0"}]}}
                    for resource, ids in devices.items()
                ],
                "dynamicResources": [{"claimName": "gpu", "claimNamespace": namespace, "claimResources": list(claims)}]
                if claims and place == 0
                else [],
            }
            for place, devices in enumerate(containers or ({},))
        ],
    }


def claimed(device: str, *cdi: str, driver: str = "gpu.nvidia.com", pool: str = "node-1") -> dict[str, Any]:
    """Return a device that a DRA driver gave."""
    return {
        "driverName": driver,
        "poolName": pool,
        "deviceName": device,
        "cdiDevices": [{"name": name} for name in cdi],
    }
