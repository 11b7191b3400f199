"""How busy a card's engines are at this moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gua.nvml.calls import Calls
from gua.nvml.driver import Driver, Handle
from gua.nvml.quirks import ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class Instant:
    """Ratios over the driver's last sampling period; ``None`` where it does not tell."""

    general: float | None = None
    encoder: float | None = None
    decoder: float | None = None


def read_instant(driver: Driver, calls: Calls, handle: Handle) -> Instant:
    """Return the utilization of the card's engines right now."""
    rates = calls.ask(driver.nvmlDeviceGetUtilizationRates, handle)
    encoder = calls.ask(driver.nvmlDeviceGetEncoderUtilization, handle)
    decoder = calls.ask(driver.nvmlDeviceGetDecoderUtilization, handle)
    return Instant(
        general=_believed(calls, driver.nvmlDeviceGetUtilizationRates.__name__, None if rates is None else rates.gpu),
        encoder=_believed(calls, driver.nvmlDeviceGetEncoderUtilization.__name__, _percent(encoder)),
        decoder=_believed(calls, driver.nvmlDeviceGetDecoderUtilization.__name__, _percent(decoder)),
    )


def _percent(answer: Sequence[int] | None) -> int | None:
    """Return the first of an answer of (percent, sampling period)."""
    return None if answer is None else answer[0]


def _believed(calls: Calls, call: str, percent: float | None) -> float | None:
    if percent is None:
        return None
    value = ratio(percent)
    if value is None:
        calls.note(call, "not a percentage")
    return value
