"""Work of a card's thread: look up the card at an index, read it, or drain its ring buffers."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gua.core.ports import RawCard
from gua.core.words import Mig
from gua.nvml.calls import ABSENT, Calls, CardLostError, DriverGoneError
from gua.nvml.card import CardCache, failed_since, read_instant, read_memory
from gua.nvml.driver import ADDRESSING_MODE_ATS, TEMPERATURE_GPU, Code, Handle
from gua.nvml.gpm import GpmMeans, add_activity
from gua.nvml.health import HealthValues
from gua.nvml.mig import read_mode, read_partitioned
from gua.nvml.processes import list_processes

# Codes for a handle that is no longer valid: the driver renumbered its cards.
_INVALID: Final[dict[int, None]] = dict.fromkeys((Code.INVALID_ARGUMENT, Code.GPU_NOT_FOUND, Code.NOT_FOUND))
# Unlike other failures, this one does not go away at the next reading.
_REFUSED: Final = "NO_PERMISSION"
_GPM: Final = "nvmlGpm"


class CardRead:
    """One reading of the card at an index: first the values that decide its state, then optional calls.

    Results: ``cards`` (the card, then its instances) if it could be read, and ``handle`` and ``cache`` for the next
    reading. ``moved`` is whether the initial handle now stands for another card or for none. ``lost`` and ``gone`` are
    whether the card or the whole driver is. A job that is abandoned in an optional call loses the values not yet read;
    see :meth:`finish`.
    """

    def __init__(
        self, calls: Calls, index: int, handle: Handle | None, cache: CardCache | None, version: str | None
    ) -> None:
        self.calls = calls
        self.index = index
        self.handle = handle
        self.cache = cache
        self.version = version
        self.cards: list[RawCard] = []
        self.moved = False
        self.lost = False
        self.gone = False
        self._read_cards: list[RawCard] = []
        self._health: HealthValues | None = None
        self._activity: GpmMeans | None = None
        self._has_activity = False

    def run(self, get_cache: Callable[[str], CardCache]) -> None:
        """Call the driver; ``get_cache`` returns the cache for a UUID."""
        try:
            if self._find(get_cache) and self.cache is not None:
                self._read(self.cache)
        except CardLostError:
            self.lost = True
            if self.cache is not None and self.handle is not None and not self.calls.abandoned:
                self._begin_optional(self.cache)
                self.cache.health.read_last_events(self.calls, self.handle)
        except DriverGoneError:
            self.gone = True

    def finish(self) -> None:
        """Set ``cards`` to the values read so far, if those that decide the card's state are complete."""
        if not self._read_cards or self.lost or self.cache is None:
            return
        card, *instances = self._read_cards
        if self._health is not None:
            card = replace(card, reading=replace(card.reading, **self._health))
        if self._activity is not None:
            card = add_activity(card, self._activity)
        elif self._has_activity:
            card = replace(card, has_activity=True)
        self.cards = [card, *instances]
        self.cache.remember(self.cards)

    def _begin_optional(self, cache: CardCache) -> None:
        self.calls.given_up = cache.given_up.calls
        self.calls.optional_since = time.monotonic()

    def _find(self, get_cache: Callable[[str], CardCache]) -> bool:
        """Set the handle and its card; return whether a card can be read."""
        calls = self.calls
        if self.handle is None:
            self.handle = calls.call(calls.driver.nvmlDeviceGetHandleByIndex, self.index)
            uuid = None if self.handle is None else calls.call(calls.driver.nvmlDeviceGetUUID, self.handle)
            if uuid is None:
                self.handle = None
                return False
            self.cache = get_cache(uuid)
            self.cache.health.forget()
            calls.uuid = uuid
            return True
        before = len(calls.errors)
        uuid = calls.call_with(_INVALID, calls.driver.nvmlDeviceGetUUID, self.handle)
        if uuid is None:
            # With any other error the handle may still be valid, and other calls may succeed.
            self.moved = len(calls.errors) == before
        else:
            self.moved = self.cache is None or uuid != self.cache.uuid
        return not self.moved

    def _read(self, cache: CardCache) -> None:
        calls, handle = self.calls, self.handle
        if (cache.identity.index, cache.identity.driver_version) != (self.index, self.version):
            cache.identity = replace(cache.identity, index=self.index, driver_version=self.version)
            cache.has_minor = False
        if not (cache.identity.name and cache.identity.pci):
            name = cache.identity.name or calls.call(calls.driver.nvmlDeviceGetName, handle)
            pci = None if cache.identity.pci else calls.call(calls.driver.nvmlDeviceGetPciInfo, handle)
            known_pci = cache.identity.pci if pci is None else pci.busId.lower()
            cache.identity = replace(cache.identity, name=name, model=name, pci=known_pci)
        if not cache.has_minor:
            before = len(calls.errors)
            cache.minor = calls.call_with(ABSENT, calls.driver.nvmlDeviceGetMinorNumber, handle)
            cache.has_minor = len(calls.errors) == before
        self._read_cards = _read_card(calls, handle, cache)
        self._begin_optional(cache)
        self._health = cache.health.read(calls, handle)
        self._read_activity(cache)
        if not calls.abandoned:
            self.finish()

    def _read_activity(self, cache: CardCache) -> None:
        """Read the whole card's counters, unless one of their calls is disabled."""
        gpm, calls = cache.activity, self.calls
        if gpm is None or any(call.startswith(_GPM) for call in calls.given_up):
            return
        if self._read_cards[0].reading.mig is Mig.PARENT:
            gpm.begin_anew()
            return
        before = len(calls.errors)
        if gpm.supported(calls, self.handle):
            self._activity = gpm.read(calls, self.handle)
            self._has_activity = len(calls.errors) == before
        for error in calls.errors[before:]:
            if error.code == _REFUSED:
                cache.given_up.refuse(error)


