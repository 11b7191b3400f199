# ruff: noqa: N801, N802, N815 - the names are NVML's own
"""A driver with cards of one's choice; every call can be made to fail with a code of NVML, or to hang."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from types import SimpleNamespace

from pynvml import c_nvmlProcessUtilizationSample_t, c_nvmlSample_t, c_nvmlValue_t

MIB = 2**20
GIB = 2**30
ALL_ONES_32 = 2**32 - 1
ALL_ONES_64 = 2**64 - 1
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
RING = 100


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
    memUtil: int = 0
    encUtil: int = 0
    decUtil: int = 0


@dataclass
class Card:
    """``hangs`` names calls that do not come back before their event is set; ``gpm`` is a counter in ms busy."""

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
    power_ring: list[tuple[int, int]] = field(default_factory=list)
    power_type: int = 1
    power_mw: int = 71_800
    celsius: int = 34
    energy_mj: int = 1_000_000
    minor: int | None = None
    mig: bool = False
    instances: list[Card | None] = field(default_factory=list)
    slices: int = 7
    gpu_instance: int = 0
    compute_instance: int = 0
    gpm_supported: bool = False
    gpm_percent: float = 0.0
    activity: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    activity_codes: Sequence[int] = (0, 0, 0, 0)
    reasons: int = 0
    ecc: int = 0
    rows: Sequence[int] = (0, 0, 0, 0)
    recovery: tuple[int, int, int] = (0, 0, 1)  # the action, its return code and its type
    xids: list[int] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    hangs: dict[str, threading.Event] = field(default_factory=dict)


@dataclass(frozen=True)
class Handle:
    """A card at an index, while the driver stays open; or a MIG instance."""

    opened: int
    index: int
    instance: int | None = None


class FakeDriver:
    NVMLError: type[Exception] = FakeNvmlError
    nvmlMemory_v2 = 33554472

    class c_nvmlGpmMetricsGet_t:
        def __init__(self) -> None:
            self.version = self.numMetrics = 0
            self.sample1: object = None
            self.sample2: object = None
            self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(5)]

    def __init__(self, *cards: Card, faults: dict[str, int] | None = None, version: str = "570.86.15") -> None:
        self.cards = list(cards)
        self.faults = faults or {}
        self.hangs: dict[str, threading.Event] = {}
        self.version = version
        self.open = 0
        self.opened = 0
        self.asked: list[tuple[str, int]] = []
        self.samples: list[SimpleNamespace] = []
        self.event_sets = 0

    def _card(self, call: str, handle: object) -> Card:
        assert isinstance(handle, Handle)
        if self.open != 1:
            raise FakeNvmlError(UNINITIALIZED)
        if handle.opened != self.opened or handle.index >= len(self.cards):
            raise FakeNvmlError(INVALID_ARGUMENT)
        card = self.cards[handle.index]
        if handle.instance is not None:
            instance = card.instances[handle.instance]
            assert instance is not None
            card = instance
        return self._faulty(call, card)

    def _faulty(self, call: str, card: Card) -> Card:
        if call in card.hangs:
            card.hangs[call].wait(30)
        if call in card.faults:
            raise FakeNvmlError(card.faults[call])
        return card

    def _host(self, call: str) -> None:
        if call in self.hangs:
            self.hangs[call].wait(30)
        if call in self.faults:
            raise FakeNvmlError(self.faults[call])

    def nvmlInit(self) -> None:
        self._host("nvmlInit")
        self.open += 1
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self._host("nvmlShutdown")
        assert self.open == 1
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._host("nvmlSystemGetDriverVersion")
        return self.version

    def nvmlDeviceGetCount(self) -> int:
        self._host("nvmlDeviceGetCount")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> object:
        self._card("nvmlDeviceGetHandleByIndex", Handle(self.opened, index))
        return Handle(self.opened, index)

    def nvmlDeviceGetUUID(self, handle: object, /) -> str:
        return self._card("nvmlDeviceGetUUID", handle).uuid

    def nvmlDeviceGetName(self, handle: object, /) -> str:
        return self._card("nvmlDeviceGetName", handle).name

    def nvmlDeviceGetPciInfo(self, handle: object, /) -> SimpleNamespace:
        self._card("nvmlDeviceGetPciInfo", handle)
        return SimpleNamespace(busId="00000000:3B:00.0")

    def nvmlDeviceGetMinorNumber(self, handle: object, /) -> int:
        card = self._card("nvmlDeviceGetMinorNumber", handle)
        assert isinstance(handle, Handle)
        return handle.index if card.minor is None else card.minor

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

    def nvmlDeviceGetSamples(self, device: object, kind: int, since_us: int, /) -> tuple[int, list[c_nvmlSample_t]]:
        if kind == 0:
            return self._power(device, since_us)
        assert kind == 1
        card = self._card("nvmlDeviceGetSamples", device)
        self.asked.append(("nvmlDeviceGetSamples", since_us))
        ring = [
            c_nvmlSample_t(time_us, c_nvmlValue_t(uiVal=percent))
            for time_us, percent in card.ring[-RING:]
            if time_us > since_us
        ]
        if not ring:
            raise FakeNvmlError(NOT_FOUND)
        return 1, ring

    def _power(self, device: object, since_us: int) -> tuple[int, list[c_nvmlSample_t]]:
        card = self._card("power samples", device)
        self.asked.append(("power samples", since_us))
        ring = [
            c_nvmlSample_t(time_us, c_nvmlValue_t(uiVal=milliwatts))
            for time_us, milliwatts in card.power_ring[-RING:]
            if time_us > since_us
        ]
        if not ring:
            raise FakeNvmlError(NOT_FOUND)
        return card.power_type, ring

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

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetComputeRunningProcesses_v2", handle).compute

    def nvmlDeviceGetGraphicsRunningProcesses_v2(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetGraphicsRunningProcesses_v2", handle).graphics

    def nvmlDeviceGetMPSComputeRunningProcesses_v2(self, handle: object, /) -> Sequence[Process]:
        return self._card("nvmlDeviceGetMPSComputeRunningProcesses_v2", handle).mps

    def nvmlDeviceGetProcessUtilization(
        self, handle: object, since_us: int, /
    ) -> Sequence[c_nvmlProcessUtilizationSample_t]:
        card = self._card("nvmlDeviceGetProcessUtilization", handle)
        self.asked.append(("nvmlDeviceGetProcessUtilization", since_us))
        uses = [c_nvmlProcessUtilizationSample_t(*astuple(use)) for use in card.uses if use.timeStamp > since_us]
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
        assert isinstance(device, Handle)
        if index >= len(instances) or instances[index] is None:
            raise FakeNvmlError(NOT_FOUND)
        return Handle(device.opened, device.index, index)

    def nvmlDeviceGetAttributes_v2(self, device: object, /) -> SimpleNamespace:
        return SimpleNamespace(computeInstanceSliceCount=self._card("nvmlDeviceGetAttributes_v2", device).slices)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: object, profile: int, version: int, /) -> SimpleNamespace:
        assert version == 1
        card = self._card("nvmlDeviceGetGpuInstanceProfileInfo", device)
        if {4: 7, 3: 4}.get(profile) != card.slices:
            raise FakeNvmlError(NOT_SUPPORTED)
        return SimpleNamespace(sliceCount=card.slices)

    def nvmlDeviceGetGpuInstanceId(self, device: object, /) -> int:
        return self._card("nvmlDeviceGetGpuInstanceId", device).gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, device: object, /) -> int:
        return self._card("nvmlDeviceGetComputeInstanceId", device).compute_instance

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object, /) -> int:
        return self._card("nvmlDeviceGetCurrentClocksEventReasons", handle).reasons

    def nvmlDeviceGetTotalEccErrors(self, handle: object, kind: int, counter: int, /) -> int:
        assert (kind, counter) == (1, 0)
        return self._card("nvmlDeviceGetTotalEccErrors", handle).ecc

    def nvmlDeviceGetRemappedRows(self, device: object, /) -> Sequence[int]:
        return self._card("nvmlDeviceGetRemappedRows", device).rows

    def nvmlDeviceGetFieldValues(self, device: object, fields: Sequence[int], /) -> Sequence[SimpleNamespace]:
        assert fields == [230]
        action, code, kind = self._card("nvmlDeviceGetFieldValues", device).recovery
        self.asked.append(("nvmlDeviceGetFieldValues", 0))
        return [SimpleNamespace(nvmlReturn=code, valueType=kind, value=SimpleNamespace(uiVal=action))]

    def nvmlEventSetCreate(self) -> SimpleNamespace:
        self._host("nvmlEventSetCreate")
        self.event_sets += 1
        return SimpleNamespace(card=None, open=True)

    def nvmlEventSetFree(self, events: SimpleNamespace, /) -> None:
        assert events.open
        events.open = False
        self.event_sets -= 1
        if events.card is not None:  # what waits in a set is gone with it
            events.card.xids.clear()

    def nvmlDeviceRegisterEvents(self, handle: object, kinds: int, events: SimpleNamespace, /) -> None:
        assert kinds == 8
        events.card = self._card("nvmlDeviceRegisterEvents", handle)

    def nvmlEventSetWait_v2(self, events: SimpleNamespace, timeout_ms: int, /) -> SimpleNamespace:
        assert events.open
        assert timeout_ms == 0
        card = self._faulty("nvmlEventSetWait_v2", events.card)
        self.asked.append(("nvmlEventSetWait_v2", 0))
        if not card.xids:
            raise FakeNvmlError(TIMEOUT)
        return SimpleNamespace(eventType=8, eventData=card.xids.pop(0))

    def nvmlGpmQueryDeviceSupport(self, device: object, /) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=int(self._card("nvmlGpmQueryDeviceSupport", device).gpm_supported))

    def nvmlGpmSampleAlloc(self) -> object:
        self._host("nvmlGpmSampleAlloc")
        self.samples.append(SimpleNamespace(card=None, percent=None, activity=()))
        return self.samples[-1]

    def nvmlGpmSampleFree(self, gpmSample: object, /) -> None:  # noqa: N803 - NVML's own name
        assert self.open == 1
        self.samples = [sample for sample in self.samples if sample is not gpmSample]

    def nvmlGpmMigSampleGet(self, device: object, instance: int, sample: SimpleNamespace, /) -> SimpleNamespace:
        card = self._card("nvmlGpmMigSampleGet", device)
        of_instance = [one for one in card.instances if one is not None and one.gpu_instance == instance]
        assert of_instance
        assert any(one is sample for one in self.samples)
        return self._sampled(self._faulty("nvmlGpmMigSampleGet", of_instance[0]), sample)

    def nvmlGpmSampleGet(self, device: object, sample: SimpleNamespace, /) -> SimpleNamespace:
        card = self._card("nvmlGpmSampleGet", device)
        assert not card.mig
        assert any(one is sample for one in self.samples)
        return self._sampled(card, sample)

    @staticmethod
    def _sampled(card: Card, sample: SimpleNamespace) -> SimpleNamespace:
        sample.card, sample.percent = card, card.gpm_percent
        sample.activity = tuple(zip(card.activity_codes, card.activity, strict=True))
        return sample

    def nvmlGpmMetricsGet(self, request: c_nvmlGpmMetricsGet_t, /) -> c_nvmlGpmMetricsGet_t:
        self._host("nvmlGpmMetricsGet")
        asked = [request.metrics[place].metricId for place in range(request.numMetrics)]
        assert (request.version, asked) in [(1, [1]), (1, [2, 3, 5, 10]), (1, [1, 2, 3, 5, 10])]
        before, after = request.sample1, request.sample2
        assert isinstance(before, SimpleNamespace)
        assert isinstance(after, SimpleNamespace)
        assert before is not after
        assert before.card.uuid == after.card.uuid
        self._faulty("nvmlGpmMetricsGet", after.card)
        # The utilization between two samples is that of the later one, which shows when each was taken.
        answers = dict(zip((1, 2, 3, 5, 10), ((0, after.percent), *after.activity), strict=True))
        for place, metric in enumerate(asked):
            code, value = answers[metric]
            request.metrics[place] = SimpleNamespace(metricId=metric, nvmlReturn=code, value=value)
        return request
