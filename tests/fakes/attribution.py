"""A card's reading with its GPU time split among its processes."""

from __future__ import annotations

from dataclasses import replace

from gua.core.facts import split_gpu_time
from gua.core.tick import CardReading


def attribute(card: CardReading) -> CardReading:
    """Return the card with ``gpu_time_ms`` set on its processes."""
    return replace(card, processes=split_gpu_time(card.gpu_time_ms, card.processes))
