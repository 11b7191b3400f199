"""What a kubelet answers: what pods have of its devices, and the list of its pods."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gua.allocation.pod_resources import PodDevices
from gua.core.pods import ListedPod, is_name

Place = tuple[str, str]
"""Namespace and name of a pod."""
POD_LOGS: Final = Path("/var/log/pods")
# The API's uid, or the hash of a static pod's file; both are what the pod's cgroup bears.
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST_FOLDERS: Final = 4096


class PodList(Protocol):
    """The list of a node's pods."""

    def ask(self) -> Sequence[ListedPod]:
        """Ask now and wait for the answer. Raises GuaError."""
        ...

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this whenever a new pod was listed."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletAnswer:
    """What was asked last. ``devices`` is ``None`` where limits have to do; ``failure`` is why there is no answer.

    ``doubt`` is why pods may have cards of which the answer does not tell.
    """

    asked_at: float
    devices: tuple[PodDevices, ...] | None = None
    listed: tuple[ListedPod, ...] = ()
    failure: str | None = None
    doubt: str | None = None
    notes: tuple[str, ...] = ()


def pods_by_folders(folder: Path = POD_LOGS) -> tuple[ListedPod, ...]:
    """Return the pods that have a folder of logs, ``NAMESPACE_NAME_UID``, of each name the newest one.

    No log is opened, and nothing else is told of them. Empty where the folder cannot be read.
    """
    found: list[tuple[float, ListedPod]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                namespace, _, rest = entry.name.partition("_")
                name, _, uid = rest.partition("_")
                if not (is_name(namespace) and is_name(name) and _UID.fullmatch(uid)) or len(found) >= _MOST_FOLDERS:
                    continue
                made_at = entry.stat(follow_symlinks=False).st_mtime
                found.append((made_at, ListedPod(name=name, namespace=namespace, uids=(uid,))))
    except OSError:
        return ()
    newest: dict[tuple[str, str], ListedPod] = {}
    for _, pod in sorted(found, key=lambda each: each[0]):
        newest[pod.place] = pod
    return tuple(newest.values())
