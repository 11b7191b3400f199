"""What a card's rings told between two readings: utilization samples, kept until they are delivered.

The ring may hold only 100 samples, 17 s of them, so it is emptied every few seconds
(https://docs.nvidia.com/deploy/nvml-api/, nvmlDeviceGetSamples).
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gpu_usage_audit.core.ports import UtilizationSample
from gpu_usage_audit.nvml.calls import Calls
from gpu_usage_audit.nvml.driver import GPU_UTILIZATION_SAMPLES, NOT_FOUND, NOT_SUPPORTED, Driver, Handle
from gpu_usage_audit.nvml.quirks import ratio
from gpu_usage_audit.nvml.stamps import Stamps

# The driver's sampling period is 1/6 to 1 s by product (nvmlDeviceGetUtilizationRates in NVIDIA's reference):
# a sample says nothing of what lies further back.
_LONGEST_PERIOD_US: Final = 1_000_000
# Samples this much further apart than usual still follow each other; beyond that some are missing in between.
_JITTER: Final = 1.5
# 10 minutes, the longest interval, at 6 samples a second. If nobody reads, the oldest are forgotten.
MOST_SAMPLES: Final = 3600
_VALUE_FIELDS: Final = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class SampleBuffer:
    """The utilization samples of one whole card."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._since_us = 0
        self._period_us = _LONGEST_PERIOD_US
        self._kept: deque[UtilizationSample] = deque(maxlen=MOST_SAMPLES)

    def drain(self, driver: Driver, calls: Calls, handle: Handle) -> None:
        """Take what the ring gained. An idle card may answer NOT_FOUND for minutes: no samples, no error."""
        if self._since_us > self._stamps.now_us():
            self._start_over()
        answer = calls.ask_with(
            {NOT_FOUND: (1, ()), NOT_SUPPORTED: (1, ())},
            driver.nvmlDeviceGetSamples,
            handle,
            GPU_UTILIZATION_SAMPLES,
            self._since_us,
        )
        if answer is None:
            return
        kind, samples = answer
        field = _VALUE_FIELDS.get(kind)
        if field is None:
            calls.note("nvmlDeviceGetSamples", f"value type {kind}")
            return
        rows = sorted((sample.timeStamp, getattr(sample.sampleValue, field)) for sample in samples)
        if rows:
            self._stamps.learn(rows[-1][0])
            self._keep(calls, rows)

    def take(self) -> tuple[UtilizationSample, ...]:
        """Return what was kept, oldest first and without overlap, and keep it no longer."""
        kept = tuple(self._kept)
        self._kept.clear()
        return kept

    def clear(self) -> None:
        """Forget everything: the card was something else in between."""
        self._kept.clear()
        self._since_us = 0

    def _start_over(self) -> None:
        """Follow a clock that was set back: what is stamped later than now is so by the clock as it went before."""
        self._since_us = 0
        now_ms = self._stamps.now_us() // 1000
        while self._kept and self._kept[-1].end_ms > now_ms:
            self._kept.pop()

    def _keep(self, calls: Calls, rows: Sequence[tuple[int, float]]) -> None:
        # Stamps from a clock that went ahead of this one are left in the ring until their time has come.
        now_us = self._stamps.now_us()
        offset_us = self._stamps.unix_offset_us()
        fresh = [row for row in rows if self._since_us < row[0] <= now_us]
        times = [stamp_us for stamp_us, _ in fresh]
        self._learn_period([self._since_us, *times] if self._since_us else times)
        kept_until_ms = self._kept[-1].end_ms if self._kept else 0
        before_us = self._since_us
        for stamp_us, percent in fresh:
            # The ring's very first sample has none before it and only starts the next.
            start_ms = max(kept_until_ms, (self._start_of(before_us, stamp_us) + offset_us) // 1000)
            end_ms = (stamp_us + offset_us) // 1000
            utilization = ratio(percent)
            if utilization is None:
                calls.note("nvmlDeviceGetSamples", "not a percentage")
            elif before_us and end_ms > start_ms:
                self._kept.append(UtilizationSample(start_ms=start_ms, end_ms=end_ms, utilization=utilization))
                kept_until_ms = end_ms
            before_us = stamp_us
        self._since_us = before_us

    def _start_of(self, before_us: int, stamp_us: int) -> int:
        """Return from when on a sample tells: since the one before, but after a gap only its own period."""
        if stamp_us - before_us <= self._period_us * _JITTER:
            return max(before_us, stamp_us - _LONGEST_PERIOD_US)
        return stamp_us - self._period_us

    def _learn_period(self, times: Sequence[int]) -> None:
        if len(times) > 2 or (len(times) == 2 and self._period_us == _LONGEST_PERIOD_US):
            spacing = statistics.median(later - earlier for earlier, later in pairwise(times))
            self._period_us = min(_LONGEST_PERIOD_US, max(1, int(spacing)))
