"""The systemd unit a process belongs to, from its cgroup."""

from __future__ import annotations

from gua.identity.cgroup import systemd_path
from gua.identity.container import segment_container_id


def systemd_unit(text: str) -> str | None:
    """Return the innermost service or scope, ``None`` if there is none.

    In a user's own systemd that is the user's service, not ``user@1000.service`` around it. A scope that
    only wraps a container is left out: it would say the container's id a second time.
    """
    for segment in reversed(systemd_path(text)):
        if segment.endswith((".service", ".scope")) and segment_container_id(segment) is None:
            return segment
    return None
