"""Conversion of pods' devices and limits to allocations of this host's cards."""

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
"""Id of the allocation of cards that limits allocate to an unknown pod."""
NOT_TOLD: Final = 0
"""Start of a pod's allocation that the list does not contain."""
_KIND: Final = "pod"
_LONGEST_ID: Final = 128
_DIGEST: Final = 16
PodsOn = Mapping[str, frozenset[str]]
"""Uids of pods whose processes were seen on a card, by the card's UUID."""


@dataclass(slots=True)
class Found:
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


def found_by_limits(pods: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn) -> Found:
    """Return the pods' allocations by their limits and the processes seen on cards.

    A limit such as ``nvidia.com/gpu: 2`` is only a count. It identifies cards if the limits cover all cards, or if each
    pod's processes are seen on as many cards as its limit. Other cards are unknown unless no pod has a limit.
    """
    found = Found()
    whole, instances = cards.whole(), cards.instances()
    asking = [pod for pod in pods if not pod.has_ended]
    if whole or not instances:
        _add_kind(found, whole, [_Asker(pod, (_GPU,), whole, pods_on) for pod in asking])
        _add_kind(found, instances, [_Asker(pod, (_INSTANCE,), instances, pods_on) for pod in asking])
    else:  # a device plugin with MIG instances only may name them nvidia.com/gpu
        _add_kind(found, instances, [_Asker(pod, (_GPU, _INSTANCE), instances, pods_on) for pod in asking])
    return found


class _Asker:
    """A pod, its limit for one kind of card, and the cards of that kind on which its processes were seen.

    ``count`` is the limit, ``None`` if unknown; ``least`` is its known part.
    """

    def __init__(self, pod: ListedPod, resources: tuple[str, ...], pool: Sequence[CardKey], pods_on: PodsOn) -> None:
        # Names of instance resources end with the MIG profile.
        names = [name for name in pod.limits if name.removesuffix(_SHARED).startswith(resources)]
        names = [name for name in names if name.startswith(_INSTANCE) or name.removesuffix(_SHARED) == _GPU]
        counts = [pod.limits[name] for name in names]
        self.pod = pod
        self.least = sum(count for count in counts if count is not None)
        self.count = None if pod.has_claims or None in counts else self.least
        self.is_sharing = any(name.endswith(_SHARED) for name in names)
        self.cards = {card.uuid for card in pool if not pods_on.get(card.uuid, frozenset()).isdisjoint(pod.uids)}


def _add_kind(found: Found, pool: Sequence[CardKey], pods: Sequence[_Asker]) -> None:
    """Add the allocations and unknown cards of one kind of card."""
    askers = [asker for asker in pods if asker.count != 0]
    seen = set[str]().union(*(asker.cards for asker in askers))
    left = {card.uuid for card in pool} - seen
    # With sharing, a limit counts shares of cards, so the number of cards is unknown.
    shares = any(asker.is_sharing for asker in askers) or sum(asker.least for asker in askers) > len(pool)
    shares |= sum(len(asker.cards) for asker in askers) > len(seen)
    takes_more = False
    of_more: list[_Asker] = []
    for asker in askers:
        if asker.count is None or shares or len(asker.cards) <= asker.count:
            found.add(_allocation(asker.pod.namespace, asker.pod.name, asker.pod, asker.cards))
        else:  # seen on more cards than its limit: which ones are allocated is unknown
            takes_more = True
            found.unknown |= asker.cards
        if asker.count is None or (asker.count > 1 and shares) or len(asker.cards) < asker.count:
            of_more.append(asker)
    missing = sum(max(0, asker.least - len(asker.cards)) for asker in of_more)
    if not of_more:
        return
    if shares or takes_more or missing < len(left):
        found.unknown |= left
    elif len(of_more) == 1:
        pod = of_more[0].pod
        found.add(_allocation(pod.namespace, pod.name, pod, left))
    else:
        found.add(Allocation(source=SOURCE, id=OF_SOME_POD, cards=frozenset(left), since_ms=NOT_TOLD, kind=_KIND))


def found_by_devices(
    devices: Sequence[PodDevices], listed: Sequence[ListedPod], cards: CardTable, pods_on: PodsOn
) -> Found:
    """Return the allocations by PodResources; pods that ended by ``listed`` are skipped: older kubelets report them."""
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
    # Kubelets before 1.34, or with the feature disabled, do not report DRA devices.
    told = {each.place for each in devices if each.claimed}
    if any(pod.has_claims and place not in told for place, pod in live.items()):
        found.unknown |= cards.uuids
    return found


def _candidates(pod: PodDevices, cards: CardTable, found: Found) -> Iterator[frozenset[str]]:
    """Yield the UUIDs that each of a pod's devices may be; an unknown device sets ``found.reason``."""
    devices: list[Device | ClaimedDevice] = [*pod.devices, *pod.claimed]
    for device in devices:
        try:
            yield cards.of_device(device)
        except UnknownDeviceError as error:
            found.reason = str(error)


def _narrowed(candidates: frozenset[str], pod: ListedPod, pods_on: PodsOn) -> frozenset[str]:
    """Return the candidate with processes of the pod if exactly one has them, else all candidates."""
    if len(candidates) < 2:
        return candidates
    on = frozenset(uuid for uuid in candidates if not pods_on.get(uuid, frozenset()).isdisjoint(pod.uids))
    return on if len(on) == 1 else candidates


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
