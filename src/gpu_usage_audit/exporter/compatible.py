"""A tick as the metrics of gpu-idle-exporter, name by name, so that dashboards and alerts made for it go on.

Their documented meaning (https://github.com/affinode/gpu-idle-exporter, README): a process of the compute list that
holds memory is idle once its SM utilization was 0 % in two polls in a row. What could not be read has no sample here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpu_usage_audit.core.idleness import Clock, Clocks
from gpu_usage_audit.core.tick import CardReading, Mig, ProcessList, ProcessReading, ProcessType, Tick
from gpu_usage_audit.exporter.families import Family, inside

UNNAMED: Final = "unknown"
"""The name of a process that cannot be read, as gpu-idle-exporter has it."""
CONSTANT: Final = {"NODE_NAME": "node", "POD_NAME": "pod", "POD_NAMESPACE": "namespace"}
"""Environment variables, and the labels that they become on all of these metrics: those of the exporter's own pod."""

_PROCESS: Final = {
    "gpu_idle_process_compute_utilization_percent": "GPU compute (SM) utilization of this process, 0 to 100.",
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

Made = dict[str, Family]


@dataclass(kw_only=True, slots=True)
class _Device:
    """A whole card: the idle memory on it and on its instances, ``None`` once a part of it is not known."""

    index: str
    idle_bytes: int | None = 0
    seen: set[tuple[int, str]] = field(default_factory=set)


def families(tick: Tick, clocks: Clocks, constant: Mapping[str, str]) -> list[Family]:
    """Return the families of a tick; ``clocks`` are those after it, ``constant`` further labels of every sample."""
    made = {name: Family(name, text) for name, text in (_PROCESS | _DEVICE | _TOTAL).items()}
    end = "".join(f",{one}" for one in [inside(constant.items())] if one) + "}"
    devices = {card.uuid: _Device(index=_index(card)) for card in tick.cards if card.mig is not Mig.INSTANCE}
    for card in tick.cards:
        if card.mig is not Mig.INSTANCE:
            parts = [card, *(one for one in tick.cards if one.parent == card.uuid and one.mig is Mig.INSTANCE)]
            _add_device(made, card, parts, end)
        device = devices.get(card.uuid if card.mig is not Mig.INSTANCE else card.parent or "")
        if device is not None:
            _add_processes(made, device, card, clocks, end)
    for device in devices.values():
        if device.idle_bytes is not None:
            made["gpu_idle_memory_total_bytes"].add(f"{{{inside([('gpu', device.index)])}{end}", device.idle_bytes)
    return list(made.values())


def _add_device(made: Made, card: CardReading, parts: Sequence[CardReading], end: str) -> None:
    """Add a whole card; of a partitioned one the memory is that of its ``parts`` together."""
    labels = "{" + inside([("gpu", _index(card)), ("model", card.name), ("uuid", card.uuid)]) + end
    values = (
        _percent(card.utilization),
        _sum([part.memory_used_bytes for part in parts]),
        _sum([part.memory_limit_bytes for part in parts]),
        card.power_watts,
        card.temperature_celsius,
    )
    for name, value in zip(_DEVICE, values, strict=True):
        if value is not None:
            made[name].add(labels, value)


def _add_processes(made: Made, device: _Device, card: CardReading, clocks: Clocks, end: str) -> None:
    if card.process_list is not ProcessList.KNOWN and not _is_empty_parent(card):
        device.idle_bytes = None
    for process in card.processes:
        named = process.comm or UNNAMED
        if process.type not in _LISTED or (process.pid, named) in device.seen:
            continue
        device.seen.add((process.pid, named))
        labels = "{" + inside([("gpu", device.index), ("pid", process.pid), ("process", named)]) + end
        idle_bytes = _add_process(made, process, clocks.get((card.uuid, process.pid, process.created_ms)), labels)
        device.idle_bytes = None if idle_bytes is None or device.idle_bytes is None else device.idle_bytes + idle_bytes


def _add_process(made: Made, process: ProcessReading, clock: Clock | None, labels: str) -> int | None:
    """Return the memory that the process holds idly, ``None`` where that is not known."""
    is_known = process.utilization is not None and clock is not None
    is_idle = clock is not None and clock.is_idle
    idle_bytes = None if not is_known else process.memory_bytes if is_idle else 0
    values = (
        _percent(process.utilization),
        process.memory_bytes,
        clock.zero_ms / 1000 if clock is not None and is_known else None,
        idle_bytes,
    )
    for name, value in zip(_PROCESS, values, strict=True):
        if value is not None:
            made[name].add(labels, value)
    return idle_bytes


def _is_empty_parent(card: CardReading) -> bool:
    """Return whether the processes stand on the card's instances."""
    return card.mig is Mig.PARENT and not card.processes


def _index(card: CardReading) -> str:
    """Return the label ``gpu``; a card that has no index now is told by its UUID, so that no two are one."""
    return card.uuid if card.index is None else str(card.index)


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(one for one in known if one is not None)


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(100 * ratio, 4)
