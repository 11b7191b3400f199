"""How busy a card is: the instant value, and the samples that the driver keeps in a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_usage_audit.core.ports import UtilizationSample
from gpu_usage_audit.nvml.calls import Calls
from gpu_usage_audit.nvml.driver import GPU_UTILIZATION_SAMPLES, NOT_FOUND, NOT_SUPPORTED, Driver, Handle

# The driver's sampling period is 1/6 to 1 s by product (nvmlDeviceGetUtilizationRates in NVIDIA's reference):
# a sample says nothing of what lies further back.
_LONGEST_PERIOD_US: Final = 1_000_000
_VALUE_FIELDS: Final = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Instant:
    """Ratios over the driver's last sampling period; ``None`` where it does not tell."""

    general: float | None = None
    encoder: float | None = None
    decoder: float | None = None


def read_instant(driver: Driver, calls: Calls, handle: Handle) -> Instant:
    """Return the utilization of the card's engines right now."""
    rates = calls.ask(driver.nvmlDeviceGetUtilizationRates, handle)
    return Instant(
        general=None if rates is None else _ratio(rates.gpu),
        encoder=_codec(calls.ask(driver.nvmlDeviceGetEncoderUtilization, handle)),
        decoder=_codec(calls.ask(driver.nvmlDeviceGetDecoderUtilization, handle)),
    )


def read_samples(
    driver: Driver, calls: Calls, handle: Handle, since_us: int
) -> tuple[tuple[UtilizationSample, ...], int]:
    """Return the ring's samples after ``since_us`` (Unix microseconds, 0: all), and the newest one's time.

    A sample covers the time since the one before it, 1 s at most; the ring's first one has none before
    it and only starts the next. An idle card may answer NOT_FOUND for minutes: no samples, no error.
    """
    answer = calls.ask_with(
        {NOT_FOUND: (1, ()), NOT_SUPPORTED: (1, ())},
        driver.nvmlDeviceGetSamples,
        handle,
        GPU_UTILIZATION_SAMPLES,
        since_us,
    )
    if answer is None:
        return (), since_us
    kind, samples = answer
    field = _VALUE_FIELDS.get(kind)
    if field is None:
        calls.note("nvmlDeviceGetSamples", f"value type {kind}")
        return (), since_us
    found: list[UtilizationSample] = []
    before_us = since_us
    for sample in sorted(samples, key=lambda one: one.timeStamp):
        if sample.timeStamp <= before_us:
            continue
        if before_us > 0:
            start_us = max(before_us, sample.timeStamp - _LONGEST_PERIOD_US)
            found.append(
                UtilizationSample(
                    start_ms=start_us // 1000,
                    end_ms=sample.timeStamp // 1000,
                    utilization=_ratio(getattr(sample.sampleValue, field)),
                )
            )
        before_us = sample.timeStamp
    return tuple(found), before_us


def _codec(answer: Sequence[int] | None) -> float | None:
    """Return the ratio of an answer of (percent, sampling period)."""
    return None if answer is None else _ratio(answer[0])


def _ratio(percent: float) -> float:
    return min(max(percent, 0), 100) / 100
