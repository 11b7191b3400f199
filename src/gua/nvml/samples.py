"""The driver's sample ring buffers: utilization of a card until the next tick, and power during idle time.

The utilization ring may hold only 100 samples of 1/6 s (https://docs.nvidia.com/deploy/nvml-api/,
nvmlDeviceGetSamples). On an H100 with driver 580 it holds 71 of 200 ms, or 14 s, so it is read every 5 s. The power
ring reaches back 2.4 s there (119 samples of 20 ms), so it may cover only a part of the idle time.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from gua.core.idleness import ACTIVE_FROM
from gua.core.ports import UtilizationSample
from gua.nvml.calls import Calls
from gua.nvml.driver import GPU_UTILIZATION_SAMPLES, TOTAL_POWER_SAMPLES, Code, Handle, Row
from gua.nvml.quirks import DriverClock, ratio

# nvidia-ml-py returns ctypes structures whose field access runs in Python: 5,000 look-ups in half a minute with eight
# cards. So they are unpacked as C structs, by nvmlValueType_t: time stamp, then a union of 8 bytes.
# https://docs.nvidia.com/deploy/nvml-api/structnvmlSample__t.html
_LAYOUTS: Final = ("Qd", "QI4x", "QL", "QQ", "Qq", "Qi4x", "QH6x")
_NO_SAMPLES: Final[dict[int, tuple[int, Sequence[Row]]]] = {Code.NOT_FOUND: (1, ()), Code.NOT_SUPPORTED: (1, ())}
# The driver's sampling period is 1/6 to 1 s by product (nvmlDeviceGetUtilizationRates in NVIDIA's reference).
# A sample covers no more than that.
_LONGEST_PERIOD_US: Final = 1_000_000
# Samples up to this factor of the period apart are consecutive; with a longer distance samples are missing in between.
_JITTER: Final = 1.5
# 10 minutes, the longest interval, if each of 6 samples a second is stored separately. Beyond that the oldest are
# dropped.
MOST_SAMPLES: Final = 3600
# Percent from which a sample is active.
_ACTIVE_PERCENT: Final = ACTIVE_FROM * 100

_Spans = list[tuple[int, int]]
"""Non-overlapping periods, oldest first: start and end [us of the driver's clock]."""
_Sample = tuple[int, int, float]
"""A sample: start and end of the period that it covers [us of the driver's clock], and percent."""
# Ten times the power of the largest cards today (1.4 kW); more is invalid.
MOST_MILLIWATTS: Final = 14_000_000
_NJ_IN_MJ: Final = 1e6  # mW x us are nJ
_US_IN_MS: Final = 1000


def read_ring(calls: Calls, handle: Handle, kind: int, since_us: int) -> list[tuple[int, float]] | None:
    """Return the samples after ``since_us``, oldest first: time stamp [us of the driver's clock] and value.

    ``None`` if the ring cannot be read. An idle card may return NOT_FOUND for minutes: that is an empty list.
    """
    answer = calls.call_with(_NO_SAMPLES, calls.driver.nvmlDeviceGetSamples, handle, kind, since_us)
    if answer is None:
        return None
    value_type, samples = answer
    if not 0 <= value_type < len(_LAYOUTS):
        calls.note("nvmlDeviceGetSamples", f"value type {value_type}")
        return None
    flat = _layout(value_type, len(samples)).unpack(b"".join(samples))
    return sorted(zip(flat[::2], flat[1::2], strict=True))


@lru_cache(maxsize=256)
def _layout(kind: int, count: int) -> struct.Struct:
    return struct.Struct("@" + _LAYOUTS[kind] * count)


class PowerSample(NamedTuple):
    """A power sample [mW] that covers ``covered_us`` before its time stamp [us of the driver's clock]."""

    stamp_us: int
    covered_us: int
    milliwatts: float


def energy(samples: Sequence[PowerSample], spans: Iterable[tuple[int, int]]) -> tuple[int, float]:
    """Return how much of the periods the samples cover [ms], and the energy of that time [mJ]."""
    all_us, nanojoules = 0, 0.0
    for since_us, until_us in spans:
        for sample in samples[bisect_right(samples, since_us, key=attrgetter("stamp_us")) :]:
            start_us = max(sample.stamp_us - sample.covered_us, since_us)
            if start_us >= until_us:
                break
            part_us = min(sample.stamp_us, until_us) - start_us
            all_us += part_us
            nanojoules += part_us * sample.milliwatts
    return round(all_us / _US_IN_MS), nanojoules / _NJ_IN_MJ


def read_power(calls: Calls, handle: Handle, since_us: int, now_us: int) -> list[PowerSample] | None:
    """Return the card's power samples since ``since_us`` [us of the driver's clock]; ``None`` with fewer than two."""
    ring = read_ring(calls, handle, TOTAL_POWER_SAMPLES, since_us)
    samples = [sample for sample in ring or () if sample[0] <= now_us]
    if len(samples) < 2:
        return None
    period_us = _median(_lengths([stamp_us for stamp_us, _ in samples]))
    draw: list[PowerSample] = []
    before_us: int | None = None
    for stamp_us, milliwatts in samples:
        # The first sample, and one after a gap, cover only their own period.
        apart_us = period_us if before_us is None else stamp_us - before_us
        covered_us = apart_us if apart_us <= period_us * _JITTER else period_us
        is_power = 0 <= milliwatts <= MOST_MILLIWATTS  # no NaN
        draw.append(PowerSample(stamp_us, covered_us if is_power else 0, milliwatts if is_power else 0.0))
        before_us = stamp_us
    if not all(0 <= milliwatts <= MOST_MILLIWATTS for _, milliwatts in samples):
        calls.note("nvmlDeviceGetSamples", "not a power")
    return draw


def _lengths(stamps_us: Sequence[int]) -> list[int]:
    return [until_us - since_us for since_us, until_us in pairwise(stamps_us)]


def _median(lengths_us: Sequence[int]) -> int:
    return min(_LONGEST_PERIOD_US, max(1, sorted(lengths_us)[len(lengths_us) // 2]))


class SampleBuffer:
    """Store of the utilization samples of one whole card between two readings."""

    def __init__(self, clock: DriverClock) -> None:
        self._clock = clock
        self._since_us = 0
        self._period_us = _LONGEST_PERIOD_US
        self._stored: deque[UtilizationSample] = deque(maxlen=MOST_SAMPLES)
        self._begun = False
        self._idle: deque[_Spans] = deque(maxlen=MOST_SAMPLES)
        """Idle periods of each stored sample."""
        # Number of newest samples whose idle power was not read yet, and the start of the first idle period in them.
        self._unpowered, self._unpowered_since_us = 0, 0
        self._is_used = self._was_used = False

    def drain(self, calls: Calls, handle: Handle) -> None:
        """Read new samples from the ring, and the power of their idle time."""
        if self._since_us > self._clock.now_us():  # the clock was set back: discard samples of the future
            self._since_us = 0
            now_ms = self._clock.now_us() // 1000
            while self._stored and self._stored[-1].end_ms > now_ms:
                self._stored.pop()
                self._idle.pop()
                self._unpowered = max(0, self._unpowered - 1)
        ring = read_ring(calls, handle, GPU_UTILIZATION_SAMPLES, self._since_us)
        if ring:
            self._clock.learn(ring[-1][0])
            self._store(calls, ring)
        if self._unpowered:
            self._read_power(calls, handle)

    def take(self) -> tuple[UtilizationSample, ...]:
        """Return and remove the stored samples, oldest first and without overlap."""
        stored = tuple(self._stored)
        self._clear_stored()
        self._begun = False
        self._was_used, self._is_used = self._is_used, False
        return stored

    def clear(self) -> None:
        """Discard everything, because the card was partitioned in between."""
        self._clear_stored()
        self._since_us = 0

    def _clear_stored(self) -> None:
        self._stored.clear()
        self._idle.clear()
        self._unpowered = 0

    def _store(self, calls: Calls, ring: Sequence[tuple[int, float]]) -> None:
        # Samples with a future time stamp (the driver's clock is ahead) stay in the ring until that time.
        now_us, since_us = self._clock.now_us(), self._since_us
        samples = [(stamp_us, percent) for stamp_us, percent in ring if since_us < stamp_us <= now_us]
        if not samples:
            return
        stamps_us = [stamp_us for stamp_us, _ in samples]
        lengths_us = _lengths([since_us, *stamps_us] if since_us else stamps_us)
        # A single distance counts only while the period is unknown.
        if len(lengths_us) > 1 or (lengths_us and self._period_us == _LONGEST_PERIOD_US):
            self._period_us = _median(lengths_us)
        follows_within_us = self._period_us * _JITTER
        # Consecutive samples are merged into one.
        is_one = bool(since_us) and max(lengths_us) <= min(_LONGEST_PERIOD_US, follows_within_us)
        run: list[_Sample] = []
        for stamp_us, percent in samples:
            # A sample covers the time since the one before, but after a gap only its own period.
            apart_us = stamp_us - self._since_us
            covered_us = min(apart_us, _LONGEST_PERIOD_US) if apart_us <= follows_within_us else self._period_us
            is_percentage = ratio(percent) is not None
            if not is_percentage:
                calls.note("nvmlDeviceGetSamples", "not a percentage")
            elif self._since_us:
                run.append((stamp_us - covered_us, stamp_us, min(percent, 100)))
            # Else it is the ring's very first sample: without a predecessor it only starts the next one.
            self._since_us = stamp_us
            # A tick's span begins within its first sample, so that sample stays separate.
            if not (is_one and is_percentage and self._begun):
                self._add(run)
                run = []
            self._begun = True
        self._add(run)

    def _add(self, run: Sequence[_Sample]) -> None:
        """Store the mean and largest value of consecutive samples, and their idle periods."""
        if not run:
            return
        offset_us = self._clock.unix_offset_us()
        start_us, end_us = run[0][0], run[-1][1]
        start_ms, end_ms = (start_us + offset_us) // 1000, (end_us + offset_us) // 1000
        if self._stored:
            start_ms = max(start_ms, self._stored[-1].end_ms)
        largest = max(percent for _, _, percent in run)
        if largest >= _ACTIVE_PERCENT:
            self._is_used = True
        if end_ms <= start_ms:
            return
        mean = sum(percent * (until_us - since_us) for since_us, until_us, percent in run) / (end_us - start_us)
        idle: _Spans = []
        for since_us, until_us, percent in run:
            if percent < _ACTIVE_PERCENT:
                idle.append((idle.pop()[0] if idle and idle[-1][1] == since_us else since_us, until_us))
        idle_us = sum(until_us - since_us for since_us, until_us in idle)
        # Scaled to the stored whole milliseconds, so that idle time is never longer than its sample.
        idle_ms = round((end_ms - start_ms) * idle_us / (end_us - start_us))
        self._stored.append(UtilizationSample(start_ms, end_ms, mean / 100, largest / 100, idle_ms))
        self._idle.append(idle)
        if self._unpowered:
            self._unpowered = min(self._unpowered + 1, MOST_SAMPLES)
        elif idle:
            self._unpowered, self._unpowered_since_us = 1, idle[0][0]

    def _read_power(self, calls: Calls, handle: Handle) -> None:
        """Add the energy of idle time to the samples that lack it, before the power ring loses it."""
        first, since_us = len(self._stored) - self._unpowered, self._unpowered_since_us
        self._unpowered = 0
        # An unused card's energy counter already has the energy of its idle time. Only idle gaps in use need samples.
        needs_power = self._is_used or self._was_used
        draw = read_power(calls, handle, since_us, self._clock.now_us()) if needs_power else None
        if draw is None:
            return
        for place in range(first, len(self._stored)):
            idle = self._idle[place]
            if not idle:
                continue
            powered_ms, idle_mj = energy(draw, idle)
            sample = self._stored[place]
            if powered_ms and sample.idle_ms:
                powered_ms = min(sample.idle_ms, powered_ms)
                self._stored[place] = sample._replace(powered_ms=powered_ms, idle_mj=idle_mj)
