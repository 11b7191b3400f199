"""Names and phrases shared by sections, and numbers of GPUs and MIG instances in words."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from gua.core.words import Mig, recovery_need, recovery_steps
from gua.report.kit.figures import NONE, plural, span
from gua.report.kit.style import Style
from gua.report.model import Card, Report

MOST_NAMED: Final = 5
NAME_WIDTH: Final = 32
NOT_KNOWN: Final = "(unknown)"
LEFT_OVER: Final = "unallocated MIG slices"
GUA: Final = "gua"
"""The allocation source of gua's own reservations."""
COMMANDS: Final = {"run": "gua run", "manual": "gua reserve"}
"""The command that made a reservation, by its kind."""
_CARD_WIDTH: Final = 30
_ID_WIDTH: Final = 13


def few_sentences(sentences: Sequence[str], one: str, many: str) -> Iterator[str]:
    """Yield the first five sentences, and the number of the others; ``one`` and ``many`` are what each is about."""
    yield from sentences[:MOST_NAMED]
    rest = len(sentences) - MOST_NAMED
    if rest > 0:
        yield f"And {plural(rest, f'more {one}', f'more {many}')} (--json has all)."


RECOVERY: Final = ("card that needs recovery", "cards that need recovery")


def recoveries(report: Report, style: Style, *, always: bool = False) -> Iterator[str]:
    """Yield a sentence on each card that needs recovery, five at most; only ``always`` beside section slow-cards."""
    sentences = []
    for card in sorted(report.cards, key=lambda card: -(card.recovery_ms or 0)):
        if card.recovery_action and (always or "slow-cards" not in report.sections):
            host = f"{style.name(card.host, NAME_WIDTH)} " if len(report.hosts) > 1 else ""
            where = f"{host}GPU {index(card.index, card.gpu, style)} {'needs' if report.ends_now else 'needed'}"
            sentences.append(recovery_in_words(where, card.recovery_action, card.index, span(card.recovery_ms)))
    yield from few_sentences(sentences, *RECOVERY)


def recovery_in_words(where: str, action: int, number: int | None, length: str) -> str:
    """Return what a card (``GPU 3 needs``) needs, for how long the driver has reported it, and how to do it."""
    return f"{where} {recovery_need(action)}, reported for {length}: {recovery_steps(action, number)}."


def known(name: str | None, style: Style, width: int = NAME_WIDTH) -> str:
    """Return a sanitized name, or ``(unknown)``."""
    return NOT_KNOWN if name is None else style.name(name, width) or '""'


def named(name: str | None, style: Style, width: int = NAME_WIDTH) -> str:
    """Return a sanitized name, or ``-`` for ``None``."""
    return NONE if name is None else style.name(name, width)


def card_name(name: str | None, gpu: str, style: Style, mig: str | None = None) -> str:
    """Return a card's name without its vendor prefix, or its UUID where it has no name."""
    if mig == Mig.PARENT:
        return LEFT_OVER
    return style.name(short_name(name or "") or gpu, _CARD_WIDTH)


def short_name(name: str) -> str:
    """Return a driver's card name without the prefixes ``NVIDIA`` and ``GeForce``."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def index(number: int | None, gpu: str, style: Style) -> str:
    """Return a card's index on its host, or its shortened UUID where it has none."""
    return style.name(gpu, _ID_WIDTH) if number is None else str(number)


PartOfGpu = tuple[Hashable, str | None, Hashable]
"""A card's key, its part in MIG, and for an instance its GPU's key, ``None`` if unknown."""


def parts(cards: Iterable[Card]) -> list[PartOfGpu]:
    """Return the cards of a report as input of :func:`gpu_numbers`."""
    return [((card.host, card.gpu), card.mig, card.parent and (card.host, card.parent)) for card in cards]


def gpu_numbers(cards: Iterable[PartOfGpu]) -> tuple[int, int, int]:
    """Return the number of GPUs, of GPUs that were in MIG mode, and of MIG instances."""
    found = list(cards)
    instances = {card: gpu or card for card, mig, gpu in found if mig == Mig.INSTANCE}
    partitioned = {*instances.values(), *(card for card, mig, _ in found if mig == Mig.PARENT)}
    gpus = partitioned | {card for card, _, _ in found if card not in instances}
    return len(gpus), len(partitioned), len(instances)


def gpus_in_words(cards: Iterable[PartOfGpu]) -> str:
    """Return ``8 GPUs``, or if some were partitioned ``8 GPUs (one in 2 MIG instances)``."""
    gpus, partitioned, instances = gpu_numbers(cards)
    if not partitioned:
        return plural(gpus, "GPU")
    which = "" if partitioned == gpus else "one " if partitioned == 1 else f"{partitioned:,} "
    cut = plural(instances, "MIG instance") if instances else "no MIG instance"
    return f"{plural(gpus, 'GPU')} ({which}in {cut})"


def cards_in_words(migs: Iterable[str | None]) -> str:
    """Return ``7 GPUs and 2 MIG instances``: usable cards, so that they add up to the counts by state."""
    found = [mig for mig in migs if mig != Mig.PARENT]
    instances = found.count(Mig.INSTANCE)
    whole = plural(len(found) - instances, "GPU")
    cut = plural(instances, "MIG instance")
    return whole if not instances else cut if instances == len(found) else f"{whole} and {cut}"
