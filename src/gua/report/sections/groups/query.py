"""Cards added up by host, cluster, model or any label: the groups' sums are those of the headline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gua.core.words import Mig
from gua.report.costs import added_by_state
from gua.report.filters import CLUSTER_KEY, Labels, check_key
from gua.report.kit.words import gpu_numbers, parts
from gua.report.model import Card
from gua.report.sections.groups.model import Group, Grouping
from gua.report.states import STATES, StateTime
from gua.report.window import BY_HOST, BY_MODEL

BY_CLUSTER: Final = "cluster"
_DECIMALS: Final = 3


def needs_labels(by: Iterable[str]) -> bool:
    """Return whether groups can only be told by the hosts' labels."""
    return any(one not in {BY_HOST, BY_MODEL} for one in by)


def check_by(by: Iterable[str], hosts: Iterable[str], labels: Labels) -> None:
    """Raise UsageError, naming the labels that exist, for a group that none of the hosts is told by."""
    among = {host: labels.get(host, {}) for host in hosts}
    for one in by:
        if one not in {BY_HOST, BY_MODEL}:
            check_key(_label(one), among)


def rollups(cards: Sequence[Card], by: Sequence[str], labels: Labels) -> tuple[Grouping, ...]:
    """Return the sums asked for, and those of the hosts where there are several."""
    several = len({card.host for card in cards}) > 1
    every = dict.fromkeys([*by, *([BY_HOST] if several else [])])
    return tuple(rollup(cards, one, labels) for one in every)


def rollup(cards: Sequence[Card], by: str, labels: Labels) -> Grouping:
    """Return the cards in groups of one value of ``by``: ``host``, ``model``, ``cluster`` or a label's key.

    A card of which that is not known belongs to the group ``None``.
    """
    groups: dict[str | None, list[Card]] = {}
    key_of = _key(by, labels)
    for card in cards:
        groups.setdefault(key_of(card), []).append(card)
    ordered = sorted(groups, key=lambda name: (name is None, name or ""))
    return Grouping(by=by, groups=tuple(group_of(name, groups[name]) for name in ordered))


def group_of(name: str | None, cards: Sequence[Card]) -> Group:
    """Return the sum of cards, exact to a thousandth of a millisecond as the store's rows are."""
    return Group(
        name=name,
        hosts=len({card.host for card in cards}),
        gpus=gpu_numbers(parts(cards))[0],
        cards=sum(card.mig != Mig.PARENT for card in cards),
        expected_gpu_ms=_sum(card.expected_gpu_ms for card in cards),
        observed_gpu_ms=_sum(card.observed_gpu_ms for card in cards),
        unobserved_gpu_ms=_sum(card.unobserved_gpu_ms for card in cards),
        gaps=sum(card.gaps for card in cards),
        states=_added_states([card.states for card in cards]),
        costs=added_by_state(card.costs for card in cards),
    )


def added(groups: Sequence[Group]) -> Group:
    """Return the sum of groups that share no card; hosts of several groups count in each."""
    return Group(
        name=None,
        hosts=sum(group.hosts for group in groups),
        gpus=sum(group.gpus for group in groups),
        cards=sum(group.cards for group in groups),
        expected_gpu_ms=_sum(group.expected_gpu_ms for group in groups),
        observed_gpu_ms=_sum(group.observed_gpu_ms for group in groups),
        unobserved_gpu_ms=_sum(group.unobserved_gpu_ms for group in groups),
        gaps=sum(group.gaps for group in groups),
        states=_added_states([group.states for group in groups]),
        costs=added_by_state(group.costs for group in groups),
    )


def _added_states(every: Sequence[Mapping[str, StateTime]]) -> dict[str, StateTime]:
    return {
        state: StateTime(
            gpu_ms=_sum(states[state].gpu_ms for states in every),
            card_ticks=sum(states[state].card_ticks or 0 for states in every),
        )
        for state in STATES
    }


def _sum(values: Iterable[float]) -> float:
    """Return a sum that does not depend on the order: the values have three decimals at most."""
    return round(math.fsum(values), _DECIMALS)


def _key(by: str, labels: Labels) -> Callable[[Card], str | None]:
    if by == BY_HOST:
        return lambda card: card.host
    if by == BY_MODEL:
        return lambda card: card.model or card.name
    return lambda card: labels.get(card.host, {}).get(_label(by))


def _label(by: str) -> str:
    return CLUSTER_KEY if by == BY_CLUSTER else by
