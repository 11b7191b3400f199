"""Which cards pods have by limits and processes alone; what cannot be determined is unknown, never free."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gua.allocation.card_names import CardTable
from gua.allocation.kubernetes import OF_SOME_POD, allocations_by_limits
from gua.core.allocation import CardKey
from gua.core.pods import ListedPod

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
FOUR = tuple("ABCD")


def pod(
    name: str, limits: Mapping[str, int | None] | int = 1, *, claims: bool = False, ended: bool = False
) -> ListedPod:
    counts = {GPU: limits} if isinstance(limits, int) else limits
    limited = {resource: count for resource, count in counts.items() if count != 0}
    return ListedPod(
        name=name, namespace="lab", uids=(name, f"{name}-2"), limits=limited, has_claims=claims, has_ended=ended
    )


def told(
    pods: list[ListedPod],
    seen: Mapping[str, str] | None = None,
    *,
    cards: tuple[str, ...] = FOUR,
    instances: tuple[str, ...] = (),
) -> tuple[dict[str, str], str, str]:
    """Return cards by owner, those of some pod, and the unknown; instances are of the card P."""
    keys = [CardKey(uuid) for uuid in cards] + [CardKey(uuid, parent="P") for uuid in instances]
    if instances:
        keys.append(CardKey("P"))
    on = {uuid: frozenset(pods_on.split()) for uuid, pods_on in (seen or {}).items()}
    found = allocations_by_limits(pods, CardTable(keys), on)
    owned = {id_: "".join(sorted(each.cards)) for id_, each in found.allocations.items()}
    return owned, owned.pop(OF_SOME_POD, ""), "".join(sorted(found.unknown))


@pytest.mark.parametrize(
    ("pods", "seen", "owned", "some", "unknown"),
    [
        # none is allocated: all are free
        ([], {}, {}, "", ""),
        ([pod("web", 0)], {"A": "web"}, {}, "", ""),
        ([pod("done", 4, ended=True)], {"A": "done"}, {}, "", ""),
        # as many as there are
        ([pod("a", 4)], {}, {"a": "ABCD"}, "", ""),
        ([pod("a", 2), pod("b", 2)], {}, {}, "ABCD", ""),
        ([pod("a", 2), pod("b", 2)], {"B": "a", "D": "a"}, {"a": "BD", "b": "AC"}, "", ""),
        ([pod("a", 2), pod("b", 2)], {"B": "a", "D": "b"}, {"a": "B", "b": "D"}, "AC", ""),
        # fewer: those that processes show, and the others if that is all of them
        ([pod("a", 1)], {}, {}, "", "ABCD"),
        ([pod("a", 1)], {"C": "a"}, {"a": "C"}, "", ""),
        ([pod("a", 1)], {"C": "a-2"}, {"a": "C"}, "", ""),
        ([pod("a", 1)], {"C": "stranger"}, {}, "", "ABCD"),
        ([pod("a", 2)], {"C": "a"}, {"a": "C"}, "", "ABD"),
        ([pod("a", 2), pod("b", 1)], {"A": "a", "B": "a"}, {"a": "AB"}, "", "CD"),
        ([pod("a", 2), pod("b", 1)], {"A": "a", "B": "a", "C": "b x"}, {"a": "AB", "b": "C"}, "", ""),
        # one that takes more than it was given
        ([pod("a", 1)], {"A": "a", "B": "a"}, {}, "", "AB"),
        ([pod("a", 1), pod("b", 2)], {"A": "a", "B": "a"}, {}, "", "ABCD"),
        # shared cards: counts are of shares
        ([pod("a", 3), pod("b", 3)], {}, {}, "", "ABCD"),
        ([pod("a"), pod("b")], {"A": "a b"}, {"a": "A", "b": "A"}, "", ""),
        ([pod("a"), pod("b"), pod("c"), pod("d")], {"A": "a b"}, {"a": "A", "b": "A"}, "", "BCD"),
        ([pod("a", {"nvidia.com/gpu.shared": 1})], {}, {}, "", "ABCD"),
        ([pod("a", {"nvidia.com/gpu.shared": 1})], {"A": "a"}, {"a": "A"}, "", ""),
        ([pod("a", {"nvidia.com/gpu.shared": 4})], {"A": "a"}, {"a": "A"}, "", "BCD"),
        # claims, and limits that cannot be read
        ([pod("a", 0, claims=True)], {}, {}, "", "ABCD"),
        ([pod("a", 0, claims=True)], {"A": "a"}, {"a": "A"}, "", "BCD"),
        ([pod("a", 4), pod("b", 0, claims=True)], {}, {}, "ABCD", ""),
        ([pod("a", {GPU: None})], {}, {}, "", "ABCD"),
        # other resources allocation no whole card
        ([pod("a", {"nvidia.com/gpumem": 4000, "nvidia.com/GA102GL": 1})], {}, {}, "", ""),
        ([pod("a", {MIG: 1})], {}, {}, "", ""),
    ],
)
def test_whole_cards(
    pods: list[ListedPod], seen: dict[str, str], owned: dict[str, str], some: str, unknown: str
) -> None:
    assert told(pods, seen) == (owned, some, unknown)


@pytest.mark.parametrize(
    ("pods", "seen", "owned", "some", "unknown"),
    [
        ([], {}, {}, "", ""),
        ([pod("a", {MIG: 1})], {}, {}, "", "12"),
        ([pod("a", {MIG: 1})], {"2": "a"}, {"a": "2"}, "", ""),
        ([pod("a", {MIG: 1, "nvidia.com/mig-3g.40gb": 1})], {}, {"a": "12"}, "", ""),
        ([pod("a", {MIG: 1, GPU: 2})], {"A": "a", "1": "a"}, {"a": "1AB"}, "", ""),
        ([pod("a", {MIG: 1, GPU: 1})], {"1": "a"}, {"a": "1"}, "", "AB"),
        ([pod("a", {GPU: 2})], {}, {"a": "AB"}, "", ""),
        ([pod("a", {f"{MIG}.shared": 2})], {}, {}, "", "12"),
    ],
)
def test_instances_beside_whole_cards(
    pods: list[ListedPod], seen: dict[str, str], owned: dict[str, str], some: str, unknown: str
) -> None:
    assert told(pods, seen, cards=("A", "B"), instances=("1", "2")) == (owned, some, unknown)


def test_where_all_cards_are_partitioned_instances_may_be_called_gpus() -> None:
    assert told([pod("a", 2)], cards=(), instances=("1", "2", "3")) == ({}, "", "123")
    assert told([pod("a", 2), pod("b", {MIG: 1})], cards=(), instances=("1", "2", "3")) == ({}, "123", "")


def test_without_cards_there_are_no_allocations() -> None:
    assert told([pod("a", 2)], cards=()) == ({}, "", "")
