"""Known driver defects and the values that are rejected because of them, each with its source."""

import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from gua.core.ports import Clock

# Drivers 535.43 to 535.86: the version 3 lists fill a longer struct (with usedGpuCcProtectedMemory) than any
# nvidia-ml-py since reads, so that from the second process on pids and bytes are interchanged. 535.98 removed the
# calls (their absence needs no workaround); 535.104.05 restored them with the old struct.
# https://github.com/XuehaiPan/nvitop/pull/89
_WIDE_LISTS: Final = ((535, 43), (535, 98))
WIDE_LISTS: Final = "the process lists of version 3; version 2 is called"

# Single values of 2,619 to 808,334,905 percent between values of 0 to 100, on cards that may be idle (H100, driver
# 550.118): these are invalid. A value slightly above 100 is a rounding error.
# https://github.com/NVIDIA/dcgm-exporter/issues/418, https://github.com/NVIDIA/go-dcgm/issues/75
MOST_PERCENT: Final = 1000

# Some drivers stamp samples with the time since boot instead of Unix time (seen on a DGX Spark). The threshold is
# Unix time in 2001, in microseconds; an uptime would take 31 years to reach it.
# https://github.com/polarsignals/gpu-metrics-agent/pull/36
LEAST_UNIX_US: Final = 10**15

# Outside MIG a process's GPU instance is all ones; inside MIG it is a small number. Any other value comes from a
# struct with another layout: version 3 was seen to fill 16 instead of 24 bytes a process (driver 550.127.08, in a
# container). https://github.com/XuehaiPan/nvitop/pull/226
MOST_GPU_INSTANCE: Final = 127


@lru_cache(maxsize=64)
def has_wide_lists(version: str | None) -> bool:
    """Return whether a driver's version 3 process lists have the wide struct; false for an unknown version."""
    match = re.match(r"\d+(\.\d+)*", version or "")
    first, before = _WIDE_LISTS
    return match is not None and first <= tuple(int(part) for part in match.group().split(".")) < before


@lru_cache(maxsize=1024)
def ratio(percent: float) -> float | None:
    """Return a percentage as a ratio, 0 to 1; ``None`` for NaN, below 0 or above :data:`MOST_PERCENT`."""
    if not 0 <= percent <= MOST_PERCENT:  # NaN is in no range
        return None
    return min(percent, 100) / 100


class DriverClock:
    """The driver's clock: Unix time, or the time since boot with some drivers (:data:`LEAST_UNIX_US`).

    ``known`` is whether any time stamp was seen; Unix time is assumed before. The time since boot includes suspend.
    """

    def __init__(self, clock: Clock, since_boot_us: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._since_boot_us = since_boot_us or (lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)
        self._from_boot = False
        self.known = False

    def learn(self, stamp_us: int) -> None:
        """Detect the clock from a driver's time stamp [us]; 0 is ignored."""
        if stamp_us > 0:
            self._from_boot = stamp_us < LEAST_UNIX_US
            self.known = True

    def now_us(self) -> int:
        """Return the current time on the driver's clock [us]."""
        return self._since_boot_us() if self._from_boot else self._clock.wall_ms() * 1000

    def unix_offset_us(self) -> int:
        """Return the current offset [us] from the driver's clock to Unix time by the wall clock."""
        return self._clock.wall_ms() * 1000 - self._since_boot_us() if self._from_boot else 0

    def monotonic_ms(self) -> int:
        """Return the monotonic clock [ms], for durations."""
        return self._clock.monotonic_ms()
