"""The text of ``/proc/<pid>/cgroup`` (cgroups(7)): where in the hierarchies a process stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

_DELETED = " (deleted)"
_UNIFIED = ""
_SYSTEMD = "name=systemd"
_DELEGATED: Final = re.compile(r"user@[0-9]+\.service", re.ASCII)


def paths(text: str) -> list[list[str]]:
    """Return the path of each hierarchy as its segments; the root of a hierarchy has none and is left out.

    A line is ``hierarchy:controllers:path``, and the path may contain colons.
    """
    return [segments for _, segments in _lines(text) if segments]


def managed_paths(text: str) -> list[list[str]]:
    """Return the paths as far as the host manages them.

    Below ``user@1000.service`` that user names cgroups as they like: systemd delegates it to them (user@.service(5)).
    """
    return [list(takewhile(lambda segment: not _DELEGATED.fullmatch(segment), segments)) for segments in paths(text)]


def systemd_path(text: str) -> list[str]:
    """Return the segments in the hierarchy that systemd manages.

    On a version 1 host that is a named one: the unified hierarchy beside it does not follow a container, whose
    processes stay there in the service that started them. On a version 2 host there is only the unified one.
    """
    known = dict(_lines(text))
    return known[_SYSTEMD] if _SYSTEMD in known else known.get(_UNIFIED, [])


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (hierarchy != "0" and controllers == _UNIFIED):
            continue
        segments = path.removesuffix(_DELETED).split("/")
        yield controllers, [segment for segment in segments if segment not in {"", "..", "."}]
