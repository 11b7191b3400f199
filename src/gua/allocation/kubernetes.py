"""Kubernetes as a source: cards allocated to pods, by the kubelet's PodResources API or by pods' limits."""

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from gua.allocation.card_names import CardTable, UnknownDeviceError
from gua.allocation.pod_resources import SOCKET, ClaimedDevice, Device, NoSocketError, PodDevices, query_pod_resources
from gua.allocation.sources import Opener, ReaderLook
from gua.core.allocation import Allocation, CardKey
from gua.core.errors import GuaError
from gua.core.pods import ListedPod, is_name

_GPU: Final = "nvidia.com/gpu"
_INSTANCE: Final = "nvidia.com/mig-"
_SHARED: Final = ".shared"
SOURCE: Final = "kubernetes"
OF_SOME_POD: Final = "of-some-pod"
"""Id of the allocation of cards that limits allocate to an unknown pod."""
UNKNOWN_START: Final = 0
"""Start of a pod's allocation that the list does not contain."""
_KIND: Final = "pod"
_LONGEST_ID: Final = 128
_DIGEST: Final = 16
PodsOn = Mapping[str, frozenset[str]]
"""Uids of pods whose processes were seen on a card, by the card's UUID."""


@dataclass(slots=True)
class PodAllocations:
    """Allocations by id, UUIDs of cards with unknown allocation, and why the source failed, if it did."""

    allocations: dict[str, Allocation] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    reason: str | None = None

    def add(self, allocation: Allocation) -> None:
        """Add an allocation, or its cards to the one with the same id; ignored without cards."""
        before = self.allocations.get(allocation.id)
        cards = allocation.cards if before is None else allocation.cards | before.cards
        if cards:
            self.allocations[allocation.id] = replace(allocation, cards=cards)


def allocations_by_limits(pods: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn) -> PodAllocations:
    """Return the pods' allocations by their limits and the processes seen on cards.

    A limit such as ``nvidia.com/gpu: 2`` is only a count. It identifies cards if the limits cover all cards, or if each
    pod's processes are seen on as many cards as its limit. Other cards are unknown unless no pod has a limit.
    """
    result = PodAllocations()
    whole, instances = cards.whole(), cards.instances()
    live = [pod for pod in pods if not pod.has_ended]
    if whole or not instances:
        _add_kind(result, whole, [_PodLimit(pod, (_GPU,), whole, pods_on) for pod in live])
        _add_kind(result, instances, [_PodLimit(pod, (_INSTANCE,), instances, pods_on) for pod in live])
    else:  # a device plugin with MIG instances only may name them nvidia.com/gpu
        _add_kind(result, instances, [_PodLimit(pod, (_GPU, _INSTANCE), instances, pods_on) for pod in live])
    return result


class _PodLimit:
    """A pod, its limit for one kind of card, and the cards of that kind on which its processes were seen.

    ``count`` is the limit, ``None`` if unknown; ``least`` is the sum of its known parts.
    """

    def __init__(self, pod: ListedPod, resources: tuple[str, ...], pool: Sequence[CardKey], pods_on: PodsOn) -> None:
        # A MIG resource ends with its profile, so its prefix decides; the resource of GPUs has to match in full.
        names = [name for name in pod.limits if name.removesuffix(_SHARED).startswith(resources)]
        names = [name for name in names if name.startswith(_INSTANCE) or name.removesuffix(_SHARED) == _GPU]
        counts = [pod.limits[name] for name in names]
        self.pod = pod
        self.least = sum(count for count in counts if count is not None)
        self.count = None if pod.has_claims or None in counts else self.least
        self.is_sharing = any(name.endswith(_SHARED) for name in names)
        self.cards = {card.uuid for card in pool if not pods_on.get(card.uuid, frozenset()).isdisjoint(pod.uids)}


