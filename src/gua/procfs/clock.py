"""The host's clocks: :class:`gua.core.ports.Clock`."""

from __future__ import annotations

import time

from gua.procfs.reader import ProcFs

_NANOSECONDS_PER_MS = 1_000_000


class SystemClock:
    """Wall clock, CLOCK_MONOTONIC (it stands still in suspend) and the kernel's boot id."""

    def __init__(self, procfs: ProcFs) -> None:
        # The boot cannot change under a living process.
        self._boot_id = procfs.boot_id()

    def wall_ms(self) -> int:
        """Return the wall clock as Unix time in ms."""
        return time.time_ns() // _NANOSECONDS_PER_MS

    def monotonic_ms(self) -> int:
        """Return CLOCK_MONOTONIC in ms."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // _NANOSECONDS_PER_MS

    def boot_id(self) -> str | None:
        """Return the id of this boot, ``None`` where /proc does not tell."""
        return self._boot_id
