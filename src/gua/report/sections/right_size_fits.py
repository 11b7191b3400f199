"""Whether a peak of memory fits less than a card: true, false, or ``None`` where it is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

RESERVE_DOUBT: Final = 1 << 30
"""Memory that a driver may keep for itself where it does not tell, as in the rules [bytes]."""
# What the profiles of the MIG user guide leave of their part of a card's memory: 0.91 (1g.18gb of an H200) to 0.97.
_LEFT_BY_PROFILE: Final = 0.9
# Of 1g, 2g and 3g: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
_EIGHTHS: Final = (("1/8", 1 / 8), ("1/4", 1 / 4), ("1/2", 1 / 2))
# Each part is half of the next: an instance of half a GPU has 0.45 to 0.5 of its memory.
_SMALLER: Final = 0.75
_QUARTERS: Final = (("1/4", 1 / 4), ("1/2", 1 / 2))
_SLICES: Final = (
    (re.compile(r"\b(A30|RTX PRO 6000)\b"), _QUARTERS),
    (re.compile(r"\b(A100|H100|H800|A800|H20|H200|GH200|B100|B200|GB200|B300|GB300)\b"), _EIGHTHS),
)


@dataclass(frozen=True, slots=True)
class CardSize:
    """A card's memory: ``usable_bytes`` without the driver's reserve; ``None`` where nothing can be said of it.

    Of a MIG instance ``whole_bytes`` is the memory of the GPU that it is a part of.
    """

    index: int | None
    model: str | None
    limit_bytes: int | None
    usable_bytes: int | None
    is_instance: bool = False
    whole_bytes: int | None = None


class ModelSize(NamedTuple):
    """The least memory of a model's cards, in total and what programs can have of it [bytes]."""

    limit_bytes: int
    usable_bytes: int


class Peak(NamedTuple):
    """The largest memory of ticks that tell; ``is_whole`` where all of them did."""

    bytes: int | None
    is_whole: bool

    def within(self, most_bytes: float | None) -> bool | None:
        """Return whether it lies within so much: too large is certain, small enough only where every tick tells."""
        if most_bytes is None or self.bytes is None:
            return None
        return False if self.bytes > most_bytes else True if self.is_whole else None


def usable(limit_bytes: int | None, reserved_bytes: int | None, *, is_told: bool) -> int | None:
    """Return what programs can have of a card; ``None`` where its memory is unknown, or ``is_told`` is false."""
    if not is_told or not limit_bytes:
        return None
    return max(0, limit_bytes - (RESERVE_DOUBT if reserved_bytes is None else reserved_bytes))


def fits_half(peak: Peak, card: CardSize) -> bool | None:
    """Return whether two of these would have had room on the card."""
    return peak.within(None if card.usable_bytes is None else card.usable_bytes / 2)


def fits_slice(peak: Peak, card: CardSize) -> tuple[bool | None, str | None]:
    """Return whether a MIG slice of the GPU would have done, by memory alone, and the smallest part that does.

    Of an instance only parts count that are smaller than what it has.
    """
    whole_bytes = card.whole_bytes if card.is_instance else card.limit_bytes
    if card.usable_bytes is None or not card.limit_bytes or not whole_bytes or card.model is None:
        return None, None
    parts = next((parts for pattern, parts in _SLICES if pattern.search(card.model)), None)
    if parts is None and card.is_instance:  # it can be cut, and nobody knows how
        return None, None
    found: bool | None = False
    for name, part in parts or ():
        if part > _SMALLER * card.limit_bytes / whole_bytes:
            break
        fits = peak.within(whole_bytes * part * _LEFT_BY_PROFILE)
        if fits:
            return True, name
        found = None if fits is None else found
    return found, None


def fits_smaller(peak: Peak, card: CardSize, models: Mapping[str, ModelSize]) -> tuple[bool | None, str | None]:
    """Return whether another model with less memory would have done, of ``models``, and which.

    Totals are compared: of two hosts one may have a driver that does not tell its reserve, and no smaller cards.
    """
    if card.usable_bytes is None or card.limit_bytes is None:
        return None, None
    smaller = [
        (size.usable_bytes, model)
        for model, size in models.items()
        if model != card.model and size.limit_bytes < card.limit_bytes
    ]
    found: bool | None = False
    for usable_bytes, model in sorted(smaller):
        fits = peak.within(usable_bytes)
        if fits:
            return True, model
        found = None if fits is None else found
    return found, None


def models_of(cards: Iterable[CardSize]) -> Mapping[str, ModelSize]:
    """Return the least memory of each model's whole cards; of those of which nothing can be said, nothing."""
    found: dict[str, ModelSize] = {}
    for card in cards:
        if card.is_instance or card.model is None:
            continue
        if card.limit_bytes is not None and card.usable_bytes is not None:
            least = found.get(card.model, ModelSize(card.limit_bytes, card.usable_bytes))
            found[card.model] = ModelSize(
                min(card.limit_bytes, least.limit_bytes), min(card.usable_bytes, least.usable_bytes)
            )
    return found