def _add_kind(result: PodAllocations, pool: Sequence[CardKey], pods: Sequence[_PodLimit]) -> None:
    """Add the allocations and unknown cards of one kind of card."""
    limits = [limit for limit in pods if limit.count != 0]
    seen = set[str]().union(*(limit.cards for limit in limits))
    left = {card.uuid for card in pool} - seen
    # With sharing, a limit counts shares of cards, so the number of cards is unknown.
    shares = any(limit.is_sharing for limit in limits) or sum(limit.least for limit in limits) > len(pool)
    shares |= sum(len(limit.cards) for limit in limits) > len(seen)
    takes_more = False
    of_more: list[_PodLimit] = []
    for limit in limits:
        if limit.count is None or shares or len(limit.cards) <= limit.count:
            result.add(_allocation(limit.pod.namespace, limit.pod.name, limit.pod, limit.cards))
        else:  # seen on more cards than its limit: which ones are allocated is unknown
            takes_more = True
            result.unknown |= limit.cards
        if limit.count is None or (limit.count > 1 and shares) or len(limit.cards) < limit.count:
            of_more.append(limit)
    missing = sum(max(0, limit.least - len(limit.cards)) for limit in of_more)
    if not of_more:
        return
    if shares or takes_more or missing < len(left):
        result.unknown |= left
    elif len(of_more) == 1:
        pod = of_more[0].pod
        result.add(_allocation(pod.namespace, pod.name, pod, left))
    else:
        result.add(Allocation(source=SOURCE, id=OF_SOME_POD, cards=frozenset(left), since_ms=UNKNOWN_START, kind=_KIND))


def allocations_by_devices(
    devices: Sequence[PodDevices], listed: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn
) -> PodAllocations:
    """Return the allocations by PodResources; pods that ended by ``listed`` are skipped: older kubelets report them.

    An unknown device sets ``reason``.
    """
    result = PodAllocations()
    live = {pod.place: pod for pod in listed if not pod.has_ended}
    over = {pod.place for pod in listed if pod.has_ended} - live.keys()
    for each in devices:
        if each.place in over:
            continue
        pod = live.get(each.place)
        own: set[str] = set()
        of_pod: list[Device | ClaimedDevice] = [*each.devices, *each.claimed]
        for device in of_pod:
            try:
                uuids = cards.find_device(device)
            except UnknownDeviceError as error:
                result.reason = str(error)
                continue
            if pod is not None and len(uuids) > 1:  # several candidates: the only one with processes of the pod
                used = frozenset(uuid for uuid in uuids if not pods_on.get(uuid, frozenset()).isdisjoint(pod.uids))
                uuids = used if len(used) == 1 else uuids
            (own if len(uuids) == 1 else result.unknown).update(uuids)
        if own:
            result.add(_allocation(each.namespace, each.name, pod, own))
    # Kubelets before 1.34, or with the feature disabled, do not report DRA devices.
    with_claims = {each.place for each in devices if each.claimed}
    if any(pod.has_claims and place not in with_claims for place, pod in live.items()):
        result.unknown |= cards.uuids
    return result


def _allocation(namespace: str, name: str, pod: ListedPod | None, cards: set[str]) -> Allocation:
    uid = None if pod is None else pod.uids[0]
    named = f"{namespace}/{name}"
    if len(named) > _LONGEST_ID:
        digest = hashlib.sha256(named.encode()).hexdigest()[:_DIGEST]
        named = f"{named[: _LONGEST_ID - _DIGEST - 1]}-{digest}"
    return Allocation(
        source=SOURCE,
        id=named if uid is None else uid[:_LONGEST_ID],
        cards=frozenset(cards),
        since_ms=UNKNOWN_START if pod is None or pod.since_ms is None else pod.since_ms,
        owner=namespace,
        kind=_KIND,
        pod_uid=uid,
        pod_name=name,
        pod_namespace=namespace,
        workload_kind=None if pod is None else pod.workload.kind,
        workload_model=None if pod is None else pod.workload.model,
    )


