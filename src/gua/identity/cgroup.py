"""Container, pod, Slurm job and systemd unit of a process, from the text of ``/proc/<pid>/cgroup`` (cgroups(7)).

Docker, containerd, CRI-O, Podman and nerdctl name a cgroup after the container's 64 hexadecimal digits, with the
systemd or the cgroupfs driver. A prefix and the suffix ``.scope`` are optional. LXC (Incus, LXD, Proxmox) names it
after the container; that name is used as its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

_DELETED = " (deleted)"
_UNIFIED = ""
_SYSTEMD = "name=systemd"
_DELEGATED: Final = re.compile(r"user@[0-9]+\.service", re.ASCII)
# docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope, libpod-payload-<id>, <id>,
# and containerd's kubepods-….slice:cri-containerd:<id>
_CONTAINER: Final = re.compile(r"(?:(?P<prefix>.*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_LXC_PAYLOAD: Final = "lxc.payload."
_LXC_PARENTS: Final = frozenset({"lxc", "lxc.payload"})
# pod<uid> (cgroupfs) or kubepods-burstable-pod<uid, with _ for ->.slice (systemd). A static pod's uid is an MD5 hash.
_POD: Final = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?::.*)?"
)
_JOB: Final = re.compile(r"job_(?P<id>[0-9]+)", re.ASCII)
_SLURM: Final = re.compile(r"slurm|slurm_.*|.*slurmstepd\.scope", re.DOTALL)


def container_id(text: str) -> str | None:
    """Return the id of the innermost container, ``None`` outside of one.

    If hierarchies differ, the one with the most nested containers counts: in a container with an engine of its own,
    some know only the outer one. A container's monitor process (conmon) is not in the container.
    """
    chains = [list(_containers(segments)) for segments in _paths(text)]
    deepest = max(chains, key=len, default=[])
    return deepest[-1] if deepest else None


def _parse_container(segment: str) -> str | None:
    """Return the container that a cgroup is named after, ``None`` if it is not a container's."""
    match = _CONTAINER.fullmatch(segment)
    if match is None or (match["prefix"] or "").endswith("conmon"):
        return None
    return match["id"]


def _containers(segments: list[str]) -> Iterator[str]:
    for position, segment in enumerate(segments):
        container = _parse_container(segment)
        if container is not None:
            yield container
        elif segment.startswith(_LXC_PAYLOAD):
            yield segment.removeprefix(_LXC_PAYLOAD)
        elif position == 1 and segments[0] in _LXC_PARENTS:
            yield segment


def pod_uid(text: str) -> str | None:
    """Return the pod's uid as Kubernetes formats it, ``None`` outside of a pod."""
    for segments in _managed_paths(text):
        for segment in reversed(segments):
            match = _POD.fullmatch(segment)
            if match is not None:
                return match["uid"].replace("_", "-")
    return None


def slurm_job_id(text: str) -> str | None:
    """Return the job's id, ``None`` outside of a job.

    Version 1: ``/slurm/uid_1000/job_42/step_0``, or ``/slurm_<node>/…`` with several slurmd on a host;
    version 2: ``/system.slice/[<node>_]slurmstepd.scope/job_42/…``.
    """
    for segments in _managed_paths(text):
        for position, segment in enumerate(segments):
            match = _JOB.fullmatch(segment)
            if match is not None and any(map(_SLURM.fullmatch, segments[:position])):
                return match["id"]
    return None


def systemd_unit(text: str) -> str | None:
    """Return the innermost systemd service or scope, ``None`` without one.

    In a user's own systemd instance that is the user's service, not the enclosing ``user@1000.service``. A scope that
    only wraps a container is skipped, because it would repeat the container's id.
    """
    # On a version 1 host systemd manages the named hierarchy: in the unified one beside it, processes of a container
    # stay in the service that started them. A version 2 host has only the unified one.
    by_controllers = dict(_lines(text))
    for segment in reversed(by_controllers.get(_SYSTEMD, by_controllers.get(_UNIFIED, []))):
        if segment.endswith((".service", ".scope")) and _parse_container(segment) is None:
            return segment
    return None


def _paths(text: str) -> list[list[str]]:
    """Return the path of each hierarchy as its segments; a process in a hierarchy's root is left out.

    A line is ``hierarchy:controllers:path``, and the path may contain colons.
    """
    return [segments for _, segments in _lines(text) if segments]


def _managed_paths(text: str) -> list[list[str]]:
    """Return the paths up to the part that the host manages.

    Below ``user@1000.service`` systemd delegates the tree to the user, who may choose any names (user@.service(5)).
    """
    return [list(takewhile(lambda segment: not _DELEGATED.fullmatch(segment), segments)) for segments in _paths(text)]


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (hierarchy != "0" and controllers == _UNIFIED):
            continue
        segments = path.removesuffix(_DELETED).split("/")
        yield controllers, [segment for segment in segments if segment not in {"", "..", "."}]
