"""Device memory: version 2 of the call tells the driver's reserve apart, version 1 counts it as used."""

from __future__ import annotations

from dataclasses import dataclass

from gua.nvml.calls import Calls
from gua.nvml.driver import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    Driver,
    Handle,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """Bytes; ``used`` contains the driver's reserve where ``reserved`` is ``None``."""

    used: int | None = None
    limit: int | None = None
    reserved: int | None = None


# Drivers before 510 lack version 2 and say so in one of these ways; version 1 then decides.
_OLDER_DRIVER = dict.fromkeys((FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_SUPPORTED))


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
