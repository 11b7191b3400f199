"""Pods' devices and limits as allocations of this host's cards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gua.allocation.card_names import CardTable, UnknownDeviceError
from gua.allocation.pod_resources import ClaimedDevice, Device, PodDevices
from gua.core.allocation import Allocation, CardKey
from gua.core.pods import ListedPod

_GPU: Final = "nvidia.com/gpu"
_INSTANCE: Final = "nvidia.com/mig-"
_SHARED: Final = ".shared"
SOURCE: Final = "kubernetes"
OF_SOME_POD: Final = "of-some-pod"
"""The id of what is promised by limits without being known to which pod."""
NOT_TOLD: Final = 0
"""When a pod's allocation began, where the list does not tell."""
_KIND: Final = "pod"
_LONGEST_ID: Final = 128
_DIGEST: Final = 16
PodsOn = Mapping[str, frozenset[str]]
"""Uids of pods by the UUID of the card that they were seen on."""


@dataclass(slots=True)
class LimitsTold:
    """What limits and processes tell: UUIDs of cards by the pod's first uid, and of those of which less is known.

    ``of_some_pod`` are promised, but not known to whom; ``unknown`` may be promised or not.
    """

    owned: dict[str, set[str]] = field(default_factory=dict)
    of_some_pod: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


def by_limits(pods: Sequence[ListedPod], cards: CardTable, seen: Mapping[str, frozenset[str]]) -> LimitsTold:
    """Return which cards pods have by their limits and processes; ``seen`` are uids of pods by the UUID of their card.

    A limit says ``nvidia.com/gpu: 2``, not which two. That is enough where none is promised, where as many are promised
    as there are, and where the processes of each pod are seen on as many cards as it has.
    """
    told = LimitsTold()
    whole, instances = cards.whole(), cards.instances()
    asking = [pod for pod in pods if not pod.has_ended]
    if whole or not instances:
        _tell(told, whole, [_Asker(pod, (_GPU,)) for pod in asking], seen)
        _tell(told, instances, [_Asker(pod, (_INSTANCE,)) for pod in asking], seen)
    else:  # a plugin that has instances alone may call them GPUs
        _tell(told, instances, [_Asker(pod, (_GPU, _INSTANCE)) for pod in asking], seen)
    return told


class _Asker:
    """A pod and how much of one kind of card it was promised; ``count`` is ``None`` where that is not known."""

    def __init__(self, pod: ListedPod, resources: tuple[str, ...]) -> None:
        names = [name for name in pod.limits if _is_of(name, resources)]
        counts = [pod.limits[name] for name in names]
        known = sum(count for count in counts if count is not None)
        self.pod = pod
        self.least = known
        self.count = None if pod.has_claims or None in counts else known
        self.is_sharing = any(name.endswith(_SHARED) for name in names)

    def cards(self, pool: Sequence[CardKey], seen: Mapping[str, frozenset[str]]) -> set[str]:
        """Return the cards on which its processes were seen."""
        return {card.uuid for card in pool if not seen.get(card.uuid, frozenset()).isdisjoint(self.pod.uids)}


def _is_of(name: str, resources: tuple[str, ...]) -> bool:
    whole = name.removesuffix(_SHARED)
    return any(whole.startswith(each) if each == _INSTANCE else whole == each for each in resources)


