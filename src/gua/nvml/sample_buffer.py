"""What a card's rings told between two readings: utilization samples, kept until they are delivered.

The ring may hold only 100 samples, 17 s of them, so it is emptied every 10 s, and a smaller one every 5 s
(https://docs.nvidia.com/deploy/nvml-api/, nvmlDeviceGetSamples).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Sequence
from operator import mul
from typing import Final, cast

from gua.core.idle_time import ACTIVE_FROM
from gua.core.ports import UtilizationSample
from gua.nvml.calls import Calls
from gua.nvml.driver import GPU_UTILIZATION_SAMPLES, Driver, Handle
from gua.nvml.driver_clock import DriverClock
from gua.nvml.power_samples import PowerSamples
from gua.nvml.quirks import ratio
from gua.nvml.ring import LEISURE_MS, LEISURELY_REACH_US, Ring, read_ring

# The driver's sampling period is 1/6 to 1 s by product (nvmlDeviceGetUtilizationRates in NVIDIA's reference):
# a sample says nothing of what lies further back.
_LONGEST_PERIOD_US: Final = 1_000_000
# Samples this much further apart than usual still follow each other; beyond that some are missing in between.
_JITTER: Final = 1.5
# 10 minutes, the longest interval, if each of 6 samples a second stands alone. If nobody reads, the oldest are
# forgotten.
MOST_SAMPLES: Final = 3600
# What a sample has to reach to be active.
_ACTIVE_PERCENT: Final = ACTIVE_FROM * 100

_IDLE: Final = b"\1"
_BUSY: Final = b"\0"
_BELOW_ACTIVE: Final = bytes(percent < _ACTIVE_PERCENT for percent in range(256))

_Spans = list[tuple[int, int]]
"""Stretches of time without overlap, oldest first: start and end in microseconds of the driver's clock."""