Place = tuple[str, str]
"""Namespace and name of a pod."""
POD_LOGS: Final = Path("/var/log/pods")
# The API server's uid, or the hash of a static pod's manifest; the pod's cgroup contains the same.
_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST_FOLDERS: Final = 4096


class PodList(Protocol):
    """A client for the list of a node's pods."""

    def query(self) -> Sequence[ListedPod]:
        """Request the list, wait, and return it. Raises GuaError if the request fails."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a callback for each newly listed pod."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletAnswer:
    """Result of the last kubelet query at ``queried_at`` (monotonic [s]); ``failure`` is why it failed.

    ``devices`` is ``None`` if only limits are known; ``doubt`` is why the answer may be incomplete.
    """

    queried_at: float
    devices: tuple[PodDevices, ...] | None = None
    listed: tuple[ListedPod, ...] = ()
    failure: str | None = None
    doubt: str | None = None
    notes: tuple[str, ...] = ()


def pods_by_folders(folder: Path = POD_LOGS) -> tuple[ListedPod, ...]:
    """Return the newest pod of each name from the log directories ``NAMESPACE_NAME_UID``: names and uid only.

    Opens no logs. Empty if the folder cannot be read.
    """
    pods: list[tuple[float, ListedPod]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                namespace, _, rest = entry.name.partition("_")
                name, _, uid = rest.partition("_")
                if not (is_name(namespace) and is_name(name) and _UID.fullmatch(uid)) or len(pods) >= _MOST_FOLDERS:
                    continue
                made_at = entry.stat(follow_symlinks=False).st_mtime
                pods.append((made_at, ListedPod(name=name, namespace=namespace, uids=(uid,))))
    except OSError:
        return ()
    newest = {pod.place: pod for _, pod in sorted(pods, key=lambda each: each[0])}
    return tuple(newest.values())


EVERY_SECONDS: Final = 30.0
_OLD_SECONDS: Final = 3 * EVERY_SECONDS
_LEAD_SECONDS: Final = 2.0
_LEAST_SECONDS: Final = 8.0
_AGAIN_SECONDS: Final = 5.0
_NEW_SECONDS: Final = 2.0
_LIST_SECONDS: Final = 25.0
# A kubelet that was just started answers before it knows its pods.
_YOUNG_SECONDS: Final = 30.0


@dataclass(eq=False)
class KubernetesReader:
    """Queries the kubelet in its own thread, and reports the last answer.

    It queries every 30 s, 2 s before the next tick, and when a new pod was listed. Queries are at least 8 s apart (5 s
    after a failure, 2 s for a new pod).

    ``query_devices`` returns the pods with their devices, and the seconds since the kubelet started. It raises
    GuaError; on NoSocketError the limits in ``pods`` are used instead. ``own_pod`` is this process's pod: an answer
    without it is incomplete. ``folders`` returns pods with their uids if ``pods`` is ``None``.
    """

    name = SOURCE

    query_devices: Callable[[], tuple[tuple[PodDevices, ...], float | None]]
    pods: PodList | None = None
    _: KW_ONLY
    own_pod: Place | None = None
    folders: Callable[[], tuple[ListedPod, ...]] = tuple
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._answer: KubeletAnswer | None = None
        self._next_tick: float | None = None
        self._is_urgent = self._is_closed = False
        self._before: dict[str, Allocation] = {}
        self._since_ms: dict[str, int] = {}
        self._seen: dict[str, frozenset[str]] = {}
        self._listed: tuple[ListedPod, ...] = ()
        self._listed_at: float | None = None
        self._listed_for: frozenset[Place] = frozenset()

    def begin(self) -> None:
        """Start the thread."""
        if self.pods is not None:
            self.pods.listen(self.hurry)
        self._thread = threading.Thread(target=self._work, name="gua-kubernetes", daemon=True)
        with contextlib.suppress(RuntimeError):  # process limit reached: the next look tries again
            self._thread.start()

    def hurry(self) -> None:
        """Query soon, 2 s after the last query at the earliest."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify()

    def close(self) -> None:
        """Stop the thread without waiting; a query in progress completes first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def query(self) -> None:
        """Query the kubelet now and store the answer or the failure. Never raises GuaError."""
        begun = self.monotonic()
        try:
            devices, age_seconds, notes, doubt = None, None, list[str](), None
            try:
                devices, age_seconds = self.query_devices()
            except NoSocketError as error:
                if self.pods is None:
                    raise
                notes.append(f"kubernetes: {error}: allocated cards are counted by limits of pods")
            listed = self._pod_list(devices)
            if devices is not None and not listed and self.pods is None:
                notes.append("kubernetes: pods of processes and users of allocated cards are unknown: see --kubelet")
            if self.own_pod is not None:
                if self.own_pod not in {each.place for each in (listed if devices is None else devices)}:
                    doubt = "the kubelet does not list all pods: the agent's is missing"
            elif age_seconds is not None and 0 <= age_seconds < _YOUNG_SECONDS:
                doubt = f"the kubelet was started {age_seconds:.0f} s ago: it may not know all pods yet"
            answer = KubeletAnswer(queried_at=begun, devices=devices, listed=listed, doubt=doubt, notes=tuple(notes))
        except GuaError as error:
            answer = KubeletAnswer(queried_at=begun, failure=f"the kubelet: {error}")
        except Exception as error:  # noqa: BLE001 - the next query may succeed
            answer = KubeletAnswer(queried_at=begun, failure=f"the kubelet: unexpected {type(error).__name__}")
        with self._changed:
            self._answer = answer

    def _pod_list(self, devices: Sequence[PodDevices] | None) -> tuple[ListedPod, ...]:
        """Return the cached list of pods, or a new one if it is 25 s old, or the pods with devices changed.

        Without ``devices`` the list is always new, and a failure raises GuaError; with them an old list is good enough.
        """
        now = self.monotonic()
        places = frozenset(each.place for each in devices or () if each.devices or each.claimed)
        is_old = self._listed_at is None or now - self._listed_at >= _LIST_SECONDS
        is_whole = places <= {pod.place for pod in self._listed}
        if devices is not None and places == self._listed_for and is_whole and not is_old:
            return self._listed
        try:
            self._listed = self.folders() if self.pods is None else tuple(self.pods.query())
            self._listed_at, self._listed_for = now, places
        except GuaError:
            if devices is None:
                raise
        return self._listed

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return the pods' allocations within (since_ms, now_ms], Unix ms, by the newest answer."""
        if self._thread is not None and not self._thread.is_alive() and not self._is_closed:
            self.begin()
        now = self.monotonic()
        with self._changed:
            answer = self._answer
            self._next_tick = now + (now_ms - since_ms) / 1000
            self._changed.notify()
        reason = "the kubelet was not queried yet" if answer is None else answer.failure
        if answer is not None and now - answer.queried_at > _OLD_SECONDS:
            reason = f"the kubelet gave no answer for {now - answer.queried_at:.0f} s"
        if answer is None or reason is not None:
            self._before = {}  # ends before the next answer are unknown
            return ReaderLook(reason=reason)
        if not cards:
            return ReaderLook(reason=answer.doubt, notes=answer.notes)
        queried_ms = now_ms - round((now - answer.queried_at) * 1000)
        current = self._current(answer, cards, queried_ms)
        noticed_ms = min(now_ms, max(since_ms, queried_ms))
        ended = [] if answer.doubt is not None else self._ended(answer, current, since_ms, noticed_ms)
        self._before = current.allocations
        return ReaderLook(
            allocations=(*current.allocations.values(), *ended),
            reason=answer.doubt if current.reason is None else f"the kubelet: {current.reason}",
            unknown_cards=frozenset(current.unknown),
            notes=answer.notes,
        )

    def _current(self, answer: KubeletAnswer, cards: Sequence[CardKey], queried_ms: int) -> PodAllocations:
        # A pod owns the cards on which its processes were seen for as long as it runs.
        live = frozenset(uid for pod in answer.listed if not pod.has_ended for uid in pod.uids)
        self._seen = {card.uuid: (self._seen.get(card.uuid, frozenset()) | card.pods) & live for card in cards}
        if answer.devices is not None:
            current = allocations_by_devices(answer.devices, answer.listed, CardTable(cards), self._seen)
        else:
            current = allocations_by_limits(answer.listed, CardTable(cards), self._seen)
        if answer.listed:  # allocations of pods missing from the list are unknown
            uids = frozenset(uid for pod in answer.listed for uid in pod.uids)
            current.unknown |= {card.uuid for card in cards if card.pods - uids}
        self._since_ms = {id_: self._since_ms.get(id_, queried_ms) for id_ in current.allocations}
        for id_, allocation in current.allocations.items():
            if allocation.since_ms == UNKNOWN_START:
                current.allocations[id_] = replace(allocation, since_ms=self._since_ms[id_])
        return current

    def _ended(
        self, answer: KubeletAnswer, current: PodAllocations, since_ms: int, noticed_ms: int
    ) -> list[Allocation]:
        """Return the last look's allocations that are gone, ended at the pod's end or else ``noticed_ms`` (Unix ms)."""
        ends = {uid: pod.ended_ms for pod in answer.listed if pod.has_ended for uid in pod.uids}
        names = {(each.pod_namespace, each.pod_name) for each in current.allocations.values()}
        allocated = frozenset().union(*(each.cards for each in current.allocations.values()))
        ended: list[Allocation] = []
        for id_, allocation in self._before.items():
            # An allocation known without a uid continues under its uid.
            renamed = allocation.pod_uid is None and (allocation.pod_namespace, allocation.pod_name) in names
            cards = allocation.cards if allocation.pod_name is not None else allocation.cards - allocated
            until_ms = ends.get(allocation.pod_uid or "") or noticed_ms
            if id_ not in current.allocations and not renamed and cards and until_ms > since_ms:
                ended.append(replace(allocation, cards=cards, until_ms=min(until_ms, noticed_ms)))
        return ended

    def _work(self) -> None:
        while True:
            self.query()
            with self._changed:
                while not self._is_closed and (left := self.due() - self.monotonic()) > 0:
                    self._changed.wait(left)
                if self._is_closed:
                    return
                self._is_urgent = False

    def due(self) -> float:
        """Return when to query next, on the monotonic clock [s]."""
        if self._answer is None:
            return 0.0
        queried_at = self._answer.queried_at
        if self._answer.failure is not None or self._answer.doubt is not None:
            return queried_at + _AGAIN_SECONDS
        if self._is_urgent:
            return queried_at + _NEW_SECONDS
        due = queried_at + EVERY_SECONDS
        if self._next_tick is not None and self._next_tick - _LEAD_SECONDS > queried_at:
            due = min(due, self._next_tick - _LEAD_SECONDS)
        return max(due, queried_at + _LEAST_SECONDS)


def kubernetes_opener(pods: PodList | None, socket: Path = SOCKET, *, own_pod: Place | None = None) -> Opener:
    """Return the opener of this source; it is detected by the kubelet's socket or by ``pods``."""

    def detect() -> str | None:
        with contextlib.suppress(PermissionError):
            if socket.exists():
                return f"the kubelet's {socket}"
        return None if pods is None else "limits of pods in the kubelet's list"

    def open_reader() -> KubernetesReader:
        reader = KubernetesReader(lambda: query_pod_resources(socket), pods, own_pod=own_pod, folders=pods_by_folders)
        reader.begin()
        return reader

    return Opener(name=SOURCE, detect=detect, open=open_reader)
