"""When ticks are due: on a grid of the wall clock, k x interval + a phase per host.

The grid only schedules; what a tick covers is measured (:mod:`gua.agent.coverage`). The phase keeps a
fleet's ticks from reaching the Collector all in one second.
"""

from __future__ import annotations

import hashlib
from typing import Final

DRAIN_EVERY_MS: Final = 5_000
_SMALLEST_PART: Final = 10


def phase_ms(host: str, interval_ms: int) -> int:
    """Return a host's place in the interval, 0 <= phase < interval, the same at every start."""
    digest = hashlib.blake2b(host.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % interval_ms


def due_in_ms(wall_ms: int, interval_ms: int, phase: int) -> int:
    """Return the ms until the next point of the grid, but never less than a tenth of an interval away."""
    left = interval_ms - (wall_ms - phase) % interval_ms
    return left if left * _SMALLEST_PART >= interval_ms else left + interval_ms


def step_ms(left_ms: int) -> int:
    """Return how long to wait before the driver's rings are drained again, in equal steps of 5 s at most."""
    steps = max(1, -(-left_ms // DRAIN_EVERY_MS))
    return -(-left_ms // steps)
