"""One card, asked everything that one tick tells about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpu_usage_audit.core.ports import RawCard, UtilizationSample
from gpu_usage_audit.core.tick import CardReading, Mig, ProcessList
from gpu_usage_audit.nvml.calls import Calls
from gpu_usage_audit.nvml.driver import (
    ADDRESSING_MODE_ATS,
    FUNCTION_NOT_FOUND,
    NOT_SUPPORTED,
    TEMPERATURE_GPU,
    Driver,
    Handle,
)
from gpu_usage_audit.nvml.gpm import Gpm
from gpu_usage_audit.nvml.known import KnownCard
from gpu_usage_audit.nvml.memory import DeviceMemory, read_memory
from gpu_usage_audit.nvml.mig import Instance, read_mode, read_partition
from gpu_usage_audit.nvml.processes import Listing, list_processes, raw_processes
from gpu_usage_audit.nvml.quirks import distrusted
from gpu_usage_audit.nvml.utilization import Instant, read_instant


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
        card = replace(card, failed=_failed(calls, before))
        return read_partitioned(driver, calls, handle, known, _Whole(card=card, memory=memory, listing=listing))
    known.places = {}
    # None of these answers in MIG mode, so only whole cards are asked.
    instant = read_instant(driver, calls, handle)
    known.samples.drain(driver, calls, handle)
    known.uses.drain(driver, calls, handle)
    return [
        RawCard(
            reading=_with(replace(card, failed=_failed(calls, before)), memory, listing, instant),
            share=(1, 1),
            processes=raw_processes(listing, known.uses.take([process.pid for process in listing.processes])),
            samples=known.samples.take(),
        )
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Whole:
    """A partitioned card as it was read: with everything that its instances have, too."""

    card: CardReading
    memory: DeviceMemory
    listing: Listing


def read_partitioned(driver: Driver, calls: Calls, handle: Handle, known: KnownCard, whole: _Whole) -> list[RawCard]:
    """Return the parent, which stands for what no instance has, and its instances.

    An instance that cannot be read now is unknown, with the share that it had when it was read before. Then the
    parent's processes and memory are unknown, too: they may be that instance's.
    """
    known.samples.clear()
    partition = read_partition(driver, calls, handle)
    own = {index: raw.share[0] for index, raw in known.unread_at(partition.unread).items()}
    own |= {one.index: one.slices for one in partition.instances}
    allocated = sum(own.values())
    slices = max(partition.slices, allocated)
    read = {one.index: read_instance(driver, calls, whole.card, one, slices) for one in partition.instances}
    present = {index: instance for index, instance in read.items() if instance is not None}
    missing = partition.unread | (read.keys() - present.keys())
    uuids = {index: one.raw.reading.uuid for index, one in present.items()}
    unread = {
        index: replace(raw, share=(own[index], slices))
        for index, raw in known.unread_at(missing).items()
        if raw.reading.uuid not in uuids.values()
    }
    known.places = uuids | {index: raw.reading.uuid for index, raw in unread.items()}
    instances = [*read_use(driver, calls, handle, known.gpm, list(present.values())), *unread.values()]
    memory, listing = left_over(whole.memory, (raw.reading for raw in instances)), whole.listing
    if missing:
        memory, listing = DeviceMemory(), replace(listing, known=False)
    return [
        RawCard(
            reading=_with(whole.card, memory, listing),
            share=(slices - allocated, slices),
            processes=raw_processes(_outside(listing, [one.listing for one in present.values()]), {}),
        ),
        *instances,
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadInstance:
    """A MIG device as it was read, still without its utilization."""

    handle: Handle
    raw: RawCard
    listing: Listing


def read_instance(
    driver: Driver, calls: Calls, parent: CardReading, instance: Instance, slices: int
) -> ReadInstance | None:
    """Return a MIG instance as a card of its own, ``None`` if not even its UUID can be read.

    Neither rates nor samples nor process utilization work in MIG mode; :func:`read_use` adds what does.
    Power, temperature and energy are the whole card's and stay with the parent.
    """
    uuid = calls.ask(driver.nvmlDeviceGetUUID, instance.handle)
    if uuid is None:
        return None
    calls.uuid = uuid
    distrust = distrusted(parent.driver_version, parent.name)
    before = calls.answers
    memory = read_memory(driver, calls, instance.handle)
    listing = list_processes(driver, calls, instance.handle, limit_bytes=memory.limit, distrust=distrust)
    failed = _failed(calls, before)
    identity = replace(
        parent,
        uuid=uuid,
        mig=Mig.INSTANCE,
        parent=parent.uuid,
        name=calls.ask(driver.nvmlDeviceGetName, instance.handle) or parent.name,
        power_watts=None,
        temperature_celsius=None,
        energy_total_mj=None,
        failed=failed,
    )
    calls.uuid = parent.uuid
    raw = RawCard(
        reading=_with(identity, memory, listing),
        share=(instance.slices, slices),
        processes=raw_processes(listing, {}),
    )
    return ReadInstance(handle=instance.handle, raw=raw, listing=listing)


def read_use(
    driver: Driver, calls: Calls, handle: Handle, gpm: Gpm, instances: Sequence[ReadInstance]
) -> list[RawCard]:
    """Return the instances of a card with the utilization that its performance counters tell since the last reading.

    Compute instances that share a GPU instance share its counters: 0 is 0 for each of them, but more than
    that may be anybody's, and stays unknown.
    """
    if not gpm.supported(driver, calls, handle):
        return [instance.raw for instance in instances]
    sharing: dict[int, list[ReadInstance]] = {}
    for instance in instances:
        calls.uuid = instance.raw.reading.uuid
        number = calls.ask(driver.nvmlDeviceGetGpuInstanceId, instance.handle)
        if number is not None:
            sharing.setdefault(number, []).append(instance)
    used: dict[str, UtilizationSample] = {}
    present: set[tuple[int, frozenset[str]]] = set()
    for number, together in sharing.items():
        uuids = frozenset(one.raw.reading.uuid for one in together)
        present.add((number, uuids))
        calls.uuid = together[0].raw.reading.uuid
        sample = gpm.read(driver, calls, handle, number, uuids)
        if sample is not None and (len(together) == 1 or sample.utilization == 0):
            used |= dict.fromkeys(uuids, sample)
    calls.uuid = instances[0].raw.reading.parent if instances else calls.uuid
    gpm.keep(driver, calls, present)
    return [
        replace(one.raw, reading=replace(one.raw.reading, failed=False), samples=(used[one.raw.reading.uuid],))
        if one.raw.reading.uuid in used
        else one.raw
        for one in instances
    ]


def left_over(parent: DeviceMemory, instances: Iterable[CardReading]) -> DeviceMemory:
    """Return the memory of a parent that stands for its unallocated slices: what no instance has or uses.

    The driver counts the instances' memory into the parent's. Unknown if any instance's is.
    """
    used, limit = parent.used, parent.limit
    for instance in instances:
        if used is None or limit is None or instance.memory_used_bytes is None or instance.memory_limit_bytes is None:
            return DeviceMemory()
        used = max(0, used - instance.memory_used_bytes)
        limit = max(0, limit - instance.memory_limit_bytes)
    return DeviceMemory(used=used, limit=limit, reserved=parent.reserved)


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


def _failed(calls: Calls, before: int) -> bool | None:
    """Return that a card has not failed if anything was answered since ``before``; else nobody knows.

    Only what the card does proves it: who it is, how it is cut and how it is addressed, the driver may tell of a
    card that is dead.
    """
    return False if calls.answers > before else None


def _with(card: CardReading, memory: DeviceMemory, listing: Listing, instant: Instant | None = None) -> CardReading:
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
    )


def _outside(listing: Listing, instances: Iterable[Listing]) -> Listing:
    """Return those of a parent's processes that run on none of its instances."""
    inside = {process.pid for instance in instances for process in instance.processes}
    return replace(
        listing,
        processes=tuple(one for one in listing.processes if one.instance is None and one.pid not in inside),
    )
