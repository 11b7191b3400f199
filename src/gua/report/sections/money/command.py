"""The command that sets a price of the cards at hand, ready to be typed."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Final

from gua.report.model import Card
from gua.report.states import IDLE_HELD

_EXAMPLE: Final = "2.50 --currency EUR"
# What a shell, a terminal and a person take as it stands: names come from drivers and recordings.
_TYPEABLE: Final = re.compile(r"[A-Za-z0-9][ -~]{0,79}")


def price_command(cards: Iterable[Card]) -> str | None:
    """Return how to set a price of the model that wasted most without any, ``None`` where every card has one."""
    wasted_ms: Counter[str] = Counter()
    for card in cards:
        if card.costs is None or not any(cost.amounts for cost in card.costs.values()):
            wasted_ms[card.model or card.name or ""] += round(card.states[IDLE_HELD].gpu_ms)
    if not wasted_ms:
        return None
    for model, _ in sorted(wasted_ms.items(), key=lambda one: (-one[1], one[0])):
        if _TYPEABLE.fullmatch(model):
            return f"gua prices set {shlex.quote(model)} {_EXAMPLE}"
    return f"gua prices set MODEL {_EXAMPLE}"
