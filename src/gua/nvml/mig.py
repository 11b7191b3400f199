"""Multi-Instance GPU: which instances a card is cut into, and how large a part of it each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.words import Mig
from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Driver, Handle

# nvmlDeviceGetGpuInstanceProfileInfo: the profiles that span a whole card, largest first (8, 7, 6, 4 slices).
_WHOLE_CARD_PROFILES: Final = (5, 4, 6, 3)
_USUAL_SLICES: Final = 7
# So many are looked for where the driver does not tell how many there may be; no card has more slices.
_MOST_INSTANCES: Final = 8
_NO_MIG: Final[dict[int, Sequence[int]]] = dict.fromkeys((Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND), (0, 0))
_NOBODY: Final[Handle] = object()
_FIRST_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """One MIG device, at an index of its card; ``slices`` of the card's compute slices are its own."""

    index: int
    handle: Handle
    slices: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """How a card with MIG switched on is cut up: its compute slices, and the instances that own some.

    At the indexes ``unread`` there is or may be an instance, too, of which not even its size could be read.
    """

    slices: int
    instances: tuple[Instance, ...]
    unread: frozenset[int]

    @property
    def allocated(self) -> int:
        """Return the slices that instances own, as far as that is known."""
        return sum(instance.slices for instance in self.instances)


def read_mode(driver: Driver, calls: Calls, handle: Handle) -> Mig | None:
    """Return PARENT where MIG is on, NONE where it is off or the card has none, ``None`` if that cannot be read."""
    answer = calls.ask_with(_NO_MIG, driver.nvmlDeviceGetMigMode, handle)
    if answer is None:
        return None
    return Mig.PARENT if answer[0] == 1 else Mig.NONE


def read_partition(driver: Driver, calls: Calls, handle: Handle) -> Partition:
    """Return the parent's instances and slices.

    An instance whose slices cannot be read is left out, as its GPU time could not be told; the error says so.
    """
    instances: list[Instance] = []
    unread: set[int] = set()
    count = calls.ask(driver.nvmlDeviceGetMaxMigDeviceCount, handle)
    for index in range(_MOST_INSTANCES if count is None else count):
        instance = calls.ask_with(
            {Code.NOT_FOUND: _NOBODY, Code.INVALID_ARGUMENT: _NOBODY},
            driver.nvmlDeviceGetMigDeviceHandleByIndex,
            handle,
            index,
        )
        if instance is _NOBODY:
            continue
        attributes = None if instance is None else calls.ask(driver.nvmlDeviceGetAttributes_v2, instance)
        if attributes is None:
            unread.add(index)
        else:
            # Not gpuInstanceSliceCount: compute instances of one GPU instance share that, and would count it twice.
            slices = attributes.computeInstanceSliceCount
            instances.append(Instance(index=index, handle=instance, slices=slices))
    allocated = sum(instance.slices for instance in instances)
    return Partition(
        slices=max(_slices(driver, calls, handle), allocated), instances=tuple(instances), unread=frozenset(unread)
    )


def _slices(driver: Driver, calls: Calls, handle: Handle) -> int:
    """Return the card's compute slices: those of the largest profile that it offers (7, on an A30 4)."""
    for profile in _WHOLE_CARD_PROFILES:
        info = calls.ask_with(
            {Code.NOT_SUPPORTED: None, Code.INVALID_ARGUMENT: None},
            driver.nvmlDeviceGetGpuInstanceProfileInfo,
            handle,
            profile,
            _FIRST_VERSION,
        )
        if info is not None and info.sliceCount > 0:
            return info.sliceCount
    calls.note("nvmlDeviceGetGpuInstanceProfileInfo", f"no whole-card profile, {_USUAL_SLICES} slices assumed")
    return _USUAL_SLICES
