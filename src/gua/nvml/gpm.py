"""GPU performance monitoring: the only utilization of MIG instances, on Hopper and newer.

The metric is GRAPHICS_UTIL, the share of time in which any compute or graphics work ran: what the samples of
whole cards tell too (https://leimao.github.io/blog/NVIDIA-NVML-GPU-Statistics/: gract is the same as sm).
SM_UTIL is not used: it tells how many of the multiprocessors were busy, which calls a small kernel idle.
Two samples of the counters, more than 100 ms apart, give the mean in between
(https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gua.core.ports import Clock, UtilizationSample
from gua.nvml.calls import Calls
from gua.nvml.driver import GPM_GRAPHICS_UTILIZATION, Code, Driver, GpmMetrics, GpmSample, Handle, code_name
from gua.nvml.quirks import ratio

_SHORTEST_SPAN_MS: Final = 100
_FIRST_VERSION: Final = 1


@dataclass(slots=True)
class _Counters:
    """One GPU instance's sample of the last reading, and a buffer for the next one."""

    before: GpmSample | None = None
    before_ms: int | None = None
    spare: GpmSample | None = None


class Gpm:
    """The counters of one partitioned card's GPU instances, between two readings.

    An instance is known by its number and its MIG devices' UUIDs, as numbers are used again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._supported: bool | None = None
        self._counters: dict[tuple[int, frozenset[str]], _Counters] = {}
        self._request: GpmMetrics | None = None

    def supported(self, driver: Driver, calls: Calls, handle: Handle) -> bool:
        """Return whether the card has it; asked until it is told once."""
        if self._supported is None:
            answer = calls.ask_with(
                {Code.NOT_SUPPORTED: None, Code.FUNCTION_NOT_FOUND: None}, driver.nvmlGpmQueryDeviceSupport, handle
            )
            self._supported = None if answer is None else bool(answer.isSupportedDevice)
        return bool(self._supported)

    def read(
        self, driver: Driver, calls: Calls, handle: Handle, instance: int, uuids: Collection[str]
    ) -> UtilizationSample | None:
        """Return the GPU instance's mean since the last reading, ``None`` if unknown (also at the first)."""
        counters = self._counters.setdefault((instance, frozenset(uuids)), _Counters())
        if counters.spare is None:
            counters.spare = calls.ask(driver.nvmlGpmSampleAlloc)
            if counters.spare is None:
                return None
        if calls.ask(driver.nvmlGpmMigSampleGet, handle, instance, counters.spare) is None:
            counters.before_ms = None
            return None
        now_ms = self._clock.monotonic_ms()
        end_ms = self._clock.wall_ms()
        mean = None
        if counters.before_ms is not None:
            if now_ms - counters.before_ms < _SHORTEST_SPAN_MS:
                return None
            mean = self._mean(driver, calls, counters)
        start_ms = end_ms - now_ms + (counters.before_ms or 0)
        counters.before, counters.spare, counters.before_ms = counters.spare, counters.before, now_ms
        return None if mean is None else UtilizationSample(start_ms, end_ms, mean, mean)

    def keep(self, driver: Driver, calls: Calls, present: Collection[tuple[int, frozenset[str]]]) -> None:
        """Free the samples of every instance that is no longer there."""
        for key in [key for key in self._counters if key not in present]:
            counters = self._counters.pop(key)
            for sample in (counters.before, counters.spare):
                if sample is not None:
                    calls.ask(driver.nvmlGpmSampleFree, sample)

    def _mean(self, driver: Driver, calls: Calls, counters: _Counters) -> float | None:
        if self._request is None:
            self._request = driver.c_nvmlGpmMetricsGet_t()
        request = self._request
        request.version = _FIRST_VERSION
        request.numMetrics = 1
        request.sample1 = counters.before
        request.sample2 = counters.spare
        metric = request.metrics[0]
        metric.metricId = GPM_GRAPHICS_UTILIZATION
        if calls.ask(driver.nvmlGpmMetricsGet, request) is None:
            return None
        metric = request.metrics[0]
        if metric.nvmlReturn != 0:
            calls.note("nvmlGpmMetricsGet", code_name(metric.nvmlReturn))
            return None
        mean = ratio(metric.value)
        if mean is None:
            calls.note("nvmlGpmMetricsGet", "not a percentage")
        return mean
