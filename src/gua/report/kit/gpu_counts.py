"""How many GPUs there are, in words that add up: MIG instances are told apart, MIG slices left over are no card."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gua.core.words import Mig
from gua.report.kit.figures import plural
from gua.report.model import Card

PartOfGpu = tuple[Hashable, str | None, Hashable]
"""What tells a card from others, its part in MIG, and of an instance what tells its GPU, ``None`` if not known."""


def parts(cards: Iterable[Card]) -> list[PartOfGpu]:
    """Return the cards of a report as they are counted."""
    return [((card.host, card.gpu), card.mig, card.parent and (card.host, card.parent)) for card in cards]


def gpu_numbers(cards: Iterable[PartOfGpu]) -> tuple[int, int, int]:
    """Return how many GPUs there are, how many of them were in MIG instances, and how many instances."""
    found = list(cards)
    instances = {card: gpu or card for card, mig, gpu in found if mig == Mig.INSTANCE}
    partitioned = {*instances.values(), *(card for card, mig, _ in found if mig == Mig.PARENT)}
    gpus = partitioned | {card for card, _, _ in found if card not in instances}
    return len(gpus), len(partitioned), len(instances)


def gpus_in_words(cards: Iterable[PartOfGpu]) -> str:
    """Return ``8 GPUs``, or where some were partitioned ``8 GPUs (one in 2 MIG instances)``."""
    gpus, partitioned, instances = gpu_numbers(cards)
    if not partitioned:
        return plural(gpus, "GPU")
    which = "" if partitioned == gpus else "one " if partitioned == 1 else f"{partitioned:,} "
    cut = plural(instances, "MIG instance") if instances else "no MIG instance"
    return f"{plural(gpus, 'GPU')} ({which}in {cut})"


def cards_in_words(migs: Iterable[str | None]) -> str:
    """Return ``7 GPUs and 2 MIG instances``: what can be used as it is, so that it adds up to its counts by state."""
    found = [mig for mig in migs if mig != Mig.PARENT]
    instances = found.count(Mig.INSTANCE)
    whole = plural(len(found) - instances, "GPU")
    cut = plural(instances, "MIG instance")
    return whole if not instances else cut if instances == len(found) else f"{whole} and {cut}"
