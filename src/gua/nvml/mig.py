"""Multi-Instance GPU: the instances of a partitioned card as cards, and the parent for the unallocated slices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gua.core.ports import Activity, RawCard, UtilizationSample
from gua.core.tick import CardReading
from gua.core.words import Mig, ProcessList
from gua.nvml.calls import ABSENT, Calls
from gua.nvml.card import CardCache, DeviceMemory, failed_since, read_memory
from gua.nvml.driver import Code, Handle
from gua.nvml.gpm import Gpm, GpmMeans, add_activity
from gua.nvml.processes import Listing, list_processes

# GPU instance profiles that span a whole card, largest first (8, 7, 6, 4 slices): nvmlDeviceGetGpuInstanceProfileInfo.
_WHOLE_CARD_PROFILES: Final = (5, 4, 6, 3)
_USUAL_SLICES: Final = 7
# Indexes to read if the driver does not report the largest number of instances; no card has more slices.
_MOST_INSTANCES: Final = 8
_NO_MIG: Final[dict[int, Sequence[int]]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND), (0, 0))
_VACANT: Final[Handle] = object()
_VACANT_INDEX: Final[dict[int, Handle]] = dict.fromkeys((Code.NOT_FOUND, Code.INVALID_ARGUMENT), _VACANT)
_NO_PROFILE: Final[dict[int, None]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT))
_FIRST_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Instance:
    """A MIG device as read, without its utilization; ``raw.gpu_fraction`` has its slices."""

    handle: Handle
    raw: RawCard
    listing: Listing

    @property
    def uuid(self) -> str:
        return self.raw.reading.uuid


def read_mode(calls: Calls, handle: Handle) -> Mig | None:
    """Return PARENT with MIG on, NONE with MIG off or not supported, ``None`` if the mode cannot be read."""
    answer = calls.call_with(_NO_MIG, calls.driver.nvmlDeviceGetMigMode, handle)
    if answer is None:
        return None
    return Mig.PARENT if answer[0] == 1 else Mig.NONE


def read_partitioned(
    calls: Calls, handle: Handle, cache: CardCache, parent: tuple[CardReading, DeviceMemory, Listing]
) -> list[RawCard]:
    """Return the parent, which stands for the unallocated slices, and its instances.

    ``parent`` is the card as read: its memory and its processes include those of its instances. An instance that cannot
    be read is unknown, with its last known fraction. The parent's processes and memory are then unknown too, because
    they may belong to that instance.
    """
    card, memory, listing = parent
    cache.samples.clear()
    handles, own, missing = _read_indexes(calls, handle)
    slices = max(_read_slices(calls, handle), sum(own.values()))
    own = {index: raw.gpu_fraction[0] for index, raw in cache.unread_at(missing).items()} | own
    allocated = sum(own.values())
    slices = max(slices, allocated)
    present: dict[int, _Instance] = {}
    for index, instance_handle in handles.items():
        instance = _read_instance(calls, card, instance_handle, (own[index], slices))
        if instance is not None:
            present[index] = instance
    missing |= handles.keys() - present.keys()
    uuids = {index: instance.uuid for index, instance in present.items()}
    unread = {
        index: replace(raw, gpu_fraction=(own[index], slices))
        for index, raw in cache.unread_at(missing).items()
        if raw.reading.uuid not in uuids.values()
    }
    cache.instance_uuids = uuids | {index: raw.reading.uuid for index, raw in unread.items()}
    ids = {  # each read once; ``None`` where the driver does not report it
        instance.uuid: cache.instance_ids[instance.uuid]
        if instance.uuid in cache.instance_ids
        else (
            calls.call_with(ABSENT, calls.driver.nvmlDeviceGetGpuInstanceId, instance.handle),
            calls.call_with(ABSENT, calls.driver.nvmlDeviceGetComputeInstanceId, instance.handle),
        )
        for instance in present.values()
    }
    cache.instance_ids = ids | {
        raw.reading.uuid: (raw.gpu_instance_id, raw.compute_instance_id) for raw in unread.values()
    }
    used = _read_use(calls, handle, cache.gpm, list(present.values()))
    instances = [
        *(
            replace(raw, minor=cache.minor, gpu_instance_id=gpu_id, compute_instance_id=compute_id)
            for raw in used
            for gpu_id, compute_id in [ids[raw.reading.uuid]]
        ),
        *unread.values(),
    ]
    memory = _rest(memory, (raw.reading for raw in instances))
    if missing:
        memory, listing = DeviceMemory(), replace(listing, process_list=ProcessList.FAILED)
    in_instances = {process.pid for instance in present.values() for process in instance.listing.processes}
    in_instances |= listing.instances.keys()
    return [
        RawCard(
            reading=replace(card, process_list=listing.process_list, **memory._asdict()),
            gpu_fraction=(slices - allocated, slices),
            processes=tuple(process for process in listing.processes if process.pid not in in_instances),
            minor=cache.minor,
        ),
        *instances,
    ]


def _read_indexes(calls: Calls, handle: Handle) -> tuple[dict[int, Handle], dict[int, int], set[int]]:
    """Return MIG devices by index, their compute slices by index, and the indexes that may have an unread device.

    An unread device is one whose slices could not be read, so its GPU time would be unknown.
    """
    handles: dict[int, Handle] = {}
    slices: dict[int, int] = {}
    unread: set[int] = set()
    count = calls.call(calls.driver.nvmlDeviceGetMaxMigDeviceCount, handle)
    for index in range(_MOST_INSTANCES if count is None else count):
        device = calls.call_with(_VACANT_INDEX, calls.driver.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if device is _VACANT:
            continue
        attributes = None if device is None else calls.call(calls.driver.nvmlDeviceGetAttributes_v2, device)
        if attributes is None:
            unread.add(index)
        else:
            # Compute instances of one GPU instance share gpuInstanceSliceCount, which would count it twice.
            handles[index], slices[index] = device, attributes.computeInstanceSliceCount
    return handles, slices, unread


def _read_slices(calls: Calls, handle: Handle) -> int:
    """Return the card's compute slices, from the largest profile that it offers (7; 4 on an A30); 7 if unknown."""
    for profile in _WHOLE_CARD_PROFILES:
        info = calls.call_with(
            _NO_PROFILE, calls.driver.nvmlDeviceGetGpuInstanceProfileInfo, handle, profile, _FIRST_VERSION
        )
        if info is not None and info.sliceCount > 0:
            return int(info.sliceCount)
    calls.note("nvmlDeviceGetGpuInstanceProfileInfo", f"no whole-card profile, {_USUAL_SLICES} slices assumed")
    return _USUAL_SLICES


