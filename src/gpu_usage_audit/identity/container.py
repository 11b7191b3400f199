"""The container a process runs in, from its cgroup.

Covers Docker, containerd, CRI-O, Podman and nerdctl, with the systemd and the cgroupfs driver: all of them
name a cgroup after the container's 64 hexadecimal digits, with at most a prefix and ``.scope`` around.
"""

from __future__ import annotations

import re
from typing import Final

from gpu_usage_audit.identity.cgroup import paths

# docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope, <id>,
# and containerd's kubepods-….slice:cri-containerd:<id>
_CONTAINER: Final = re.compile(r"(?:(?P<prefix>.*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")


def container_id(text: str) -> str | None:
    """Return the id (64 hexadecimal digits) of the innermost container, ``None`` outside of one.

    The monitor process beside a container (conmon) is not in it.
    """
    for segments in paths(text):
        for segment in reversed(segments):
            found = segment_container_id(segment)
            if found is not None:
                return found
    return None


def segment_container_id(segment: str) -> str | None:
    """Return the container that one cgroup is named after."""
    found = _CONTAINER.fullmatch(segment)
    if found is None or (found["prefix"] or "").endswith("conmon"):
        return None
    return found["id"]
