"""A simulated host that goes on: ticks from some moment of the past, through now, into the future."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.core.tick import Origin, Tick
from gua.sim.host import LONGEST_MS, Scenario, simulate

_PHASE_MS: Final = 500
"""How far at most the simulated grid ends before the moment that it was given (:func:`..clock.spans`)."""


def simulate_from(begin_ms: int, *, seed: int, gpus: int, interval_ms: int, origin: Origin) -> Iterator[Tick]:
    """Yield the ticks after ``begin_ms`` (Unix ms), oldest first, for 366 days; each is made when it is asked for.

    No tick covers time before ``begin_ms``: where it is the ``ts_ms`` of the last tick of an earlier run, the two
    runs follow one another as those of an agent that was restarted. The agent is never away by itself: who watches
    it live could not tell that from a fault. Raises UsageError for what cannot be simulated.
    """
    scenario = Scenario(seed=seed, gpus=gpus, interval_ms=interval_ms, ticks=LONGEST_MS // interval_ms)
    end_ms = begin_ms + scenario.ticks * interval_ms + _PHASE_MS
    return simulate(scenario, end_ms=end_ms, origin=origin, interrupted=False)
