"""What is remembered of a card between two readings, by its UUID: who it is, what its rings told, how it was cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gua.core.ports import Clock, RawCard
from gua.core.tick import CardReading, ReadError
from gua.core.words import Mig, ProcessList
from gua.nvml.activity import CardActivity
from gua.nvml.driver_clock import DriverClock
from gua.nvml.given_up import GivenUp
from gua.nvml.gpm import Gpm
from gua.nvml.health import Health
from gua.nvml.process_utilization import ProcessUtilization
from gua.nvml.sample_buffer import SampleBuffer
from gua.nvml.workers import Ticket

VENDOR: Final = "NVIDIA"


class CardCache:
    """What is remembered of one card. The thread that asks the card writes it, others only while that one waits.

    ``minor`` is the number of its device file, asked for once, when ``is_minor_asked`` is set. ``instance_uuids`` are
    the UUIDs of its instances by their indexes, ``gpu_instance_ids`` the ids of their GPU instances by UUID.
    ``activity`` is what a whole card tells of its activity, ``None`` where nobody asked for that.
    ``drained`` are the errors of the drains since the last reading, each kind once. ``lost`` is whether the card was
    lost when it was asked last.
    """

    def __init__(self, uuid: str, clock: Clock, *, with_activity: bool = False) -> None:
        self.uuid = uuid
        self._clock = clock
        self.identity = CardReading(uuid=uuid, duration_ms=1, gpu_time_ms=0, vendor=VENDOR)
        driver_clock = DriverClock(clock)
        self.samples = SampleBuffer(driver_clock)
        self.process_utilization = ProcessUtilization(driver_clock)
        self.gpm = Gpm(clock, with_activity=with_activity)
        self.activity = CardActivity(uuid, clock) if with_activity else None
        self.health = Health(clock)
        self.given_up = GivenUp(uuid)
        self.drained: dict[ReadError, None] = {}
        self.lost = False
        self.minor: int | None = None
        self.is_minor_asked = False
        self.instance_uuids: dict[int, str] = {}
        self.gpu_instance_ids: dict[str, int | None] = {}
        self._last: tuple[tuple[CardReading, tuple[int, int]], ...] = ()

    @property
    def gpms(self) -> list[Gpm]:
        """Its counters, which are freed before the driver is released."""
        return [self.gpm] if self.activity is None else [self.gpm, self.activity.gpm]

    @property
    def due(self) -> bool:
        """Whether a drain has anything to read: what the driver keeps of the card may be full before the next."""
        return self.samples.due or self.process_utilization.due

    @property
    def partitioned(self) -> bool:
        """Whether the card was cut into instances at the last reading; it then has no rings."""
        return bool(self._last) and self._last[0][0].mig is Mig.PARENT

    def give_up(self, ticket: Ticket) -> None:
        """Leave a ticket alone that is inside a call that the card can do without, with all that it may still write."""
        self.given_up.add(ticket)
        self.health = Health(self._clock)

    def remember(self, cards: Sequence[RawCard]) -> None:
        """Keep how the card is cut up, and who its instances are."""
        self._last = tuple((raw.reading, raw.gpu_fraction) for raw in cards)

    def unread(self) -> list[RawCard]:
        """Return the card, and its instances as they were last, with everything unknown; failed if it is lost."""
        failed = True if self.lost else None
        cards = self._last or ((self.identity, (1, 1)),)
        unread = [self._unread(reading, gpu_fraction, failed=failed) for reading, gpu_fraction in cards]
        if self.lost:
            unread[0] = replace(unread[0], reading=replace(unread[0].reading, **self.health.lost()))
        return unread

    def unread_at(self, indexes: Iterable[int]) -> dict[int, RawCard]:
        """Return the instances that were at these indexes at the last reading, with everything unknown."""
        last = {reading.uuid: (reading, gpu_fraction) for reading, gpu_fraction in self._last}
        uuids = {index: self.instance_uuids[index] for index in indexes if index in self.instance_uuids}
        return {index: self._unread(*last[uuid], failed=None) for index, uuid in uuids.items() if uuid in last}

    def _unread(self, reading: CardReading, gpu_fraction: tuple[int, int], *, failed: bool | None) -> RawCard:
        return RawCard(
            reading=replace(_empty(reading), failed=failed),
            gpu_fraction=gpu_fraction,
            processes=(),
            minor=self.minor,
            gpu_instance_id=self.gpu_instance_ids.get(reading.uuid),
        )


def _empty(reading: CardReading) -> CardReading:
    return CardReading(
        uuid=reading.uuid,
        duration_ms=1,  # a placeholder: the sampler knows the span
        gpu_time_ms=0,
        process_list=ProcessList.FAILED,
        index=reading.index,
        name=reading.name,
        model=reading.model,
        vendor=reading.vendor,
        driver_version=reading.driver_version,
        pci=reading.pci,
        mig=reading.mig,
        parent=reading.parent,
        memory_shared=reading.memory_shared,
    )
