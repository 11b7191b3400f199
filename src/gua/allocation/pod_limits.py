"""Which cards pods have, by no more than how many of them each was promised and whose processes are on them.

Kubernetes' list of pods says ``nvidia.com/gpu: 2``, not which two. That is enough where none is promised, where as many
are promised as there are, and where the processes of each pod are seen on as many cards as it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gua.allocation.device_ids import Cards
from gua.core.allocation import CardKey
from gua.core.pods import ListedPod

_GPU: Final = "nvidia.com/gpu"
_INSTANCE: Final = "nvidia.com/mig-"
_SHARED: Final = ".shared"


@dataclass(slots=True)
class LimitsTold:
    """What limits and processes tell: UUIDs of cards by the pod's first uid, and of those of which less is known.

    ``of_some_pod`` are promised, but not known to whom; ``unknown`` may be promised or not.
    """

    owned: dict[str, set[str]] = field(default_factory=dict)
    of_some_pod: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


def by_limits(pods: Sequence[ListedPod], cards: Cards, seen: Mapping[str, frozenset[str]]) -> LimitsTold:
    """Return what is known by the pods of a list; ``seen`` are uids of pods that were seen on a card, by its UUID."""
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
    of_more = list(_unaccounted(askers, cards, shares=shares))
    missing = sum(max(0, asker.least - len(cards[asker.pod.uids[0]])) for asker in of_more)
    if not of_more:
        return
    if shares or takes_more or missing < len(left):
        told.unknown |= left
    elif len(of_more) == 1:
        told.owned[of_more[0].pod.uids[0]] |= left
    else:
        told.of_some_pod |= left


def _unaccounted(askers: Sequence[_Asker], cards: Mapping[str, set[str]], *, shares: bool) -> Iterator[_Asker]:
    """Return those of whose cards not all are known."""
    for asker in askers:
        seen = len(cards[asker.pod.uids[0]])
        if asker.count is None or (asker.count > 1 and shares) or seen < asker.count:
            yield asker
