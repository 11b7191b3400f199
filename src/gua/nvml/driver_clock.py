"""On which clock a card's driver stamps its samples, and how that is told in Unix time."""

from __future__ import annotations

import time
from collections.abc import Callable

from gua.core.ports import Clock
from gua.nvml.quirks import LEAST_UNIX_US


def boot_us() -> int:
    """Return the microseconds since boot, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class DriverClock:
    """Unix time as a rule, the time since boot with some drivers (:data:`quirks.LEAST_UNIX_US`).

    ``known`` tells whether any stamp was seen yet; before that, Unix time is assumed.
    """

    def __init__(self, clock: Clock, since_boot_us: Callable[[], int] = boot_us) -> None:
        self._clock = clock
        self._since_boot_us = since_boot_us
        self._from_boot = False
        self.known = False

    def learn(self, stamp_us: int) -> None:
        """Take the clock from a stamp of the driver; 0 is none."""
        if stamp_us > 0:
            self._from_boot = stamp_us < LEAST_UNIX_US
            self.known = True

    def now_us(self) -> int:
        """Return the time on the driver's clock."""
        return self._since_boot_us() if self._from_boot else self._clock.wall_ms() * 1000

    def unix_offset_us(self) -> int:
        """Return what is to be added to a stamp for Unix time, by the wall clock as it goes now."""
        return self._clock.wall_ms() * 1000 - self._since_boot_us() if self._from_boot else 0

    def monotonic_ms(self) -> int:
        """Return a clock that is never set, for lengths of time."""
        return self._clock.monotonic_ms()
