"""What some drivers answer wrong, and what is therefore not believed, each with its source."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from gua.core.ports import Clock

# Drivers 535.43 to 535.86: the version 3 lists fill a longer struct (with usedGpuCcProtectedMemory) than any
# nvidia-ml-py since reads, so that from the second process on pids and bytes stand in each other's place. 535.98
# dropped the calls (their absence needs no quirk), 535.104.05 brought them back with the old struct.
# https://github.com/XuehaiPan/nvitop/pull/89
_WIDE_LISTS: Final = ((535, 43), (535, 98))
WIDE_LISTS: Final = "the process lists of version 3; version 2 is asked"

# Single answers of 2,619 to 808,334,905 percent, between others of 0 to 100, on cards that may well be idle
# (H100, driver 550.118): no utilization at all. A little over 100 is rounding, and means always.
# https://github.com/NVIDIA/dcgm-exporter/issues/418, https://github.com/NVIDIA/go-dcgm/issues/75
MOST_PERCENT: Final = 1000

# Some drivers stamp samples with the time since boot instead of Unix time (seen on a DGX Spark). As
# microseconds, one boot would have to last 31 years to reach what Unix time passed in 2001.
# https://github.com/polarsignals/gpu-metrics-agent/pull/36
LEAST_UNIX_US: Final = 10**15

# Outside MIG a process's GPU instance is all ones, and inside it a small number. Anything else is another
# field of a struct that is laid out differently: version 3 was seen to fill 16 instead of 24 bytes a process
# (driver 550.127.08, in a container). https://github.com/XuehaiPan/nvitop/pull/226
MOST_GPU_INSTANCE: Final = 127


def version_of(text: str | None) -> tuple[int, ...]:
    """Return a driver version ("535.86.05") as numbers, empty where there is none."""
    match = re.match(r"\d+(\.\d+)*", text or "")
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@lru_cache(maxsize=64)
def has_wide_lists(version: str | None) -> bool:
    """Return whether the process lists of version 3 of a driver are not believed; not where its version is unknown."""
    first, before = _WIDE_LISTS
    return first <= version_of(version) < before


@lru_cache(maxsize=1024)
def ratio(percent: float) -> float | None:
    """Return a percentage as a ratio, 0 to 1, or ``None`` if the driver cannot mean it."""
    if not 0 <= percent <= MOST_PERCENT:  # NaN is in no range
        return None
    return min(percent, 100) / 100


def boot_us() -> int:
    """Return the microseconds since boot, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class DriverClock:
    """Unix time as a rule, the time since boot with some drivers (:data:`LEAST_UNIX_US`).

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