def drain(calls: Calls, index: int, handle: Handle | None, cache: CardCache) -> None:
    """Drain a card's ring buffers; errors are reported with the next reading.

    Without a handle (the driver was reopened), do so only if the card is still at its index.
    """
    try:
        if handle is None:
            handle = calls.call(calls.driver.nvmlDeviceGetHandleByIndex, index)
            if handle is None or calls.call(calls.driver.nvmlDeviceGetUUID, handle) != cache.uuid:
                return
        cache.samples.drain(calls, handle)
        if cache.process_utilization.due:
            cache.process_utilization.drain(calls, handle)
    except (CardLostError, DriverGoneError):
        # The next reading gets the same error, and reports it.
        return
    finally:
        cache.drained |= dict.fromkeys(calls.errors)


def _read_card(calls: Calls, handle: Handle, cache: CardCache) -> list[RawCard]:
    """Return the card, followed by its instances if partitioned. Raises CardLostError and DriverGoneError."""
    driver, identity = calls.driver, cache.identity
    mode = read_mode(calls, handle)
    if mode is None and cache.partitioned:
        # Changing the mode takes a reset of the card. Without this the instances would disappear.
        mode = Mig.PARENT
    shared = _read_memory_shared(calls, handle, identity.name)
    before = calls.answers
    memory = read_memory(calls, handle)
    listing = list_processes(calls, handle, identity.driver_version, limit_bytes=memory.memory_limit_bytes)
    power_mw = calls.call(driver.nvmlDeviceGetPowerUsage, handle)
    # Set on the reading at once, below, because each copy of it goes through all of its fields.
    values: dict[str, Any] = {
        **memory._asdict(),
        "process_list": listing.process_list,
        "mig": mode,
        "memory_shared": shared,
        "power_watts": None if power_mw is None else power_mw / 1000,
        "temperature_celsius": calls.call(driver.nvmlDeviceGetTemperature, handle, TEMPERATURE_GPU),
        "energy_total_mj": calls.call(driver.nvmlDeviceGetTotalEnergyConsumption, handle),
    }
    if mode is Mig.PARENT:
        card = replace(identity, **values, failed=failed_since(calls, before))
        return read_partitioned(calls, handle, cache, (card, memory, listing))
    cache.instance_uuids, cache.instance_ids = {}, {}
    # None of these calls works in MIG mode, so they are made for whole cards only.
    values |= read_instant(calls, handle)
    cache.samples.drain(calls, handle)
    cache.process_utilization.drain(calls, handle)
    values["failed"] = failed_since(calls, before)
    pids = [process.pid for process in listing.processes]
    unlisted = cache.process_utilization.unlisted(pids)
    use = cache.process_utilization.take(pids)
    return [
        RawCard(
            reading=replace(identity, **values),
            gpu_fraction=(1, 1),
            processes=tuple(replace(process, utilization=use[process.pid]) for process in listing.processes),
            samples=cache.samples.take(),
            minor=cache.minor,
            unlisted=unlisted,
        )
    ]


def _read_memory_shared(calls: Calls, handle: Handle, name: str | None) -> bool | None:
    """Return whether the host allocates from the card's memory too (GH200, GB200, GB300, GB10), ``None`` if unknown.

    Such cards translate addresses through the host's page tables (ATS). If the driver does not report that,
    the product name decides.
    """
    by_name = None if name is None else any(chip in name for chip in ("GH200", "GB200", "GB300", "GB10"))
    if not hasattr(calls.driver, "nvmlDeviceGetAddressingMode"):  # nvidia-ml-py has it since 13
        return by_name
    mode = calls.call_with(ABSENT, calls.driver.nvmlDeviceGetAddressingMode, handle)
    return by_name if mode is None else mode == ADDRESSING_MODE_ATS or bool(by_name)
