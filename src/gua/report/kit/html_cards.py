"""Cards and splits on a page: what a card is called, its shares, and which of very many are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gua.core.plaintext import safe
from gua.report.kit.figures import NONE, percents
from gua.report.kit.markup import Markup, name, tag
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States

Row = TypeVar("Row")


def shares(states: States) -> list[str]:
    """Return every state's percent of what was observed."""
    return percents([states[state].gpu_ms for state in STATES])


def idle_ms(states: States) -> float:
    """Return the GPU time in ms that stood idle, held or not."""
    return states[IDLE_HELD].gpu_ms + states[TRULY_IDLE].gpu_ms


def most(every: Sequence[Row], count: int, amount: Callable[[Row], float]) -> list[Row]:
    """Return the ``count`` largest by ``amount`` in the order in which they came."""
    if len(every) <= count:
        return list(every)
    largest = sorted(range(len(every)), key=lambda place: -amount(every[place]))[:count]
    return [every[place] for place in sorted(largest)]


def card_label(index: int | None, called: str | None, gpu: str, mig: str | None = None) -> Markup:
    """Return ``0 H100 80GB HBM3``; the UUID shows where one points."""
    shown = (called or gpu).removeprefix("NVIDIA ").removeprefix("GeForce ")
    if mig == "parent":
        shown = "unallocated MIG slices"
    number = NONE if index is None else str(index)
    return tag("span", tag("span", number, class_="index"), " ", name(shown, 28), title=safe(gpu, 80))
