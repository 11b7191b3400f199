"""What a card and a MIG instance have in common: memory, utilization right now, and whether anything answered.

Version 2 of the memory call tells the driver's reserve apart, version 1 counts it as used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gua.core.tick import CardReading
from gua.core.words import ProcessList
from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Driver, Handle
from gua.nvml.processes import Listing
from gua.nvml.quirks import ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """Bytes; ``used`` contains the driver's reserve where ``reserved`` is ``None``."""

    used: int | None = None
    limit: int | None = None
    reserved: int | None = None


# Drivers before 510 lack version 2 and say so in one of these ways; version 1 then decides.
_OLDER_DRIVER: Final[dict[int, None]] = dict.fromkeys(
    (Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH, Code.INVALID_ARGUMENT, Code.NOT_SUPPORTED)
)


def read_memory(driver: Driver, calls: Calls, handle: Handle) -> DeviceMemory:
    """Return the device's memory; every field is ``None`` where it cannot be read (GB10: NOT_SUPPORTED)."""
    split = calls.ask_with(_OLDER_DRIVER, driver.nvmlDeviceGetMemoryInfo, handle, driver.nvmlMemory_v2)
    if split is not None:
        if split.used + split.reserved <= split.total and split.total > 0:
            return DeviceMemory(used=split.used, limit=split.total, reserved=split.reserved)
        calls.note("nvmlDeviceGetMemoryInfo", "used and reserved exceed total" if split.total else "total is 0")
    whole = calls.ask(driver.nvmlDeviceGetMemoryInfo, handle)
    if whole is None:
        return DeviceMemory()
    if whole.used > whole.total or whole.total == 0:
        calls.note("nvmlDeviceGetMemoryInfo", "used exceeds total" if whole.total else "total is 0")
        return DeviceMemory()
    return DeviceMemory(used=whole.used, limit=whole.total)


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


def failed_since(calls: Calls, before: int) -> bool | None:
    """Return that a card has not failed if anything was answered since ``before``; else nobody knows.

    Only what the card does proves it: who it is, how it is cut and how it is addressed, the driver may tell of a
    card that is dead.
    """
    return False if calls.answers > before else None


def read_with(
    card: CardReading,
    memory: DeviceMemory,
    listing: Listing,
    instant: Instant | None = None,
    **told: Any,  # noqa: ANN401 - as `replace` takes them
) -> CardReading:
    """Return the card with its memory, whether its list is known, its utilization right now, and what else is told."""
    now = Instant() if instant is None else instant
    return replace(
        card,
        process_list=ProcessList.KNOWN if listing.known else ProcessList.FAILED,
        memory_used_bytes=memory.used,
        memory_limit_bytes=memory.limit,
        memory_reserved_bytes=memory.reserved,
        utilization=now.general,
        utilization_encoder=now.encoder,
        utilization_decoder=now.decoder,
        **told,
    )
