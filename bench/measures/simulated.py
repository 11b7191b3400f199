"""Simulated time for gua and for the simulated driver, and nvidia-ml-py with a meter; for a process on that driver."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

START_MS = 1_774_413_000_000
_METERED_AT_ONCE = 20_000


class FileClock:
    """A clock that is moved by hand and that the driver reads from a file; ``spent_ns`` is the CPU of moving it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wall_ms = START_MS
        self.spent_ns = 0
        self.advance(0)

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._wall_ms - START_MS + 1_000_000

    def boot_id(self) -> str | None:
        return "simulated"

    def advance(self, milliseconds: int) -> None:
        begun = time.thread_time_ns()
        self._wall_ms += milliseconds
        self._path.write_text(f"{self._wall_ms * 1000}\n", encoding="ascii")
        self.spent_ns += time.thread_time_ns() - begun


class MeteredDriver:
    """nvidia-ml-py, with a meter for the CPU time of its calls: its own Python and the driver's C.

    The meter costs time itself, and so is only on while ``metering``. ``spent_ns`` and ``calls`` are of that time.
    """

    def __init__(self) -> None:
        self._of_thread: defaultdict[int, int] = defaultdict(int)
        self.calls = 0
        self.metering = True
        self._meter_ns = self._calibrate()

    @property
    def spent_ns(self) -> int:
        return sum(self._of_thread.values()) - round(self.calls * self._meter_ns)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever nvidia-ml-py has by that name
        value = getattr(pynvml, name)
        if not name.startswith("nvml") or not callable(value):
            return value
        metered = self._metered(value)
        setattr(self, name, metered)
        return metered

    def _metered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def metered(*arguments: Any) -> Any:  # noqa: ANN401 - as above
            if not self.metering:
                return function(*arguments)
            begun = time.thread_time_ns()
            try:
                return function(*arguments)
            finally:
                self._of_thread[threading.get_ident()] += time.thread_time_ns() - begun
                self.calls += 1

        return metered

    def _calibrate(self) -> float:
        """Return the ns of the meter itself in what it counts for a call."""
        nothing = self._metered(lambda: None)
        for _ in range(_METERED_AT_ONCE):
            nothing()
        counted = sum(self._of_thread.values())
        self._of_thread.clear()
        self.calls = 0
        return counted / _METERED_AT_ONCE
