"""The text of ``/proc/<pid>/cgroup`` (cgroups(7)): where in the hierarchies a process stands."""

from __future__ import annotations

from collections.abc import Iterator

_DELETED = " (deleted)"


def paths(text: str) -> list[list[str]]:
    """Return the path of each hierarchy as its segments, those that systemd manages first.

    A line is ``hierarchy:controllers:path``, and the path may contain colons. Version 2 is hierarchy 0
    without controllers; on a version 1 host systemd has a named hierarchy of its own.
    """
    return [segments for _, segments in sorted(_lines(text), key=lambda line: line[0])]


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for line in text.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon:
            continue
        segments = [segment for segment in path.removesuffix(_DELETED).split("/") if segment not in {"", "..", "."}]
        if not segments:
            continue
        unified = hierarchy == "0" and not controllers
        yield 0 if unified else 1 if controllers == "name=systemd" else 2, segments
