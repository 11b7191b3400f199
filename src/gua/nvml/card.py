"""Cached state of a card between two readings, and reads shared by whole cards and MIG instances.

Version 2 of the memory call reports the driver's reserve separately; version 1 includes it in used memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gua.core.ports import Clock, RawCard
from gua.core.tick import CardReading, ReadError
from gua.core.words import Mig, ProcessList
from gua.nvml.calls import Calls, GivenUp, Job
from gua.nvml.driver import Code, Handle
from gua.nvml.gpm import Gpm
from gua.nvml.health import Health
from gua.nvml.processes import ProcessUtilization
from gua.nvml.quirks import DriverClock, ratio
from gua.nvml.samples import SampleBuffer

VENDOR: Final = "NVIDIA"
_IDENTITY: Final = (
    *("uuid", "index", "name", "model", "vendor"),
    *("driver_version", "pci", "mig", "parent", "memory_shared"),
)
"""Fields that stay known while the card cannot be read."""
# Drivers before 510 lack version 2 and return one of these codes; version 1 is used then.
_OLDER_DRIVER: Final[dict[int, None]] = dict.fromkeys(
    (Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH, Code.INVALID_ARGUMENT, Code.NOT_SUPPORTED)
)


class CardCache:
    """Cached state of one card. Only the card's thread writes to it; others do so while that thread waits.

    ``minor`` is the number of its device file, read once, then ``has_minor`` is set. ``instance_uuids`` are the UUIDs
    of its instances by index. ``instance_ids`` are their GPU and compute instance ids by UUID. ``gpm`` are the
    counters of its instances, ``activity`` those of the whole card, ``None`` if disabled. ``drained`` are the distinct
    errors of drains since the last reading. ``lost`` is whether the card was lost at its last reading.
    """

    def __init__(self, uuid: str, clock: Clock, *, with_activity: bool = False) -> None:
        self.uuid = uuid
        self._clock = clock
        self._with_activity = with_activity
        self.identity = CardReading(uuid=uuid, duration_ms=1, gpu_time_ms=0, vendor=VENDOR)
        driver_clock = DriverClock(clock)
        self.samples = SampleBuffer(driver_clock)
        self.process_utilization = ProcessUtilization(driver_clock)
        self.given_up = GivenUp(uuid)
        self.drained: dict[ReadError, None] = {}
        self.lost = False
        self.minor: int | None = None
        self.has_minor = False
        self.instance_uuids: dict[int, str] = {}
        self.instance_ids: dict[str, tuple[int | None, int | None]] = {}
        self._last: tuple[tuple[CardReading, tuple[int, int]], ...] = ()
        self._abandoned: list[Gpm] = []
        self.health = Health(clock)
        self.gpm = Gpm(clock, with_activity=with_activity)
        self.activity = self._new_activity()

    def _new_activity(self) -> Gpm | None:
        return Gpm(self._clock, with_utilization=False, with_activity=True) if self._with_activity else None

    def take_gpms(self) -> list[Gpm]:
        """Return its counters, to be freed before the driver is released, and start with new ones."""
        gpms = [*self._abandoned, self.gpm, *([] if self.activity is None else [self.activity])]
        self._abandoned = []
        self.gpm = Gpm(self._clock, with_activity=self._with_activity)
        self.activity = self._new_activity()
        self.given_up.forget()
        return gpms

    def abandon(self, job: Job) -> None:
        """Abandon a job that is blocked in an optional call, and replace all objects that it may still write to."""
        self.given_up.abandon(job)
        if self.activity is not None:
            self._abandoned.append(self.activity)
        self.activity = self._new_activity()
        self.health = Health(self._clock)

    @property
    def partitioned(self) -> bool:
        """Whether the card was partitioned at the last reading; it then has no sample rings."""
        return bool(self._last) and self._last[0][0].mig is Mig.PARENT

    def remember(self, cards: Sequence[RawCard]) -> None:
        """Store the card's partitioning, and the identity of its instances."""
        self._last = tuple((raw.reading, raw.gpu_fraction) for raw in cards)

    def unread(self) -> list[RawCard]:
        """Return the card and its last known instances with all values unknown; failed if it is lost."""
        failed = True if self.lost else None
        cards = self._last or ((self.identity, (1, 1)),)
        unread = [self._unread(reading, gpu_fraction, failed=failed) for reading, gpu_fraction in cards]
        if self.lost:
            unread[0] = replace(unread[0], reading=replace(unread[0].reading, **self.health.lost()))
        return unread

    def unread_at(self, indexes: Iterable[int]) -> dict[int, RawCard]:
        """Return the instances that had these indexes at the last reading, with all values unknown."""
        last = {reading.uuid: (reading, gpu_fraction) for reading, gpu_fraction in self._last}
        uuids = {index: self.instance_uuids[index] for index in indexes if index in self.instance_uuids}
        return {index: self._unread(*last[uuid], failed=None) for index, uuid in uuids.items() if uuid in last}

    def _unread(self, reading: CardReading, gpu_fraction: tuple[int, int], *, failed: bool | None) -> RawCard:
        gpu_instance_id, compute_instance_id = self.instance_ids.get(reading.uuid, (None, None))
        return RawCard(
            reading=CardReading(
                **{name: getattr(reading, name) for name in _IDENTITY},
                duration_ms=1,  # a placeholder: the sampler sets the span
                gpu_time_ms=0,
                process_list=ProcessList.FAILED,
                failed=failed,
            ),
            gpu_fraction=gpu_fraction,
            processes=(),
            minor=self.minor,
            gpu_instance_id=gpu_instance_id,
            compute_instance_id=compute_instance_id,
        )


