# ruff: noqa: N802, N815 - the names are NVML's own
"""A driver with cards of one's choice; every call can be made to fail with a code of NVML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

MIB = 2**20
GIB = 2**30
ALL_ONES_32 = 2**32 - 1
ALL_ONES_64 = 2**64 - 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16


class FakeNvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML {value}")
        self.value = value


@dataclass
class Process:
    pid: int
    usedGpuMemory: int | None = 512 * MIB
    gpuInstanceId: int = ALL_ONES_32


@dataclass
class Use:
    pid: int
    timeStamp: int
    smUtil: int


@dataclass
class Card:
    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    total: int = 80 * GIB
    used: int = 600 * MIB
    reserved: int = 600 * MIB
    gpu: int = 0
    encoder: int = 0
    decoder: int = 0
    compute: list[Process] = field(default_factory=list)
    graphics: list[Process] = field(default_factory=list)
    mps: list[Process] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    ring: list[tuple[int, int]] = field(default_factory=list)
    power_mw: int = 71_800
    celsius: int = 34
    energy_mj: int = 1_000_000
    mig: bool = False
    instances: list[Card | None] = field(default_factory=list)
    slices: int = 7
    faults: dict[str, int] = field(default_factory=dict)


class FakeDriver:
    NVMLError: type[Exception] = FakeNvmlError
    nvmlMemory_v2 = 33554472

    def __init__(self, *cards: Card, faults: dict[str, int] | None = None) -> None:
        self.cards = list(cards)
        self.faults = faults or {}
        self.open = 0
        self.asked: list[tuple[str, int]] = []

    def _card(self, call: str, handle: object) -> Card:
        assert self.open == 1, f"{call} on a driver that is not open"
        assert isinstance(handle, Card)
        if call in handle.faults:
            raise FakeNvmlError(handle.faults[call])
        return handle

    def _host(self, call: str) -> None:
        if call in self.faults:
            raise FakeNvmlError(self.faults[call])

    def nvmlInit(self) -> None:
        self._host("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self._host("nvmlShutdown")
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._host("nvmlSystemGetDriverVersion")
        return "570.86.15"

    def nvmlDeviceGetCount(self) -> int:
        self._host("nvmlDeviceGetCount")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> object:
        return self._card("nvmlDeviceGetHandleByIndex", self.cards[index])

    def nvmlDeviceGetUUID(self, handle: object, /) -> str:
        return self._card("nvmlDeviceGetUUID", handle).uuid

    def nvmlDeviceGetName(self, handle: object, /) -> str:
        return self._card("nvmlDeviceGetName", handle).name

    def nvmlDeviceGetPciInfo(self, handle: object, /) -> SimpleNamespace:
        self._card("nvmlDeviceGetPciInfo", handle)
        return SimpleNamespace(busId="00000000:3B:00.0")

    def nvmlDeviceGetAddressingMode(self, device: object, /) -> int:
        self._card("nvmlDeviceGetAddressingMode", device)
        return 1

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None, /) -> SimpleNamespace:
        if version is None:
            card = self._card("nvmlDeviceGetMemoryInfo", handle)
            return SimpleNamespace(total=card.total, used=card.used + card.reserved)
        card = self._card("nvmlDeviceGetMemoryInfo_v2", handle)
        return SimpleNamespace(total=card.total, used=card.used, reserved=card.reserved)

    def nvmlDeviceGetUtilizationRates(self, handle: object, /) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._card("nvmlDeviceGetUtilizationRates", handle).gpu)

    def nvmlDeviceGetEncoderUtilization(self, handle: object, /) -> Sequence[int]:
        return [self._card("nvmlDeviceGetEncoderUtilization", handle).encoder, 167_000]

    def nvmlDeviceGetDecoderUtilization(self, handle: object, /) -> Sequence[int]:
        return [self._card("nvmlDeviceGetDecoderUtilization", handle).decoder, 167_000]

    def nvmlDeviceGetSamples(self, device: object, kind: int, since_us: int, /) -> tuple[int, list[SimpleNamespace]]:
        assert kind == 1
        card = self._card("nvmlDeviceGetSamples", device)
        self.asked.append(("nvmlDeviceGetSamples", since_us))
        ring = [
            SimpleNamespace(timeStamp=time_us, sampleValue=SimpleNamespace(uiVal=percent))
            for time_us, percent in card.ring
            if time_us > since_us
        ]
        if not ring:
            raise FakeNvmlError(NOT_FOUND)
        return 1, ring

    def nvmlDeviceGetPowerUsage(self, handle: object, /) -> int:
        return self._card("nvmlDeviceGetPowerUsage", handle).power_mw

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int, /) -> int:
        assert sensor == 0
        return self._card("nvmlDeviceGetTemperature", handle).celsius

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object, /) -> int:
        return self._card("nvmlDeviceGetTotalEnergyConsumption", handle).energy_mj

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetComputeRunningProcesses_v3", handle).compute

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetGraphicsRunningProcesses_v3", handle).graphics

    def nvmlDeviceGetMPSComputeRunningProcesses_v3(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetMPSComputeRunningProcesses_v3", handle).mps

    def nvmlDeviceGetProcessUtilization(self, handle: object, since_us: int, /) -> Sequence[Use]:
        card = self._card("nvmlDeviceGetProcessUtilization", handle)
        self.asked.append(("nvmlDeviceGetProcessUtilization", since_us))
        uses = [use for use in card.uses if use.timeStamp > since_us]
        if not uses:
            raise FakeNvmlError(NOT_FOUND)
        return uses

    def nvmlDeviceGetMigMode(self, device: object, /) -> Sequence[int]:
        mig = int(self._card("nvmlDeviceGetMigMode", device).mig)
        return [mig, mig]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: object, /) -> int:
        return self._card("nvmlDeviceGetMaxMigDeviceCount", device).slices

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: object, index: int, /) -> object:
        instances = self._card("nvmlDeviceGetMigDeviceHandleByIndex", device).instances
        instance = instances[index] if index < len(instances) else None
        if instance is None:
            raise FakeNvmlError(NOT_FOUND)
        return instance

    def nvmlDeviceGetAttributes_v2(self, device: object, /) -> SimpleNamespace:
        return SimpleNamespace(computeInstanceSliceCount=self._card("nvmlDeviceGetAttributes_v2", device).slices)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: object, profile: int, version: int, /) -> SimpleNamespace:
        assert version == 1
        card = self._card("nvmlDeviceGetGpuInstanceProfileInfo", device)
        if {4: 7, 3: 4}.get(profile) != card.slices:
            raise FakeNvmlError(NOT_SUPPORTED)
        return SimpleNamespace(sliceCount=card.slices)
