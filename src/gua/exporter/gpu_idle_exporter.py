"""Metrics of gpu-idle-exporter from a tick, under the same names, so that its dashboards and alerts keep working.

Definition (README of https://github.com/affinode/gpu-idle-exporter): a compute process with memory is idle once its SM
utilization was 0 % in two polls in a row. Differences: unknown values have no sample, and video codecs count as use.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from prometheus_client.core import Metric as Family

from gua.core.idleness import IdleCounter, IdleCounters
from gua.core.tick import CardReading, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType
from gua.exporter.catalogue import Labels, add, clean, labels_of, new_family

UNNAMED: Final = "unknown"
"""Label value for a process whose name cannot be read, as in gpu-idle-exporter."""

_PROCESS: Final = {
    "gpu_idle_process_compute_utilization_percent": "GPU utilization (SM or video codec) of this process, 0 to 100.",
    "gpu_idle_process_memory_used_bytes": "GPU memory held by this process.",
    "gpu_idle_process_idle_seconds": "For how long this process has been idle; 0 when active.",
    "gpu_idle_process_idle_memory_bytes": "GPU memory that this process holds while idle; 0 when active.",
}
_DEVICE: Final = {
    "gpu_idle_device_utilization_percent": "GPU compute utilization of the device, 0 to 100.",
    "gpu_idle_device_memory_used_bytes": "GPU memory in use on the device.",
    "gpu_idle_device_memory_total_bytes": "GPU memory of the device in total.",
    "gpu_idle_device_power_watts": "Power that the device draws.",
    "gpu_idle_device_temperature_celsius": "Temperature of the GPU core.",
}
_TOTAL: Final = {"gpu_idle_memory_total_bytes": "GPU memory held by all idle processes on the device."}
_LISTED: Final = (ProcessType.COMPUTE, ProcessType.MPS)

_WHICH_FAILED: Final = (False, None, True)

Made = dict[str, Family]
T = TypeVar("T", int, float)


class _Use(NamedTuple):
    """Values of a process on a card or on one of its MIG instances; ``None`` is unknown."""

    percent: float | None
    memory_bytes: int | None
    idle_seconds: float | None
    idle_bytes: int | None


def families(tick: Tick, clocks: IdleCounters, constant: Mapping[str, str]) -> list[Family]:
    """Return the families of a tick; ``clocks`` are the idle counters after it, ``constant`` labels of all samples."""
    made = {name: new_family(name, text) for name, text in (_PROCESS | _DEVICE | _TOTAL).items()}
    further = labels_of(constant.items())
    instances: defaultdict[str | None, list[CardReading]] = defaultdict(list)
    for card in tick.cards:
        if card.mig is Mig.INSTANCE:
            instances[card.parent].append(card)
    for gpu, card in _devices(tick.cards).items():
        parts = [card, *instances[card.uuid]]
        labels = {"gpu": gpu} | further
        _add_device(made, labels, card, parts)
        _add_processes(made, labels, parts, clocks)
    return list(made.values())


def _devices(cards: Iterable[CardReading]) -> dict[str, CardReading]:
    """Return each whole GPU by its unique label ``gpu``: the index, else the UUID.

    A GPU gets its UUID if it has no index or another GPU has the same one. The driver renumbers the remaining GPUs
    after a loss, so the lost one of two yields the index.
    """
    whole: dict[str, CardReading] = {}
    for card in cards:
        if card.mig is not Mig.INSTANCE:
            whole.setdefault(card.uuid, card)
    named: dict[str, CardReading] = {}
    for card in sorted(whole.values(), key=lambda card: _WHICH_FAILED.index(card.failed)):
        index = None if card.index is None else str(card.index)
        named.setdefault(clean(card.uuid) if index is None or index in named else index, card)
    return named


def _add_device(made: Made, of_gpu: Labels, card: CardReading, parts: Sequence[CardReading]) -> None:
    """Add the samples of a whole GPU; memory is the sum over its ``parts``, the GPU itself and its MIG instances."""
    labels = labels_of([("model", card.name), ("uuid", card.uuid)]) | of_gpu
    values = (
        _percent(card.utilization),
        _sum([part.memory_used_bytes for part in parts]),
        _sum([part.memory_limit_bytes for part in parts]),
        card.power_watts,
        card.temperature_celsius,
    )
    _add_known(made, _DEVICE, labels, values)


def _add_processes(made: Made, of_gpu: Labels, parts: Sequence[CardReading], clocks: IdleCounters) -> None:
    """Add each process on the parts of a GPU once, and the total memory [bytes] of idle processes."""
    uses: dict[tuple[int, str], _Use] = {}
    for part in parts:
        for process in part.processes:
            if process.type in _LISTED:
                use = _use(process, clocks.get((part.uuid, process.pid, process.created_ms)))
                key = process.pid, clean(process.comm or UNNAMED)
                uses[key] = _together(uses[key], use) if key in uses else use
    for (pid, comm), use in uses.items():
        labels = {"pid": str(pid), "process": comm} | of_gpu
        _add_known(made, _PROCESS, labels, use)
    if all(part.process_list is ProcessList.KNOWN for part in parts):
        _add_known(made, _TOTAL, of_gpu, [_sum([use.idle_bytes for use in uses.values()])])


def _add_known(made: Made, names: Iterable[str], labels: Labels, values: Iterable[float | None]) -> None:
    for name, value in zip(names, values, strict=True):
        if value is not None:
            add(made[name], labels, value)


def _use(process: ProcessReading, clock: IdleCounter | None) -> _Use:
    percent, memory_bytes = _percent(process.utilization), process.memory_bytes
    if percent is None or clock is None:
        return _Use(percent, memory_bytes, idle_seconds=None, idle_bytes=None)
    return _Use(percent, memory_bytes, clock.zero_ms / 1000, memory_bytes if clock.is_idle else 0)


def _together(one: _Use, other: _Use) -> _Use:
    """Return the combined values of a process on two instances of a GPU: idle only while idle on both.

    ``idle_bytes`` adds the memory on those instances on which the process is idle.
    """
    seconds = (one.idle_seconds, other.idle_seconds)
    return _Use(
        percent=_known(max, (one.percent, other.percent)),
        memory_bytes=_sum((one.memory_bytes, other.memory_bytes)),
        idle_seconds=0.0 if 0 in seconds else _known(min, seconds),  # active on one instance: the other is irrelevant
        idle_bytes=_sum((one.idle_bytes, other.idle_bytes)),
    )


def _known(of: Callable[[list[T]], T], values: Iterable[T | None]) -> T | None:
    """Return the function's result for the numbers, ``None`` if any of them is ``None``."""
    numbers = list(values)
    known = [number for number in numbers if number is not None]
    return of(known) if len(known) == len(numbers) else None


def _sum(numbers: Iterable[int | None]) -> int | None:
    return _known(sum, numbers)


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(100 * ratio, 4)
