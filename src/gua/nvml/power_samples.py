"""What a card drew in some stretches of time, from the driver's ring of power samples.

The ring (NVML_TOTAL_POWER_SAMPLES, in mW) reaches back a few seconds, so that it may tell of a part of them only:
the answer says of how much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from operator import mul, sub
from typing import Final, NamedTuple

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


class PowerDraw(NamedTuple):
    """Power over time, a row for each sample: it tells from ``begins_us`` to ``ends_us``, at ``milliwatts``.

    Sums are of all samples before it. The last row is none: no moment lies behind its end.
    """

    begins_us: Sequence[float]
    ends_us: Sequence[float]
    milliwatts: Sequence[float]
    sums_us: Sequence[int]
    sums_nj: Sequence[float]

    def over(self, spans: Iterable[tuple[int, int]]) -> tuple[int, float]:
        """Return how much of these stretches is told of [ms], and the energy of that [mJ]."""
        begins_us, ends_us, milliwatts, sums_us, sums_nj = self
        told_us, nanojoules = 0.0, 0.0
        for since_us, until_us in spans:
            first, last = bisect_left(ends_us, since_us), bisect_left(ends_us, until_us)
            # What the samples tell in which a stretch begins and ends, before those moments.
            before_us, within_us = max(0, since_us - begins_us[first]), max(0, until_us - begins_us[last])
            told_us += sums_us[last] - sums_us[first] + within_us - before_us
            nanojoules += sums_nj[last] + within_us * milliwatts[last] - sums_nj[first] - before_us * milliwatts[first]
        return round(told_us / _US_IN_MS), nanojoules / _NJ_IN_MJ


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
        if len(rows) <= 1:
            return None
        # Some 30 samples every few seconds for each card that is used: whole columns at a time, not one by one.
        milliwatts: Sequence[float]
        stamps_us, milliwatts = zip(*rows, strict=True)
        apart_us = list(map(sub, stamps_us[1:], stamps_us))
        period_us = min(_LONGEST_PERIOD_US, max(1, sorted(apart_us)[len(apart_us) // 2]))
        longest_us = period_us * _JITTER
        if max(apart_us) > longest_us:
            apart_us = [apart if apart <= longest_us else period_us for apart in apart_us]
        # The first, and one after a hole, tell of their own period only.
        told_us = [period_us, *apart_us]
        if not (min(milliwatts) >= 0 and max(milliwatts) <= MOST_MILLIWATTS and sum(milliwatts) >= 0):  # nor a NaN
            calls.note("nvmlDeviceGetSamples", "not a power")
            believed = [0 <= value <= MOST_MILLIWATTS for value in milliwatts]
            told_us = [told if good else 0 for told, good in zip(told_us, believed, strict=True)]
            milliwatts = [value if good else 0.0 for value, good in zip(milliwatts, believed, strict=True)]
        return PowerDraw(
            [*map(sub, stamps_us, told_us), inf],
            [*stamps_us, inf],
            [*milliwatts, 0.0],
            list(accumulate(told_us, initial=0)),
            list(accumulate(map(mul, milliwatts, told_us), initial=0.0)),
        )
