"""Uids of pods by the names of their folders of logs: ``/var/log/pods/NAMESPACE_NAME_UID``. No log is opened."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from gua.core.pods import ListedPod, is_name

POD_LOGS: Final = Path("/var/log/pods")
# The API's uid, or the hash of a static pod's file; both are what the pod's cgroup bears.
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST: Final = 4096


def pods_by_folders(folder: Path = POD_LOGS) -> tuple[ListedPod, ...]:
    """Return the pods that have a folder, of each name the newest one.

    Nothing else is told of them. Empty where the folder cannot be read.
    """
    found: list[tuple[float, ListedPod]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                namespace, _, rest = entry.name.partition("_")
                name, _, uid = rest.partition("_")
                if not (is_name(namespace) and is_name(name) and _UID.fullmatch(uid)) or len(found) >= _MOST:
                    continue
                made_at = entry.stat(follow_symlinks=False).st_mtime
                found.append((made_at, ListedPod(name=name, namespace=namespace, uids=(uid,))))
    except OSError:
        return ()
    newest: dict[tuple[str, str], ListedPod] = {}
    for _, pod in sorted(found, key=lambda each: each[0]):
        newest[pod.place] = pod
    return tuple(newest.values())
