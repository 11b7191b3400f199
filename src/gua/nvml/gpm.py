"""GPU performance monitoring (GPM): utilization of MIG instances on Hopper and newer, and activity if enabled.

An instance's utilization is GRAPHICS_UTIL, the share of time with any compute or graphics work, as in the samples of
whole cards (https://leimao.github.io/blog/NVIDIA-NVML-GPU-Statistics/: gract is the same as sm). SM_UTIL is the share
of busy multiprocessors and would classify a small kernel as idle. Two samples of the counters, more than 100 ms apart,
yield the means in between (https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gua.core.ports import Activity, Clock, RawCard
from gua.nvml.calls import ABSENT, Calls
from gua.nvml.driver import (
    GPM_ANY_TENSOR_UTILIZATION,
    GPM_DRAM_BANDWIDTH_UTILIZATION,
    GPM_GRAPHICS_UTILIZATION,
    GPM_SM_OCCUPANCY,
    GPM_SM_UTILIZATION,
    GpmSample,
    Handle,
    Struct,
    code_name,
)
from gua.nvml.quirks import ratio

_SHORTEST_SPAN_MS: Final = 100
_FIRST_VERSION: Final = 1
ACTIVITY: Final = (
    GPM_SM_UTILIZATION,
    GPM_SM_OCCUPANCY,
    GPM_ANY_TENSOR_UTILIZATION,
    GPM_DRAM_BANDWIDTH_UTILIZATION,
)
"""Metrics in the order of the fields of :class:`gua.core.ports.Activity`."""
# A value above 100 % by at most this much is a rounding error.
_ROUNDING_PERCENT: Final = 0.001


class GpmMeans(NamedTuple):
    """Means over (start_ms, end_ms] in Unix time: GRAPHICS_UTIL as a ratio, and activity; ``None`` is unknown."""

    start_ms: int
    end_ms: int
    utilization: float | None
    activity: Activity | None


@dataclass(slots=True)
class _Counters:
    """Last sample of a card or of one GPU instance, and a buffer for the next one."""

    before: GpmSample | None = None
    before_ms: int | None = None
    spare: GpmSample | None = None


class Gpm:
    """The counters of one card, or of its GPU instances, between two readings.

    An instance is identified by its number and its MIG devices' UUIDs, because numbers are reused; number ``None`` is
    the whole card. ``with_utilization`` and ``with_activity`` select the metrics.
    """

    def __init__(self, clock: Clock, *, with_utilization: bool = True, with_activity: bool = False) -> None:
        self._clock = clock
        self._supported: bool | None = None
        self._counters: dict[tuple[int | None, frozenset[str]], _Counters] = {}
        self._request: Struct | None = None
        self._with_utilization = with_utilization
        self._with_activity = with_activity
        self._metrics = (*((GPM_GRAPHICS_UTILIZATION,) * with_utilization), *(ACTIVITY * with_activity))

    def supported(self, calls: Calls, handle: Handle) -> bool:
        """Return whether the card supports GPM; queried until the driver answers."""
        if self._supported is None:
            before = len(calls.errors)
            answer = calls.call_with(ABSENT, calls.driver.nvmlGpmQueryDeviceSupport, handle)
            if len(calls.errors) == before:
                self._supported = answer is not None and bool(answer.isSupportedDevice)
        return bool(self._supported)

    def read(
        self,
        calls: Calls,
        handle: Handle,
        instance: int | None = None,
        uuids: Collection[str] = (),
    ) -> GpmMeans | None:
        """Return the means since the last reading; ``None`` at the first one, after under 100 ms, or if unknown."""
        counters = self._counters.setdefault((instance, frozenset(uuids)), _Counters())
        if counters.spare is None:
            counters.spare = calls.call(calls.driver.nvmlGpmSampleAlloc)
            if counters.spare is None:
                return None
        if instance is None:
            sample = calls.call(calls.driver.nvmlGpmSampleGet, handle, counters.spare)
        else:
            sample = calls.call(calls.driver.nvmlGpmMigSampleGet, handle, instance, counters.spare)
        if sample is None:
            counters.before_ms = None
            return None
        now_ms = self._clock.monotonic_ms()
        end_ms = self._clock.wall_ms()
        means = None
        if counters.before_ms is not None:
            if now_ms - counters.before_ms < _SHORTEST_SPAN_MS:
                return None
            means = self._means(calls, counters)
        start_ms = end_ms - now_ms + (counters.before_ms or 0)
        counters.before, counters.spare, counters.before_ms = counters.spare, counters.before, now_ms
        return None if means is None else GpmMeans(start_ms, end_ms, *means)

    def begin_anew(self) -> None:
        """Discard the last samples, so that no mean spans a change of the card's partitioning."""
        for counters in self._counters.values():
            counters.before_ms = None

    def free_absent(self, calls: Calls, present: Collection[tuple[int | None, frozenset[str]]]) -> None:
        """Free the samples of every instance that is not ``present``."""
        for key in [key for key in self._counters if key not in present]:
            counters = self._counters.pop(key)
            for sample in (counters.before, counters.spare):
                if sample is not None:
                    calls.call(calls.driver.nvmlGpmSampleFree, sample)

    def _means(self, calls: Calls, counters: _Counters) -> tuple[float | None, Activity | None] | None:
        if self._request is None:
            self._request = calls.driver.c_nvmlGpmMetricsGet_t()
            self._request.version = _FIRST_VERSION
            self._request.numMetrics = len(self._metrics)
            for place, metric in enumerate(self._metrics):
                self._request.metrics[place].metricId = metric
        request = self._request
        request.sample1 = counters.before
        request.sample2 = counters.spare
        if calls.call(calls.driver.nvmlGpmMetricsGet, request) is None:
            return None
        answers: Sequence[Struct] = [request.metrics[place] for place in range(len(self._metrics))]
        utilization = _utilization(calls, answers[0]) if self._with_utilization else None
        if not self._with_activity:
            return utilization, None
        return utilization, Activity(*(_part(calls, answer) for answer in answers[self._with_utilization :]))


def _utilization(calls: Calls, metric: Struct) -> float | None:
    if metric.nvmlReturn != 0:
        calls.note("nvmlGpmMetricsGet", code_name(metric.nvmlReturn))
        return None
    mean = ratio(metric.value)
    if mean is None:
        calls.note("nvmlGpmMetricsGet", "not a percentage")
    return mean


def _part(calls: Calls, metric: Struct) -> float | None:
    """Return a metric as a ratio, ``None`` if the driver does not report it or the value is invalid."""
    code, percent = metric.nvmlReturn, metric.value
    if code != 0:
        if code not in ABSENT:
            calls.note("nvmlGpmMetricsGet", code_name(code))
        return None
    if 0 <= percent <= 100 + _ROUNDING_PERCENT:  # NaN is in no range
        return float(min(percent / 100, 1.0))
    calls.note("nvmlGpmMetricsGet", "not a percentage")
    return None


def add_activity(card: RawCard, means: GpmMeans) -> RawCard:
    """Return a card with the activity over the span of the means, unchanged if that is unknown."""
    if means.activity is None:
        return card
    return replace(card, activity=means.activity, activity_ms=means.end_ms - means.start_ms, has_activity=True)
