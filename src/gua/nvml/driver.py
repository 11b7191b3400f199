"""What gua asks of NVML, as a Protocol; ``pynvml`` (nvidia-ml-py) satisfies it, and so do the tests' drivers.

Function names are NVML's own, so that errors name what NVIDIA's reference documents:
https://docs.nvidia.com/deploy/nvml-api/
"""

# ruff: noqa: D102, N802, N803, N815 - names and meanings are NVML's own

from __future__ import annotations

import importlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, Protocol, cast

TOTAL_POWER_SAMPLES: Final = 0
GPU_UTILIZATION_SAMPLES: Final = 1
TEMPERATURE_GPU: Final = 0
ADDRESSING_MODE_ATS: Final = 2
GPM_GRAPHICS_UTILIZATION: Final = 1
GPM_SM_UTILIZATION: Final = 2
GPM_SM_OCCUPANCY: Final = 3
GPM_ANY_TENSOR_UTILIZATION: Final = 5
GPM_DRAM_BANDWIDTH_UTILIZATION: Final = 10
UNCORRECTED_ECC: Final = 1
ECC_SINCE_LOAD: Final = 0
XID_EVENTS: Final = 8


class Code(IntEnum):
    """What a call may return (``nvmlReturn_t``), without ``NVML_ERROR_``."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    ALREADY_INITIALIZED = 5
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


Handle = object
GpmSample = object
EventSet = object
Row = bytes
"""One C struct of a long answer; ctypes structures can be read as bytes, and so say no type checker."""


class PciInfo(Protocol):
    """``nvmlPciInfo_t``: ``busId`` is domain:bus:device.function."""

    busId: str


class Memory(Protocol):
    """``nvmlMemory_v2_t``, in bytes, ``used`` without ``reserved``; version 1 has no such field."""

    total: int
    used: int
    reserved: int


class Utilization(Protocol):
    """``nvmlUtilization_t``: percent of the last sampling period (1/6 to 1 s)."""

    gpu: int


class ProcessInfo(Protocol):
    """``nvmlProcessInfo_t``: memory in bytes and the MIG GPU instance, each all ones where there is none."""

    pid: int
    usedGpuMemory: int | None
    gpuInstanceId: int


class Attributes(Protocol):
    """``nvmlDeviceAttributes_t`` of a MIG device."""

    computeInstanceSliceCount: int


class ProfileInfo(Protocol):
    """``nvmlGpuInstanceProfileInfo_t``: the compute slices of an instance with this profile."""

    sliceCount: int


class EventData(Protocol):
    """``nvmlEventData_t``: of an XID event ``eventData`` is its number."""

    eventType: int
    eventData: int


class GpmSupport(Protocol):
    """``nvmlGpmSupport_t``: whether the chip has GPU performance monitoring (Hopper and newer)."""

    isSupportedDevice: int


class GpmMetric(Protocol):
    """``nvmlGpmMetric_t``: one answer, in percent for the metrics that are asked for here."""

    metricId: int
    nvmlReturn: int
    value: float


class GpmMetrics(Protocol):
    """``nvmlGpmMetricsGet_t``: two samples in, the first ``numMetrics`` of ``metrics`` filled."""

    version: int
    numMetrics: int
    sample1: object
    sample2: object

    @property
    def metrics(self) -> Sequence[GpmMetric]:
        """The request and the answer in one."""
        ...


class Driver(Protocol):
    """The NVML functions that gua calls; each raises ``NVMLError`` with the code in ``value``.

    Calls from several threads are safe: NVML promises it ("thread-safe" in its reference), ctypes releases
    the interpreter's lock for the time of a call, and nvidia-ml-py's own state is a cache of function
    pointers (dict operations) and a lock around loading the library. That lock is held while the library
    loads, so a load that hangs lets every function not called before hang with it.
    """

    NVMLError: type[Exception]
    nvmlMemory_v2: int

    def c_nvmlGpmMetricsGet_t(self) -> GpmMetrics: ...

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Handle: ...
    def nvmlDeviceGetUUID(self, handle: Handle, /) -> str: ...
    def nvmlDeviceGetName(self, handle: Handle, /) -> str: ...
    def nvmlDeviceGetPciInfo(self, handle: Handle, /) -> PciInfo: ...
    def nvmlDeviceGetMinorNumber(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetAddressingMode(self, device: Handle, /) -> int: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Handle, version: int | None = None, /) -> Memory: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Handle, /) -> Utilization: ...
    def nvmlDeviceGetEncoderUtilization(self, handle: Handle, /) -> Sequence[int]: ...
    def nvmlDeviceGetDecoderUtilization(self, handle: Handle, /) -> Sequence[int]: ...
    def nvmlDeviceGetSamples(self, device: Handle, kind: int, since_us: int, /) -> tuple[int, Sequence[Row]]: ...
    def nvmlDeviceGetPowerUsage(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetTemperature(self, handle: Handle, sensor: int, /) -> int: ...
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetMPSComputeRunningProcesses_v3(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetGraphicsRunningProcesses_v2(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetMPSComputeRunningProcesses_v2(self, handle: Handle, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetProcessUtilization(self, handle: Handle, since_us: int, /) -> Sequence[Row]: ...
    def nvmlDeviceGetMigMode(self, device: Handle, /) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Handle, /) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Handle, index: int, /) -> Handle: ...
    def nvmlDeviceGetAttributes_v2(self, device: Handle, /) -> Attributes: ...
    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: Handle, profile: int, version: int, /) -> ProfileInfo: ...
    def nvmlDeviceGetGpuInstanceId(self, device: Handle, /) -> int: ...
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Handle, /) -> int: ...
    def nvmlDeviceGetTotalEccErrors(self, handle: Handle, kind: int, counter: int, /) -> int: ...
    def nvmlDeviceGetRemappedRows(self, device: Handle, /) -> Sequence[int]: ...
    def nvmlEventSetCreate(self) -> EventSet: ...
    def nvmlEventSetFree(self, eventSet: EventSet, /) -> None: ...
    def nvmlEventSetWait_v2(self, eventSet: EventSet, timeoutms: int, /) -> EventData: ...
    def nvmlDeviceRegisterEvents(self, handle: Handle, eventTypes: int, eventSet: EventSet, /) -> None: ...
    def nvmlGpmQueryDeviceSupport(self, device: Handle, /) -> GpmSupport: ...
    def nvmlGpmSampleAlloc(self) -> GpmSample: ...
    def nvmlGpmSampleFree(self, gpmSample: GpmSample, /) -> None: ...
    def nvmlGpmSampleGet(self, device: Handle, gpmSample: GpmSample, /) -> GpmSample: ...
    def nvmlGpmMigSampleGet(self, device: Handle, gpuInstanceId: int, gpmSample: GpmSample, /) -> GpmSample: ...
    def nvmlGpmMetricsGet(self, metricsGet: GpmMetrics, /) -> GpmMetrics: ...


def load() -> Driver:
    """Return the real nvidia-ml-py. Importing it loads no driver; ``nvmlInit`` does."""
    return cast("Driver", importlib.import_module("pynvml"))


def code_of(error: Exception) -> int:
    """Return the NVML return code that an ``NVMLError`` carries."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else Code.UNKNOWN


def code_name(code: int) -> str:
    """Return the code's name without ``NVML_ERROR_``, or its number where the name is not known."""
    try:
        return Code(code).name
    except ValueError:
        return str(code)