def _tell(
    told: LimitsTold, pool: Sequence[CardKey], askers: Sequence[_Asker], seen: Mapping[str, frozenset[str]]
) -> None:
    """Add what is known of cards of one kind."""
    askers = [asker for asker in askers if asker.count != 0]
    cards = {asker.pod.uids[0]: asker.cards(pool, seen) for asker in askers}
    left = {card.uuid for card in pool}.difference(*cards.values())
    # A card that is shared stands for several: counts are of shares, then, and say nothing of how many cards.
    shares = any(asker.is_sharing for asker in askers) or sum(asker.least for asker in askers) > len(pool)
    shares |= sum(map(len, cards.values())) > len(set().union(*cards.values()))
    takes_more = False
    for asker in askers:
        uid = asker.pod.uids[0]
        if asker.count is None or shares or len(cards[uid]) <= asker.count:
            told.owned.setdefault(uid, set()).update(cards[uid])
        else:  # more than it was given: which of them it was given cannot be told
            takes_more = True
            told.unknown |= cards[uid]
    of_more = [
        asker
        for asker in askers
        if asker.count is None or (asker.count > 1 and shares) or len(cards[asker.pod.uids[0]]) < asker.count
    ]
    missing = sum(max(0, asker.least - len(cards[asker.pod.uids[0]])) for asker in of_more)
    if not of_more:
        return
    if shares or takes_more or missing < len(left):
        told.unknown |= left
    elif len(of_more) == 1:
        told.owned[of_more[0].pod.uids[0]] |= left
    else:
        told.of_some_pod |= left


@dataclass(slots=True)
class Found:
    """Allocations by id, UUIDs of cards that may be promised or not, and why nothing is known of any other card."""

    allocations: dict[str, Allocation] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    reason: str | None = None

    def add(self, allocation: Allocation) -> None:
        """Add an allocation, or its cards to the one of this id."""
        before = self.allocations.get(allocation.id)
        cards = allocation.cards if before is None else allocation.cards | before.cards
        self.allocations[allocation.id] = replace(allocation, cards=cards)


def found_by_devices(
    devices: Sequence[PodDevices], listed: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn
) -> Found:
    """Return what PodResources tell. ``listed`` says which pods ended: older kubelets tell their devices still."""
    found = Found()
    live = {pod.place: pod for pod in listed if not pod.has_ended}
    over = {pod.place for pod in listed if pod.has_ended} - live.keys()
    for each in devices:
        if each.place in over:
            continue
        pod = live.get(each.place)
        own: set[str] = set()
        for candidates in _candidates(each, cards, found):
            certain = candidates if pod is None else _narrowed(candidates, pod, pods_on)
            (own if len(certain) == 1 else found.unknown).update(certain)
        if own:
            found.add(_allocation(each.namespace, each.name, pod, own))
    # A kubelet before 1.34, or with that switched off, is silent about devices that were claimed.
    told = {each.place for each in devices if each.claimed}
    if any(pod.has_claims and place not in told for place, pod in live.items()):
        found.unknown |= cards.uuids
    return found


def _candidates(pod: PodDevices, cards: CardTable, found: Found) -> Iterator[frozenset[str]]:
    """Return which cards each of a pod's devices may be."""
    devices: list[Device | ClaimedDevice] = [*pod.devices, *pod.claimed]
    for device in devices:
        try:
            yield cards.of_device(device)
        except UnknownDeviceError as error:
            found.reason = str(error)


def _narrowed(candidates: frozenset[str], pod: ListedPod, pods_on: PodsOn) -> frozenset[str]:
    """Return the one of the candidates that the pod's processes are on; all of them if that does not tell."""
    if len(candidates) < 2:
        return candidates
    on = frozenset(uuid for uuid in candidates if not pods_on.get(uuid, frozenset()).isdisjoint(pod.uids))
    return on if len(on) == 1 else candidates


def found_by_limits(listed: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn) -> Found:
    """Return what limits tell, with the processes that were seen."""
    told = by_limits(listed, cards, pods_on)
    found = Found(unknown=told.unknown)
    for pod in listed:
        own = told.owned.get(pod.uids[0])
        if own and not pod.has_ended:
            found.add(_allocation(pod.namespace, pod.name, pod, own))
    if told.of_some_pod:
        found.add(
            Allocation(source=SOURCE, id=OF_SOME_POD, cards=frozenset(told.of_some_pod), since_ms=NOT_TOLD, kind=_KIND)
        )
    return found


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
        since_ms=NOT_TOLD if pod is None or pod.since_ms is None else pod.since_ms,
        owner=namespace,
        kind=_KIND,
        pod_uid=uid,
        pod_name=name,
        pod_namespace=namespace,
        workload_kind=None if pod is None else pod.workload.kind,
        workload_model=None if pod is None else pod.workload.model,
    )
