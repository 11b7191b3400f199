"""What a card drew in some stretches of time, from the driver's ring of power samples.

The ring (NVML_TOTAL_POWER_SAMPLES, in mW) reaches back a few seconds, so that it may tell of a part of them only:
the answer says of how much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from typing import Final

from gua.nvml.calls import Calls
from gua.nvml.driver import TOTAL_POWER_SAMPLES, Driver, Handle
from gua.nvml.driver_clock import DriverClock
from gua.nvml.ring import read_ring

# As of utilization: a sample says nothing of what lies further back than the longest period of the driver.
_LONGEST_PERIOD_US: Final = 1_000_000
_JITTER: Final = 1.5
# No card draws ten times what the largest do today (1.4 kW).
MOST_MILLIWATTS: Final = 14_000_000
_NJ_IN_MJ: Final = 1e6  # mW x us are nJ
_US_IN_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """Power over time: each of ``stamps_us`` ends a stretch of ``told_us`` at ``milliwatts``; sums go up to each."""

    stamps_us: Sequence[int]
    told_us: Sequence[int]
    milliwatts: Sequence[float]
    sums_us: Sequence[int]
    sums_nj: Sequence[float]

    def over(self, spans: Iterable[tuple[int, int]]) -> tuple[int, float]:
        """Return how much of these stretches is told of [ms], and the energy of that [mJ]."""
        told_us, nanojoules = 0, 0.0
        for since_us, until_us in spans:
            to_us, to_nj = self._up_to(until_us)
            from_us, from_nj = self._up_to(since_us)
            told_us += to_us - from_us
            nanojoules += to_nj - from_nj
        return round(told_us / _US_IN_MS), nanojoules / _NJ_IN_MJ

    def _up_to(self, moment_us: int) -> tuple[int, float]:
        """Return the time that is told of before a moment, and its energy."""
        place = bisect_left(self.stamps_us, moment_us)
        if place == len(self.stamps_us):
            return self.sums_us[-1], self.sums_nj[-1]
        before_us, before_nj = (self.sums_us[place - 1], self.sums_nj[place - 1]) if place else (0, 0.0)
        part_us = max(0, moment_us - (self.stamps_us[place] - self.told_us[place]))
        return before_us + part_us, before_nj + part_us * self.milliwatts[place]


class PowerSamples:
    """The power samples of one whole card; asked for only where somebody wants to know."""

    def __init__(self, clock: DriverClock) -> None:
        self._clock = clock

    def read(self, driver: Driver, calls: Calls, handle: Handle, since_us: int) -> PowerDraw | None:
        """Return what the card drew since a moment of the driver's clock; ``None`` where the driver does not tell."""
        rows = read_ring(driver, calls, handle, TOTAL_POWER_SAMPLES, since_us)
        if not rows:
            return None
        now_us = self._clock.now_us()
        if rows[-1][0] > now_us:
            rows = [row for row in rows if row[0] <= now_us]
        stamps_us = [stamp_us for stamp_us, _ in rows]
        milliwatts = [value for _, value in rows]
        apart_us = [after_us - before_us for before_us, after_us in pairwise(stamps_us)]
        if not apart_us:
            return None
        period_us = min(_LONGEST_PERIOD_US, max(1, sorted(apart_us)[len(apart_us) // 2]))
        longest_us = period_us * _JITTER
        # The first, and one after a hole, tell of their own period only.
        told_us = [period_us, *(apart if apart <= longest_us else period_us for apart in apart_us)]
        if not (min(milliwatts) >= 0 and max(milliwatts) <= MOST_MILLIWATTS and sum(milliwatts) >= 0):  # nor a NaN
            calls.note("nvmlDeviceGetSamples", "not a power")
            believed = [0 <= value <= MOST_MILLIWATTS for value in milliwatts]
            told_us = [told if good else 0 for told, good in zip(told_us, believed, strict=True)]
            milliwatts = [value if good else 0.0 for value, good in zip(milliwatts, believed, strict=True)]
        return PowerDraw(
            stamps_us,
            told_us,
            milliwatts,
            list(accumulate(told_us)),
            list(accumulate(map(mul, milliwatts, told_us))),
        )
