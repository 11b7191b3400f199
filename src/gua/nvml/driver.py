"""NVML through nvidia-ml-py: constants, return codes and type aliases.

Functions have NVML's own names, so that errors match NVIDIA's reference: https://docs.nvidia.com/deploy/nvml-api/
"""

import importlib
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias

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
RECOVERY_ACTION: Final = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, which nvidia-ml-py names since 12.570
UNSIGNED_INT: Final = 1


class Code(IntEnum):
    """NVML return codes that this package handles (``nvmlReturn_t``), without ``NVML_ERROR_``."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    ARGUMENT_VERSION_MISMATCH = 25
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


Handle = object
GpmSample = object
EventSet = object
Row = bytes
"""One C struct of an array; typed as bytes, because ctypes structures support the buffer protocol."""
Struct: TypeAlias = Any
"""One C struct with NVML's field names. Memory is in bytes, utilization in percent."""
Driver: TypeAlias = Any
"""``pynvml`` (nvidia-ml-py), which has no types; or a test's driver.

Each function raises ``NVMLError`` with the code in ``value``. Calls from several threads are safe: NVML documents
thread safety, and ctypes releases the GIL during a call. nvidia-ml-py's only state is a cache of function pointers and
a lock around loading the library. If loading hangs, that lock blocks every function that was not called before.
"""


def load() -> Driver:
    """Return the nvidia-ml-py module. Importing it loads no driver; ``nvmlInit`` does."""
    return importlib.import_module("pynvml")


def error_code(error: Exception) -> int:
    """Return the NVML return code of an ``NVMLError``, UNKNOWN if it has none."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else Code.UNKNOWN


@lru_cache(maxsize=256)
def code_name(code: int) -> str:
    """Return the code's name without ``NVML_ERROR_``, or its number if nvidia-ml-py has no name for it."""
    prefix = "NVML_ERROR_"
    names = {value: name.removeprefix(prefix) for name, value in vars(load()).items() if name.startswith(prefix)}
    return names.get(code, str(code))
