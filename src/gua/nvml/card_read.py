"""What a card's own thread does: find the card that is at an index, read it, or empty its rings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gua.core.ports import RawCard
from gua.core.tick import CardReading
from gua.core.words import Mig
from gua.nvml.calls import Calls, CardLostError, DriverGoneError
from gua.nvml.card_cache import CardCache
from gua.nvml.driver import ADDRESSING_MODE_ATS, TEMPERATURE_GPU, Code, Driver, Handle
from gua.nvml.instances import ReadParent, read_partitioned
from gua.nvml.measurements import failed_since, read_instant, read_memory, read_with
from gua.nvml.mig import read_mode
from gua.nvml.processes import list_processes, raw_processes
from gua.nvml.quirks import distrusted

# A handle that was good and is no longer: the cards were counted anew.
_INVALID: Final[dict[int, None]] = dict.fromkeys((Code.INVALID_ARGUMENT, Code.GPU_NOT_FOUND, Code.NOT_FOUND))
_NOT_TOLD: Final[dict[int, int | None]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND))

Spare = Mapping[str, Any]
"""What a card can do without: fields of its reading by name."""


class CardRead:
    """One reading of the card at an index: first what its state rests on, then what it can do without.

    After it: ``cards`` (the card, then its instances) if it could be read, the ``handle`` and the ``cache`` of its card
    for the next one, and ``moved`` if the handle that it came with stands for another card now or for none,
    ``lost`` or ``gone`` if the card or the whole driver is. A call of the second part that does not come back costs
    that part alone: see :meth:`without_spare`.
    """

    def __init__(self, index: int, handle: Handle | None, cache: CardCache | None, version: str | None) -> None:
        self.index = index
        self.handle = handle
        self.cache = cache
        self.version = version
        self.cards: list[RawCard] = []
        self.moved = False
        self.lost = False
        self.gone = False
        self._make: Callable[[Spare], list[RawCard]] | None = None

    def run(self, driver: Driver, calls: Calls, know: Callable[[str], CardCache]) -> None:
        """Ask the driver; ``know`` gives what is remembered of a UUID."""
        try:
            if self._find(driver, calls, know):
                self._read(driver, calls)
        except CardLostError:
            self._lose(driver, calls)
        except DriverGoneError:
            self.gone = True

    def without_spare(self) -> None:
        """Take what was read before the call that hangs; to be called once its calls are left alone."""
        if self._make is not None and not self.lost:
            self._finish(self._make({}))

    def _lose(self, driver: Driver, calls: Calls) -> None:
        self.lost = True
        cache = self.cache
        if cache is not None and self.handle is not None and not calls.left_alone:
            self._begin_spare(calls, cache)
            cache.health.last_words(driver, calls, self.handle)

    def _begin_spare(self, calls: Calls, cache: CardCache) -> None:
        calls.given_up = cache.given_up.calls
        calls.spare_since = time.monotonic()

    def _find(self, driver: Driver, calls: Calls, know: Callable[[str], CardCache]) -> bool:
        """Set the handle and who it stands for; return whether there is a card to be read."""
        if self.handle is None:
            self.handle = calls.ask(driver.nvmlDeviceGetHandleByIndex, self.index)
            uuid = None if self.handle is None else calls.ask(driver.nvmlDeviceGetUUID, self.handle)
            if uuid is None:
                self.handle = None
                return False
            self.cache = know(uuid)
            self.cache.health.forget()
            calls.uuid = uuid
            return True
        before = len(calls.errors)
        uuid = calls.ask_with(_INVALID, driver.nvmlDeviceGetUUID, self.handle)
        if uuid is None:
            # With any other error the handle may still be good, and the other calls may answer.
            self.moved = len(calls.errors) == before
        else:
            self.moved = self.cache is None or uuid != self.cache.uuid
        return not self.moved

    def _read(self, driver: Driver, calls: Calls) -> None:
        cache = self.cache
        if cache is None:
            return
        if (cache.identity.index, cache.identity.driver_version) != (self.index, self.version):
            cache.identity = replace(cache.identity, index=self.index, driver_version=self.version)
            cache.is_minor_asked = False
        cache.identity = _read_identity(driver, calls, self.handle, cache.identity)
        if not cache.is_minor_asked:
            before = len(calls.errors)
            cache.minor = calls.ask_with(_NOT_TOLD, driver.nvmlDeviceGetMinorNumber, self.handle)
            cache.is_minor_asked = len(calls.errors) == before
        self._make = _read_card(driver, calls, self.handle, cache)
        self._begin_spare(calls, cache)
        spare = cache.health.read(driver, calls, self.handle)
        if not calls.left_alone:
            self._finish(self._make(spare))

    def _finish(self, cards: list[RawCard]) -> None:
        self.cards = cards
        if self.cache is not None:
            self.cache.remember(cards)


def drain(driver: Driver, calls: Calls, handle: Handle, cache: CardCache) -> None:
    """Empty a card's rings; what failed is told with the next reading."""
    try:
        cache.samples.drain(driver, calls, handle)
        if cache.process_utilization.due:
            cache.process_utilization.drain(driver, calls, handle)
    except (CardLostError, DriverGoneError):
        # The next reading meets the same, and tells it.
        return
    finally:
        cache.drained |= dict.fromkeys(calls.errors)


