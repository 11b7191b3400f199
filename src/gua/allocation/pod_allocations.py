"""Conversion of pods' devices and limits to allocations of this host's cards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