class SampleBuffer:
    """The utilization samples of one whole card."""

    def __init__(self, clock: DriverClock) -> None:
        self._clock = clock
        self._since_us = 0
        self._held = 0
        self._drained_ms: int | None = None
        self._period_us = _LONGEST_PERIOD_US
        self._kept: deque[UtilizationSample] = deque(maxlen=MOST_SAMPLES)
        self._begun = False
        self._idle: deque[_Spans] = deque(maxlen=MOST_SAMPLES)
        """When each of the kept samples was idle."""
        # Of so many of the last ones nobody has asked yet what that drew, and the first moment of these.
        self._unpowered, self._unpowered_since_us = 0, 0
        self._power = PowerSamples(clock)
        self._is_used = self._was_used = False

    @property
    def due(self) -> bool:
        """Whether a ring may have forgotten something by the drain after this one, 5 s from now."""
        # A driver that samples more often than before fills its ring sooner.
        reach_us = self._held * self._period_us
        if reach_us < LEISURELY_REACH_US or self._drained_ms is None or not self._power.is_leisurely:
            return True
        return self._clock.monotonic_ms() - self._drained_ms >= LEISURE_MS

    def drain(self, driver: Driver, calls: Calls, handle: Handle, *, is_last: bool = False) -> None:
        """Take what the ring gained; ``is_last`` is that :meth:`take` follows at once.

        An idle card may answer NOT_FOUND for minutes: no samples, no error.
        """
        if self._since_us > self._clock.now_us():
            self._start_over()
        now_ms = self._clock.monotonic_ms()
        ring = read_ring(driver, calls, handle, GPU_UTILIZATION_SAMPLES, self._since_us)
        if ring is not None:
            self._drained_ms = now_ms
        if ring is not None and ring.stamps_us:
            if not self._since_us and ring.lengths_us:  # all that it has, holes in it left out
                self._held = len(ring.lengths_us)
            self._clock.learn(ring.stamps_us[-1])
            self._keep(calls, ring)
        if self._unpowered:
            self._ask_power(driver, calls, handle, is_last=is_last)

    def take(self) -> tuple[UtilizationSample, ...]:
        """Return what was kept, oldest first and without overlap, and keep it no longer."""
        kept = tuple(self._kept)
        self._forget_kept()
        self._begun = False
        self._was_used, self._is_used = self._is_used, False
        return kept

    def clear(self) -> None:
        """Forget everything: the card was something else in between."""
        self._forget_kept()
        self._since_us = 0

    def _forget_kept(self) -> None:
        self._kept.clear()
        self._idle.clear()
        self._unpowered = 0

    def _start_over(self) -> None:
        """Follow a clock that was set back: what is stamped later than now is so by the clock as it went before."""
        self._since_us = 0
        now_ms = self._clock.now_us() // 1000
        while self._kept and self._kept[-1].end_ms > now_ms:
            self._kept.pop()
            self._idle.pop()
            self._unpowered = max(0, self._unpowered - 1)

    def _keep(self, calls: Calls, ring: Ring) -> None:
        # Samples from a clock that went ahead of this one are left in the ring until their time has come.
        now_us, since_us = self._clock.now_us(), self._since_us
        times, percents, apart, lengths = ring
        if times[0] <= since_us or times[-1] > now_us:
            first, last = bisect_right(times, since_us), bisect_right(times, now_us)
            times, percents, apart, lengths = Ring.of(times[first:last], percents[first:last])
            if not times:
                return
        if since_us:
            before_us = times[0] - since_us
            apart.insert(0, before_us)
            insort(lengths, before_us)
        self._learn_period(lengths)
        if not since_us or lengths[-1] > min(_LONGEST_PERIOD_US, self._period_us * _JITTER):
            self._one_by_one(calls, times, percents)
        elif self._begun:
            self._as_one(calls, times, percents, apart)
        else:
            # A tick's span begins within its first sample, and so that one stays by itself.
            self._one_by_one(calls, times[:1], percents[:1])
            if len(times) > 1:
                self._as_one(calls, times[1:], percents[1:], apart[1:])
        self._begun = True

    def _as_one(self, calls: Calls, times: Sequence[int], percents: Sequence[float], apart: Sequence[int]) -> None:
        """Keep samples that follow each other as one, with what each of them weighs."""
        since_us, until_us = self._since_us, times[-1]
        largest, least = max(percents), min(percents)
        mean = sum(map(mul, percents, apart)) / (until_us - since_us)
        if not (least >= 0 and largest <= 100 and mean >= 0):  # nor a NaN
            self._one_by_one(calls, times, percents)
            return
        if least >= _ACTIVE_PERCENT:
            idle = []
        elif largest < _ACTIVE_PERCENT:
            idle = [(since_us, until_us)]
        else:
            # Each of them tells since the one before: what follows each other is one stretch.
            starts = (since_us, *times)
            idle = []
            is_idle, end = _below_active(percents) + _BUSY, 0
            while (start := is_idle.find(_IDLE, end)) >= 0:
                end = is_idle.find(_BUSY, start)
                idle.append((starts[start], starts[end]))
        self._add(since_us, until_us, mean / 100, largest / 100, idle)
        self._since_us = until_us

    def _one_by_one(self, calls: Calls, times: Sequence[int], percents: Sequence[float]) -> None:
        follows_within_us = self._period_us * _JITTER
        for stamp_us, percent in zip(times, percents, strict=True):
            # A sample tells since the one before, but after a gap only its own period.
            apart_us = stamp_us - self._since_us
            told_us = min(apart_us, _LONGEST_PERIOD_US) if apart_us <= follows_within_us else self._period_us
            utilization = ratio(percent)
            if utilization is None:
                calls.note("nvmlDeviceGetSamples", "not a percentage")
            elif self._since_us:
                idle = [] if percent >= _ACTIVE_PERCENT else [(stamp_us - told_us, stamp_us)]
                self._add(stamp_us - told_us, stamp_us, utilization, utilization, idle)
            # Else it is the ring's very first sample, which has none before it and only starts the next.
            self._since_us = stamp_us

    def _add(self, start_us: int, end_us: int, mean: float, largest: float, idle: _Spans) -> None:
        """Keep the mean and the largest value of a stretch of time, of which ``idle`` was below active."""
        offset_us = self._clock.unix_offset_us()
        start_ms, end_ms = (start_us + offset_us) // 1000, (end_us + offset_us) // 1000
        if self._kept:
            start_ms = max(start_ms, self._kept[-1].end_ms)
        if largest * 100 >= _ACTIVE_PERCENT:
            self._is_used = True
        if end_ms > start_ms:
            idle_us = sum([until_us - since_us for since_us, until_us in idle]) if idle else 0
            # Of the whole milliseconds that are kept, so that idle time is never longer than its sample.
            idle_ms = round((end_ms - start_ms) * idle_us / (end_us - start_us))
            self._kept.append(UtilizationSample(start_ms, end_ms, mean, largest, idle_ms))
            self._idle.append(idle)
            if self._unpowered:
                self._unpowered = min(self._unpowered + 1, MOST_SAMPLES)
            elif idle:
                self._unpowered, self._unpowered_since_us = 1, idle[0][0]

    def _ask_power(self, driver: Driver, calls: Calls, handle: Handle, *, is_last: bool) -> None:
        """Add what idle time drew to the samples that lack it, before the ring of power samples forgets it."""
        first, since_us = len(self._kept) - self._unpowered, self._unpowered_since_us
        if not (is_last or self._power.is_due(since_us)):
            return
        self._unpowered = 0
        # Of a card that nobody uses its counter tells what idle seconds cost; this is of those between others.
        draw = self._power.read(driver, calls, handle, since_us) if self._is_used or self._was_used else None
        if draw is None:
            return
        kept = self._kept
        for place in range(first, len(kept)):
            idle = self._idle[place]
            if not idle:
                continue
            powered_ms, idle_mj = draw.over(idle)
            start_ms, end_ms, mean, largest, idle_ms, _, _ = kept[place]
            if powered_ms and idle_ms:
                powered_ms = min(idle_ms, powered_ms)
                kept[place] = UtilizationSample(start_ms, end_ms, mean, largest, idle_ms, powered_ms, idle_mj)

    def _learn_period(self, lengths_us: Sequence[int]) -> None:
        """Take the median of what lies between samples, shortest first; a single one only where there was none."""
        count = len(lengths_us)
        if count > 1 or (count == 1 and self._period_us == _LONGEST_PERIOD_US):
            self._period_us = min(_LONGEST_PERIOD_US, max(1, lengths_us[count // 2]))


def _below_active(percents: Sequence[float]) -> bytes:
    """Return 1 for each percentage below active, else 0."""
    try:
        return bytes(cast("Sequence[int]", percents)).translate(_BELOW_ACTIVE)
    except TypeError:  # a driver that answers floats
        return bytes(map(_ACTIVE_PERCENT.__gt__, percents))
