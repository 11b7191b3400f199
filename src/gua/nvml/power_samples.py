"""What a card drew in some stretches of time, from the driver's ring of power samples.

The ring (NVML_TOTAL_POWER_SAMPLES, in mW) reaches back a few seconds, so that it may tell of a part of them only:
the answer says of how much.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Final, NamedTuple

from gua.nvml.calls import Calls
from gua.nvml.driver import TOTAL_POWER_SAMPLES, Driver, Handle
from gua.nvml.driver_clock import DriverClock
from gua.nvml.ring import LEISURELY_REACH_US, Ring, read_ring

# As of utilization: a sample says nothing of what lies further back than the longest period of the driver.
_LONGEST_PERIOD_US: Final = 1_000_000
_JITTER: Final = 1.5
# No card draws ten times what the largest do today (1.4 kW).
MOST_MILLIWATTS: Final = 14_000_000
# The agent drains every 5 s, and may be late by a second; where all rings reach back far, every 10 s. One that reaches
# back further is asked after every second or third of them.
_NEXT_DRAIN_US: Final = 6_000_000
_NEXT_LEISURELY_DRAIN_US: Final = 11_000_000
# A ring that was not full when its reach was learned may tell of more later.
_WHOLE_EACH: Final = 64
_NJ_IN_MJ: Final = 1e6  # mW x us are nJ
_US_IN_MS: Final = 1000


class PowerDraw(NamedTuple):
    """Power over time, by samples: each tells of ``told_us`` before its stamp, at ``milliwatts``."""

    stamps_us: Sequence[int]
    told_us: Sequence[int]
    milliwatts: Sequence[float]

    def over(self, spans: Iterable[tuple[int, int]]) -> tuple[int, float]:
        """Return how much of these stretches is told of [ms], and the energy of that [mJ]."""
        stamps_us, told_us, milliwatts = self
        all_us, nanojoules = 0, 0.0
        count = len(stamps_us)
        for since_us, until_us in spans:
            first, last = bisect_right(stamps_us, since_us), bisect_left(stamps_us, until_us)
            if last < count:  # the stretch ends within this one
                start_us = stamps_us[last] - told_us[last]
                part_us = until_us - max(start_us, since_us)
                if part_us > 0:
                    all_us += part_us
                    nanojoules += part_us * milliwatts[last]
            if first == last:
                continue
            within_us = told_us[first:last]
            all_us += sum(within_us)
            nanojoules += sum(map(mul, within_us, milliwatts[first:last]))
            before_us = since_us - stamps_us[first] + told_us[first]
            if before_us > 0:
                all_us -= before_us
                nanojoules -= before_us * milliwatts[first]
        return round(all_us / _US_IN_MS), nanojoules / _NJ_IN_MJ


class PowerSamples:
    """The power samples of one whole card; asked for only where somebody wants to know."""

    def __init__(self, clock: DriverClock) -> None:
        self._clock = clock
        self._reach_us = 0
        self._answers = 0

    def is_due(self, since_us: int) -> bool:
        """Return whether the ring may have forgotten a moment before it could be asked after another drain."""
        next_us = _NEXT_LEISURELY_DRAIN_US if self.is_leisurely else _NEXT_DRAIN_US
        return self._clock.now_us() - since_us + next_us > self._reach_us

    @property
    def is_leisurely(self) -> bool:
        """Whether nobody asked yet, or the ring reaches back over two drains."""
        return not self._answers or self._reach_us >= LEISURELY_REACH_US

    def read(self, driver: Driver, calls: Calls, handle: Handle, since_us: int) -> PowerDraw | None:
        """Return what the card drew since a moment of the driver's clock; ``None`` where the driver does not tell."""
        # All that the ring has tells how far it reaches back.
        is_whole = self._answers % _WHOLE_EACH == 0
        ring = read_ring(driver, calls, handle, TOTAL_POWER_SAMPLES, 0 if is_whole else since_us)
        if ring is None:
            return None
        stamps_us, milliwatts, apart_us, lengths_us = ring
        now_us = self._clock.now_us()
        if stamps_us and stamps_us[-1] > now_us:
            count = bisect_right(stamps_us, now_us)
            stamps_us, milliwatts, apart_us, lengths_us = Ring.of(stamps_us[:count], milliwatts[:count])
        if not lengths_us:
            return None
        # Some 60 samples every few seconds for each card that is used: whole columns at a time, not one by one.
        period_us = min(_LONGEST_PERIOD_US, max(1, lengths_us[len(lengths_us) // 2]))
        self._answers += 1
        if is_whole or stamps_us[0] - since_us > _LONGEST_PERIOD_US:
            self._reach_us = len(stamps_us) * period_us
        longest_us = period_us * _JITTER
        if lengths_us[-1] > longest_us:
            apart_us = [apart if apart <= longest_us else period_us for apart in apart_us]
        # The first, and one after a hole, tell of their own period only.
        told_us = [period_us, *apart_us]
        if not (min(milliwatts) >= 0 and max(milliwatts) <= MOST_MILLIWATTS and sum(milliwatts) >= 0):  # nor a NaN
            calls.note("nvmlDeviceGetSamples", "not a power")
            believed = [0 <= value <= MOST_MILLIWATTS for value in milliwatts]
            told_us = [told if good else 0 for told, good in zip(told_us, believed, strict=True)]
            milliwatts = [value if good else 0.0 for value, good in zip(milliwatts, believed, strict=True)]
        return PowerDraw(stamps_us, told_us, milliwatts)
