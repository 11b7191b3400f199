"""Cards that CUDA shows to a program, by its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

Rules: docs.nvidia.com/cuda/cuda-programming-guide (environment variables). An entry is an index, a UUID or the unique
beginning of one. Entries from the first invalid one on have no effect; a card named twice leaves no card.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from gua.core.tick import CardReading
from gua.core.words import Mig
from gua.instrumentation.options import warn_once

# CUDA reads numbers as strtoul does: what follows the digits is ignored.
_INDEX: Final = re.compile(r"[+]?([0-9]{1,9})")


def visible_cards(cards: Sequence[CardReading]) -> Sequence[CardReading]:
    """Return the visible cards in the driver's order; warn if the variables name none, or leave doubt.

    NVML's order is that of PCI addresses. CUDA's default order begins with the fastest GPU, which NVML does not know.
    Where models differ, an index without CUDA_DEVICE_ORDER=PCI_BUS_ID names no certain card: then all are returned.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None or not cards:
        return cards
    entries = [entry.strip() for entry in text.split(",")]
    gpus = sorted((card for card in cards if card.mig is not Mig.INSTANCE), key=lambda card: card.index or 0)
    is_by_pci = os.environ.get("CUDA_DEVICE_ORDER", "").upper() == "PCI_BUS_ID"
    if not is_by_pci and len({gpu.model for gpu in gpus}) > 1 and any(map(_INDEX.match, entries)):
        reason = "it has indexes, models differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID"
        warn_once(reason, f"CUDA_VISIBLE_DEVICES is not applied: {reason}. Set that, or name cards by UUID")
        return cards
    chosen: dict[str, CardReading] = {}
    for entry in entries:
        card = _find(entry, cards, gpus)
        if card is None or card.uuid in chosen:
            chosen = chosen if card is None else {}
            break
        chosen[card.uuid] = card
    if not chosen and text.strip():
        warn_once("visible", f"no GPU metrics: CUDA_VISIBLE_DEVICES is {text[:64]!r} and names no card")
    return [card for card in cards if card.uuid in chosen]


def _find(entry: str, cards: Sequence[CardReading], gpus: Sequence[CardReading]) -> CardReading | None:
    """Return the card of an entry, ``None`` if it names none or several. Of a partitioned GPU, its first instance."""
    named = [card for card in cards if entry.startswith(("GPU-", "MIG-")) and card.uuid.startswith(entry)]
    number = _INDEX.match(entry)
    if number is not None:
        named = [*gpus[int(number[1]) : int(number[1]) + 1]]
    if len(named) != 1 or named[0].mig is not Mig.PARENT:
        return named[0] if len(named) == 1 else None
    return next((instance for instance in cards if instance.parent == named[0].uuid), None)