class DeviceMemory(NamedTuple):
    """Device memory, in fields of its reading; used memory includes the driver's reserve if that is ``None``."""

    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_reserved_bytes: int | None = None


def read_memory(calls: Calls, handle: Handle) -> DeviceMemory:
    """Return the device's memory; every field is ``None`` if it cannot be read (GB10: NOT_SUPPORTED)."""
    split = calls.call_with(_OLDER_DRIVER, calls.driver.nvmlDeviceGetMemoryInfo, handle, calls.driver.nvmlMemory_v2)
    if split is not None:
        if split.used + split.reserved <= split.total and split.total > 0:
            return DeviceMemory(split.used, split.total, split.reserved)
        calls.note("nvmlDeviceGetMemoryInfo", "used and reserved exceed total" if split.total else "total is 0")
    whole = calls.call(calls.driver.nvmlDeviceGetMemoryInfo, handle)
    if whole is None:
        return DeviceMemory()
    if whole.used > whole.total or whole.total == 0:
        calls.note("nvmlDeviceGetMemoryInfo", "used exceeds total" if whole.total else "total is 0")
        return DeviceMemory()
    return DeviceMemory(whole.used, whole.total)


def read_instant(calls: Calls, handle: Handle) -> dict[str, float | None]:
    """Return the utilization of the card's engines over the driver's last sampling period, as fields of its reading.

    Values are ratios; ``None`` is unknown.
    """
    driver = calls.driver
    rates = calls.call(driver.nvmlDeviceGetUtilizationRates, handle)
    values = {
        "utilization": _checked_ratio(calls, "nvmlDeviceGetUtilizationRates", None if rates is None else rates.gpu)
    }
    for field, function in (
        ("utilization_encoder", driver.nvmlDeviceGetEncoderUtilization),
        ("utilization_decoder", driver.nvmlDeviceGetDecoderUtilization),
    ):
        answer = calls.call(function, handle)  # (percent, sampling period)
        values[field] = _checked_ratio(calls, function.__name__, None if answer is None else answer[0])
    return values


def _checked_ratio(calls: Calls, call: str, percent: float | None) -> float | None:
    if percent is None:
        return None
    value = ratio(percent)
    if value is None:
        calls.note(call, "not a percentage")
    return value


def failed_since(calls: Calls, before: int) -> bool | None:
    """Return ``False`` (not failed) if more than ``before`` calls have succeeded, else ``None`` (unknown).

    Only measurements count as proof, because the driver may return identity, partitioning and addressing mode even for
    a dead card.
    """
    return False if calls.answers > before else None
