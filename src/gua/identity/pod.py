"""The Kubernetes pod a process runs in, from its cgroup."""

from __future__ import annotations

import re
from typing import Final

from gua.identity.cgroup import managed_paths

# pod<uid> (cgroupfs) or kubepods-burstable-pod<uid, with _ for ->.slice (systemd). Static pods have an MD5 for a uid.
_POD: Final = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?::.*)?"
)


def pod_uid(text: str) -> str | None:
    """Return the pod's uid as Kubernetes writes it, ``None`` outside of a pod."""
    for segments in managed_paths(text):
        for segment in reversed(segments):
            found = _POD.fullmatch(segment)
            if found is not None:
                return found["uid"].replace("_", "-")
    return None
