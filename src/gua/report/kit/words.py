"""Names and phrases shared by sections, and numbers of GPUs and MIG instances in words."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
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
_ID_HEAD: Final = len("MIG-0123")


def few_sentences(sentences: Sequence[str], one: str, many: str) -> Iterator[str]:
    """Yield the first five sentences, and the number of the others; ``one`` and ``many`` are what each is about."""
    yield from sentences[:MOST_NAMED]
    rest = len(sentences) - MOST_NAMED
    if rest > 0:
        yield f"And {plural(rest, f'more {one}', f'more {many}')} (--json has all)."


RECOVERY: Final = ("card that needs recovery", "cards that need recovery")


def recoveries(report: Report, style: Style, *, always: bool = False) -> Iterator[str]:
    """Yield a sentence on each card that needs recovery, five at most; only ``always`` beside section slow-cards.

    A card that is not known to need it at the window's end, or in a window of the past, gets no command.
    """
    sentences = []
    for card in sorted(report.cards, key=lambda card: -(card.recovery_ms or 0)):
        if card.recovery_action and (always or "slow-cards" not in report.sections):
            host = f"{style.name(card.host, NAME_WIDTH)} " if len(report.hosts) > 1 else ""
            where, length = f"{host}GPU {index(card.index, card.gpu, style)}", span(card.recovery_ms)
            if card.recovery_at_ms is not None and report.is_now(card.recovery_at_ms):
                sentences.append(recovery_in_words(f"{where} needs", card.recovery_action, card.index, length))
            else:
                sentences.append(
                    f"{where} needed {recovery_need(card.recovery_action)}, reported for {length}, not now."
                )
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


Places = Callable[[str, str], str]


def places(report: Report, style: Style) -> Places:
    """Return a function from host and card id to the card's label: ``GPU 3``, ``node-1 GPU 3``, ``GPU 4 3g.40gb``.

    MIG instances with equal labels get the beginning of their UUID instead.
    """
    several = len(report.hosts) > 1
    found = {}
    for card in report.cards:
        host = f"{style.name(card.host, NAME_WIDTH)} " if several else ""
        slices = (card.name or "").partition(" MIG ")[2] or card.gpu
        parts = {str(Mig.PARENT): " unallocated", str(Mig.INSTANCE): f" {style.name(slices, _ID_WIDTH)}"}
        part = parts.get(card.mig or "", "")
        found[card.host, card.gpu] = f"{host}GPU {index(card.index, card.gpu, style)}{part}"
    twins = {label for label, count in Counter(found.values()).items() if count > 1}
    heads = Counter(gpu[:_ID_HEAD] for _, gpu in found)

    def place(host: str, gpu: str) -> str:
        label = found.get((host, gpu), "")
        if label and label not in twins:
            return label
        short = gpu[:_ID_HEAD] if heads[gpu[:_ID_HEAD]] == 1 else gpu
        return f"{label.rpartition(' ')[0]} {style.name(short, _ID_WIDTH)}".strip()

    return place


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
