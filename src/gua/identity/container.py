"""The container a process runs in, from its cgroup.

Docker, containerd, CRI-O, Podman and nerdctl, with the systemd and the cgroupfs driver, all name a cgroup after
the container's 64 hexadecimal digits, with at most a prefix and ``.scope`` around. LXC (Incus, LXD, Proxmox)
names it after the container: that name is its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gua.identity.cgroup import paths

# docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope, libpod-payload-<id>, <id>,
# and containerd's kubepods-….slice:cri-containerd:<id>
_CONTAINER: Final = re.compile(r"(?:(?P<prefix>.*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_LXC_PAYLOAD: Final = "lxc.payload."
_LXC_PARENTS: Final = frozenset({"lxc", "lxc.payload"})


def container_id(text: str) -> str | None:
    """Return the id of the innermost container, ``None`` outside of one.

    Of hierarchies that disagree the one with the most containers around the process tells: in a container with an
    engine of its own, some know only the outer one. The monitor process beside a container (conmon) is not in it.
    """
    chains = [list(_containers(segments)) for segments in paths(text)]
    deepest = max(chains, key=len, default=[])
    return deepest[-1] if deepest else None


def segment_container_id(segment: str) -> str | None:
    """Return the container that one cgroup is named after."""
    found = _CONTAINER.fullmatch(segment)
    if found is None or (found["prefix"] or "").endswith("conmon"):
        return None
    return found["id"]


def _containers(segments: list[str]) -> Iterator[str]:
    for position, segment in enumerate(segments):
        found = segment_container_id(segment)
        if found is not None:
            yield found
        elif segment.startswith(_LXC_PAYLOAD):
            yield segment.removeprefix(_LXC_PAYLOAD)
        elif position == 1 and segments[0] in _LXC_PARENTS:
            yield segment
