"""One card, asked everything that one tick tells about it."""

from __future__ import annotations

from dataclasses import replace

from gua.core.ports import RawCard
from gua.core.tick import CardReading, Mig
from gua.nvml.calls import Calls
from gua.nvml.card_cache import KnownCard
from gua.nvml.driver import (
    ADDRESSING_MODE_ATS,
    FUNCTION_NOT_FOUND,
    NOT_SUPPORTED,
    TEMPERATURE_GPU,
    Driver,
    Handle,
)
from gua.nvml.instances import Whole, read_partitioned
from gua.nvml.memory import read_memory
from gua.nvml.mig import read_mode
from gua.nvml.processes import list_processes, raw_processes
from gua.nvml.quirks import distrusted
from gua.nvml.reading import failed_since, read_with
from gua.nvml.utilization import read_instant


def read_identity(driver: Driver, calls: Calls, handle: Handle, known: CardReading) -> CardReading:
    """Return what the card is, as far as it was not known; what it does is still unknown."""
    if known.name and known.pci:
        return known
    name = known.name or calls.ask(driver.nvmlDeviceGetName, handle)
    pci = None if known.pci else calls.ask(driver.nvmlDeviceGetPciInfo, handle)
    return replace(known, name=name, model=name, pci=known.pci if pci is None else pci.busId.lower())


def read_card(driver: Driver, calls: Calls, handle: Handle, known: KnownCard) -> list[RawCard]:
    """Return the card, and after a partitioned one its instances. Raises CardLostError and DriverGoneError."""
    identity = known.identity
    distrust = distrusted(identity.driver_version, identity.name)
    mode = read_mode(driver, calls, handle)
    if mode is None and known.partitioned:
        # It takes a reset of the card to change that; without it the instances would be gone.
        mode = Mig.PARENT
    shared = read_memory_shared(driver, calls, handle, identity.name)
    before = calls.answers
    memory = read_memory(driver, calls, handle)
    listing = list_processes(driver, calls, handle, limit_bytes=memory.limit, distrust=distrust)
    power_mw = calls.ask(driver.nvmlDeviceGetPowerUsage, handle)
    card = replace(
        identity,
        mig=mode,
        memory_shared=shared,
        power_watts=None if power_mw is None else power_mw / 1000,
        temperature_celsius=calls.ask(driver.nvmlDeviceGetTemperature, handle, TEMPERATURE_GPU),
        energy_total_mj=calls.ask(driver.nvmlDeviceGetTotalEnergyConsumption, handle),
    )
    if mode is Mig.PARENT:
        card = replace(card, failed=failed_since(calls, before))
        return read_partitioned(driver, calls, handle, known, Whole(card=card, memory=memory, listing=listing))
    known.places = {}
    # None of these answers in MIG mode, so only whole cards are asked.
    instant = read_instant(driver, calls, handle)
    known.samples.drain(driver, calls, handle)
    known.uses.drain(driver, calls, handle)
    return [
        RawCard(
            reading=read_with(replace(card, failed=failed_since(calls, before)), memory, listing, instant),
            share=(1, 1),
            processes=raw_processes(listing, known.uses.take([process.pid for process in listing.processes])),
            samples=known.samples.take(),
        )
    ]


def read_memory_shared(driver: Driver, calls: Calls, handle: Handle, name: str | None) -> bool | None:
    """Return whether the host allocates from the card's memory too (GH200, GB200, GB10), ``None`` if not known.

    Such cards translate addresses through the host's tables (ATS). Drivers that cannot tell are judged
    by the product's name, which for these parts starts with a G and the second chip's letter.
    """
    by_name = None if name is None else any(chip in name for chip in ("GH200", "GB200", "GB300", "GB10"))
    ask = getattr(driver, "nvmlDeviceGetAddressingMode", None)  # nvidia-ml-py has it since 13
    if ask is None:
        return by_name
    mode = calls.ask_with({NOT_SUPPORTED: None, FUNCTION_NOT_FOUND: None}, driver.nvmlDeviceGetAddressingMode, handle)
    return by_name if mode is None else mode == ADDRESSING_MODE_ATS or bool(by_name)