def _read_identity(driver: Driver, calls: Calls, handle: Handle, identity: CardReading) -> CardReading:
    """Return what the card is, as far as it was not known; what it does is still unknown."""
    if identity.name and identity.pci:
        return identity
    name = identity.name or calls.ask(driver.nvmlDeviceGetName, handle)
    pci = None if identity.pci else calls.ask(driver.nvmlDeviceGetPciInfo, handle)
    return replace(identity, name=name, model=name, pci=identity.pci if pci is None else pci.busId.lower())


def _read_card(driver: Driver, calls: Calls, handle: Handle, cache: CardCache) -> Callable[[Spare], list[RawCard]]:
    """Return what makes the card, and after a partitioned one its instances, of what it can do without.

    Raises CardLostError and DriverGoneError.
    """
    identity = cache.identity
    distrust = distrusted(identity.driver_version, identity.name)
    mode = read_mode(driver, calls, handle)
    if mode is None and cache.partitioned:
        # It takes a reset of the card to change that; without it the instances would be gone.
        mode = Mig.PARENT
    shared = _read_memory_shared(driver, calls, handle, identity.name)
    before = calls.answers
    memory = read_memory(driver, calls, handle)
    listing = list_processes(driver, calls, handle, limit_bytes=memory.limit, distrust=distrust)
    power_mw = calls.ask(driver.nvmlDeviceGetPowerUsage, handle)
    # Put into the reading at once, further below: each copy of it goes through all of its fields.
    told: dict[str, Any] = {
        "mig": mode,
        "memory_shared": shared,
        "power_watts": None if power_mw is None else power_mw / 1000,
        "temperature_celsius": calls.ask(driver.nvmlDeviceGetTemperature, handle, TEMPERATURE_GPU),
        "energy_total_mj": calls.ask(driver.nvmlDeviceGetTotalEnergyConsumption, handle),
    }
    if mode is Mig.PARENT:
        card = replace(identity, **told, failed=failed_since(calls, before))
        read = read_partitioned(driver, calls, handle, cache, ReadParent(card=card, memory=memory, listing=listing))
        return lambda spare: [replace(read[0], reading=replace(read[0].reading, **spare)), *read[1:]]
    cache.instance_uuids, cache.gpu_instance_ids = {}, {}
    # None of these answers in MIG mode, so only whole cards are asked.
    instant = read_instant(driver, calls, handle)
    cache.samples.drain(driver, calls, handle, is_last=True)
    cache.process_utilization.drain(driver, calls, handle)
    told["failed"] = failed_since(calls, before)
    processes = raw_processes(listing, cache.process_utilization.take([one.pid for one in listing.processes]))
    samples = cache.samples.take()
    return lambda spare: [
        RawCard(
            reading=read_with(identity, memory, listing, instant, **told, **spare),
            gpu_fraction=(1, 1),
            processes=processes,
            samples=samples,
            minor=cache.minor,
        )
    ]


def _read_memory_shared(driver: Driver, calls: Calls, handle: Handle, name: str | None) -> bool | None:
    """Return whether the host allocates from the card's memory too (GH200, GB200, GB10), ``None`` if not known.

    Such cards translate addresses through the host's tables (ATS). Drivers that cannot tell are judged
    by the product's name, which for these parts starts with a G and the second chip's letter.
    """
    by_name = None if name is None else any(chip in name for chip in ("GH200", "GB200", "GB300", "GB10"))
    ask = getattr(driver, "nvmlDeviceGetAddressingMode", None)  # nvidia-ml-py has it since 13
    if ask is None:
        return by_name
    mode = calls.ask_with(
        {Code.NOT_SUPPORTED: None, Code.FUNCTION_NOT_FOUND: None}, driver.nvmlDeviceGetAddressingMode, handle
    )
    return by_name if mode is None else mode == ADDRESSING_MODE_ATS or bool(by_name)
