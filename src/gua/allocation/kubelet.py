"""What a kubelet is asked: what pods have of its devices, and the list of its pods."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gua.allocation.pod_resources import NoSocketError, PodDevices, PodResources
from gua.core.errors import GuaError
from gua.core.pods import ListedPod, is_name

_LIST_SECONDS: Final = 25.0
# A kubelet that was started answers before it knows its pods: at first it has none.
_YOUNG_SECONDS: Final = 30.0
_NO_LIST: Final = "kubernetes: whose pod a process is of is not known, nor who uses a promised card: see --kubelet"

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


@dataclass(slots=True)
class Questions:
    """Asks both, and puts the answers together.

    ``ask_devices`` raises GuaError; where that is NoSocketError, limits in ``pods`` have to do. ``own_pod`` is the pod
    that this process runs in: an answer that lacks it is not whole. ``folders`` tells uids of pods where there is no
    list; empty where it cannot.
    """

    ask_devices: Callable[[], PodResources]
    pods: PodList | None
    own_pod: Place | None
    folders: Callable[[], tuple[ListedPod, ...]]
    monotonic: Callable[[], float]
    _listed: tuple[ListedPod, ...] = ()
    _listed_at: float | None = None
    _listed_for: frozenset[Place] = frozenset()

    def ask(self) -> KubeletAnswer:
        """Ask now. Never raises."""
        begun = self.monotonic()
        try:
            told, notes = self._devices()
            devices = None if told is None else told.pods
            listed = self._pod_list(devices)
            if devices is not None and not listed and self.pods is None:
                notes = (*notes, _NO_LIST)
        except GuaError as error:
            return KubeletAnswer(asked_at=begun, failure=f"the kubelet: {error}")
        except Exception as error:  # noqa: BLE001 - whatever fails here, the next time may be better
            return KubeletAnswer(asked_at=begun, failure=f"the kubelet: unexpected {type(error).__name__}")
        places = {each.place for each in (listed if devices is None else devices)}
        doubt = self._doubt(places, None if told is None else told.age_seconds)
        return KubeletAnswer(asked_at=begun, devices=devices, listed=listed, doubt=doubt, notes=notes)

    def _devices(self) -> tuple[PodResources | None, tuple[str, ...]]:
        try:
            return self.ask_devices(), ()
        except NoSocketError as error:
            if self.pods is None:
                raise
            return None, (f"kubernetes: {error}: promised cards are counted by limits of pods",)

    def _doubt(self, places: AbstractSet[Place], age_seconds: float | None) -> str | None:
        if self.own_pod is not None:
            return None if self.own_pod in places else "the kubelet does not tell of all pods: the agent's is missing"
        if age_seconds is not None and 0 <= age_seconds < _YOUNG_SECONDS:
            return f"the kubelet was started {age_seconds:.0f} s ago: it may not know all pods yet"
        return None

    def _pod_list(self, devices: Sequence[PodDevices] | None) -> tuple[ListedPod, ...]:
        """Return the list of pods: a new one where other pods have devices than before, or the last one is old.

        With devices, names and ends are an extra: an old list is better than none. Without, there is nothing else.
        """
        now = self.monotonic()
        places = frozenset(each.place for each in devices or () if each.devices or each.claimed)
        is_old = self._listed_at is None or now - self._listed_at >= _LIST_SECONDS
        is_whole = places <= {pod.place for pod in self._listed}
        if devices is not None and places == self._listed_for and is_whole and not is_old:
            return self._listed
        try:
            self._listed = self.folders() if self.pods is None else tuple(self.pods.ask())
            self._listed_at, self._listed_for = now, places
        except GuaError:
            if devices is None:
                raise
        return self._listed


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