def _read_instance(
    calls: Calls, parent: CardReading, handle: Handle, gpu_fraction: tuple[int, int]
) -> _Instance | None:
    """Return a MIG instance as a card, ``None`` if its UUID cannot be read.

    Utilization rates, samples and process utilization do not work in MIG mode; :func:`_read_use` adds GPM metrics.
    Power, temperature and energy are those of the whole card and stay with the parent.
    """
    uuid = calls.call(calls.driver.nvmlDeviceGetUUID, handle)
    if uuid is None:
        return None
    calls.uuid = uuid
    before = calls.answers
    memory = read_memory(calls, handle)
    listing = list_processes(calls, handle, parent.driver_version, limit_bytes=memory.memory_limit_bytes)
    failed = failed_since(calls, before)
    reading = replace(
        parent,
        uuid=uuid,
        mig=Mig.INSTANCE,
        parent=parent.uuid,
        name=calls.call(calls.driver.nvmlDeviceGetName, handle) or parent.name,
        power_watts=None,
        temperature_celsius=None,
        energy_total_mj=None,
        failed=failed,
        process_list=listing.process_list,
        **memory._asdict(),
    )
    calls.uuid = parent.uuid
    raw = RawCard(reading=reading, gpu_fraction=gpu_fraction, processes=listing.processes)
    return _Instance(handle=handle, raw=raw, listing=listing)


def _read_use(calls: Calls, handle: Handle, gpm: Gpm, instances: Sequence[_Instance]) -> list[RawCard]:
    """Return the instances of a card with the means of their performance counters since the last reading.

    Compute instances of one GPU instance share its counters. A mean of 0 holds for each of them; any other value is
    unknown for each.
    """
    if not gpm.supported(calls, handle):
        return [instance.raw for instance in instances]
    sharing: dict[int, list[_Instance]] = {}
    for instance in instances:
        calls.uuid = instance.uuid
        number = calls.call(calls.driver.nvmlDeviceGetGpuInstanceId, instance.handle)
        if number is not None:
            sharing.setdefault(number, []).append(instance)
    used: dict[str, GpmMeans] = {}
    present: set[tuple[int | None, frozenset[str]]] = set()
    for number, together in sharing.items():
        uuids = frozenset(instance.uuid for instance in together)
        present.add((number, uuids))
        calls.uuid = together[0].uuid
        means = gpm.read(calls, handle, number, uuids)
        if means is not None:
            used |= dict.fromkeys(uuids, means if len(together) == 1 else _shared_means(means))
    calls.uuid = instances[0].raw.reading.parent if instances else calls.uuid
    gpm.free_absent(calls, present)
    return [
        _used(instance.raw, used[instance.uuid]) if instance.uuid in used else instance.raw for instance in instances
    ]


def _shared_means(means: GpmMeans) -> GpmMeans:
    """Return the shared means as they hold for each of several instances: 0, else unknown."""
    activity = means.activity
    return means._replace(
        utilization=None if means.utilization else means.utilization,
        activity=None if activity is None else Activity(*(None if part else part for part in activity)),
    )


def _used(raw: RawCard, means: GpmMeans) -> RawCard:
    """Return an instance with the means of its counters."""
    if means.utilization is not None:
        sample = UtilizationSample(means.start_ms, means.end_ms, means.utilization, means.utilization)
        raw = replace(raw, reading=replace(raw.reading, failed=False), samples=(sample,))
    return add_activity(raw, means)


def _rest(parent: DeviceMemory, instances: Iterable[CardReading]) -> DeviceMemory:
    """Return a parent's memory without that of its instances, which the driver includes.

    Unknown if any instance's memory is unknown.
    """
    used, limit, reserved = parent
    for instance in instances:
        if used is None or limit is None or instance.memory_used_bytes is None or instance.memory_limit_bytes is None:
            return DeviceMemory()
        used = max(0, used - instance.memory_used_bytes)
        limit = max(0, limit - instance.memory_limit_bytes)
    return DeviceMemory(used, limit, reserved)
