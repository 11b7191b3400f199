"""A partitioned card: its instances as cards of their own, and the parent, which stands for the rest of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gua.core.ports import Activity, RawCard, UtilizationSample
from gua.core.tick import CardReading
from gua.core.words import Mig
from gua.nvml.activity import active
from gua.nvml.calls import Calls
from gua.nvml.card_cache import CardCache
from gua.nvml.driver import Code, Driver, Handle
from gua.nvml.gpm import Gpm, GpmMeans
from gua.nvml.measurements import DeviceMemory, failed_since, read_memory, read_with
from gua.nvml.mig import Instance, read_partition
from gua.nvml.processes import Listing, list_processes, raw_processes
from gua.nvml.quirks import distrusted

_NOT_TOLD: Final[dict[int, int | None]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadParent:
    """A partitioned card as it was read: with everything that its instances have, too."""

    card: CardReading
    memory: DeviceMemory
    listing: Listing


def read_partitioned(
    driver: Driver, calls: Calls, handle: Handle, cache: CardCache, parent: ReadParent
) -> list[RawCard]:
    """Return the parent, which stands for what no instance has, and its instances.

    An instance that cannot be read now is unknown, with the fraction that it had when it was read before. Then the
    parent's processes and memory are unknown, too: they may be that instance's.
    """
    cache.samples.clear()
    partition = read_partition(driver, calls, handle)
    own = {index: raw.gpu_fraction[0] for index, raw in cache.unread_at(partition.unread).items()}
    own |= {instance.index: instance.slices for instance in partition.instances}
    allocated = sum(own.values())
    slices = max(partition.slices, allocated)
    read = {
        instance.index: read_instance(driver, calls, parent.card, instance, slices) for instance in partition.instances
    }
    present = {index: instance for index, instance in read.items() if instance is not None}
    missing = partition.unread | (read.keys() - present.keys())
    uuids = {index: instance.raw.reading.uuid for index, instance in present.items()}
    unread = {
        index: replace(raw, gpu_fraction=(own[index], slices))
        for index, raw in cache.unread_at(missing).items()
        if raw.reading.uuid not in uuids.values()
    }
    cache.instance_uuids = uuids | {index: raw.reading.uuid for index, raw in unread.items()}
    ids = _read_gpu_instance_ids(driver, calls, cache, present.values())
    cache.gpu_instance_ids = ids | {raw.reading.uuid: raw.gpu_instance_id for raw in unread.values()}
    instances = [
        *(
            replace(raw, minor=cache.minor, gpu_instance_id=ids[raw.reading.uuid])
            for raw in read_use(driver, calls, handle, cache.gpm, list(present.values()))
        ),
        *unread.values(),
    ]
    memory, listing = left_over(parent.memory, (raw.reading for raw in instances)), parent.listing
    if missing:
        memory, listing = DeviceMemory(), replace(listing, known=False)
    return [
        RawCard(
            reading=read_with(parent.card, memory, listing),
            gpu_fraction=(slices - allocated, slices),
            processes=raw_processes(_outside(listing, [instance.listing for instance in present.values()]), {}),
            minor=cache.minor,
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
    Power, temperature and energy are the parent card's and stay with the parent.
    """
    uuid = calls.ask(driver.nvmlDeviceGetUUID, instance.handle)
    if uuid is None:
        return None
    calls.uuid = uuid
    distrust = distrusted(parent.driver_version, parent.name)
    before = calls.answers
    memory = read_memory(driver, calls, instance.handle)
    listing = list_processes(driver, calls, instance.handle, limit_bytes=memory.limit, distrust=distrust)
    failed = failed_since(calls, before)
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
        reading=read_with(identity, memory, listing),
        gpu_fraction=(instance.slices, slices),
        processes=raw_processes(listing, {}),
    )
    return ReadInstance(handle=instance.handle, raw=raw, listing=listing)


def _read_gpu_instance_ids(
    driver: Driver, calls: Calls, cache: CardCache, instances: Iterable[ReadInstance]
) -> dict[str, int | None]:
    """Return the ids of the GPU instances by UUID, each asked for once; ``None`` where the driver does not tell."""
    ids: dict[str, int | None] = {}
    for instance in instances:
        uuid = instance.raw.reading.uuid
        if uuid in cache.gpu_instance_ids:
            ids[uuid] = cache.gpu_instance_ids[uuid]
        else:
            ids[uuid] = calls.ask_with(_NOT_TOLD, driver.nvmlDeviceGetGpuInstanceId, instance.handle)
    return ids


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
    used: dict[str, GpmMeans] = {}
    present: set[tuple[int | None, frozenset[str]]] = set()
    for number, together in sharing.items():
        uuids = frozenset(instance.raw.reading.uuid for instance in together)
        present.add((number, uuids))
        calls.uuid = together[0].raw.reading.uuid
        means = gpm.read(driver, calls, handle, number, uuids)
        if means is not None:
            used |= dict.fromkeys(uuids, means if len(together) == 1 else _of_each(means))
    calls.uuid = instances[0].raw.reading.parent if instances else calls.uuid
    gpm.keep(driver, calls, present)
    return [
        _used(instance.raw, used[instance.raw.reading.uuid]) if instance.raw.reading.uuid in used else instance.raw
        for instance in instances
    ]


def _of_each(means: GpmMeans) -> GpmMeans:
    """Return what means of several instances together say of each: nothing, but that 0 is 0."""
    activity = means.activity
    return means._replace(
        utilization=None if means.utilization else means.utilization,
        activity=None if activity is None else Activity(*(None if part else part for part in activity)),
    )


def _used(raw: RawCard, means: GpmMeans) -> RawCard:
    """Return an instance with what its counters tell."""
    if means.utilization is not None:
        sample = UtilizationSample(means.start_ms, means.end_ms, means.utilization, means.utilization)
        raw = replace(raw, reading=replace(raw.reading, failed=False), samples=(sample,))
    return active(raw, means, means.activity)


def left_over(parent: DeviceMemory, instances: Iterable[CardReading]) -> DeviceMemory:
    """Return the memory of a parent that stands for its slices left over: what no instance has or uses.

    The driver counts the instances' memory into the parent's. Unknown if any instance's is.
    """
    used, limit = parent.used, parent.limit
    for instance in instances:
        if used is None or limit is None or instance.memory_used_bytes is None or instance.memory_limit_bytes is None:
            return DeviceMemory()
        used = max(0, used - instance.memory_used_bytes)
        limit = max(0, limit - instance.memory_limit_bytes)
    return DeviceMemory(used=used, limit=limit, reserved=parent.reserved)


def _outside(listing: Listing, instances: Iterable[Listing]) -> Listing:
    """Return those of a parent's processes that run on none of its instances."""
    inside = {process.pid for instance in instances for process in instance.processes}
    return replace(
        listing,
        processes=tuple(
            process for process in listing.processes if process.instance is None and process.pid not in inside
        ),
    )
