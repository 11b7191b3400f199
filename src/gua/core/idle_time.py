"""Which seconds of a tick were idle, although the tick as a whole may be active.

The driver's samples tell of kernels. They leave the video engines out, and so do not tell idle from busy seconds of a
card on which one of those is at work.
"""

from __future__ import annotations

from typing import Final

from gua.core.facts import busiest
from gua.core.rules import Rules
from gua.core.tick import ProcessReading

ACTIVE_FROM: Final = Rules().active_utilization
"""From here on a sample is active. Agents and the simulator judge by the shipped rules: a store's may be others."""


def is_told(
    mean: float | None, *, encoder: float | None, decoder: float | None, processes: tuple[ProcessReading, ...]
) -> bool:
    """Return whether a card's samples below active were idle time, by the utilizations of its tick (ratios).

    While an encoder or decoder is active nobody knows, nor where a process was active on a card whose mean is not.
    """
    if max(encoder or 0, decoder or 0) >= ACTIVE_FROM:
        return False
    return (mean or 0) >= ACTIVE_FROM or (busiest(processes) or 0) < ACTIVE_FROM
