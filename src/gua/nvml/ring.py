"""The driver's rings of samples: time stamps and values, of whatever type the driver gives them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import sub
from typing import Final, NamedTuple

from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Driver, Handle, Row

# nvidia-ml-py hands out ctypes structures that look up each field in Python code, 5,000 look-ups in half a minute with
# eight cards: they are read as the C structs that they are. By nvmlValueType_t: time stamp, then a union of 8 bytes.
# https://docs.nvidia.com/deploy/nvml-api/structnvmlSample__t.html
_LAYOUTS: Final = ("Qd", "QI4x", "QL", "QQ", "Qq", "Qi4x", "QH6x")
LEISURE_MS: Final = 7_000
"""With drains 5 s apart every other one is due after so long, and there is room left for one that comes late."""
LEISURELY_REACH_US: Final = 16_000_000
"""A ring of samples that reaches back so far is read at every other drain."""
_NO_SAMPLES: Final[dict[int, tuple[int, Sequence[Row]]]] = {Code.NOT_FOUND: (1, ()), Code.NOT_SUPPORTED: (1, ())}


class Ring(NamedTuple):
    """Samples as columns, oldest first: time stamps of the driver's clock [us], and values.

    ``apart_us`` is how far each but the first is from the one before it, ``lengths_us`` the same by size.
    """

    stamps_us: Sequence[int]
    values: Sequence[float]
    apart_us: list[int]
    lengths_us: list[int]

    @classmethod
    def of(cls, stamps_us: Sequence[int], values: Sequence[float]) -> Ring:
        """Return samples with what lies between them, in whatever order they come."""
        apart_us = list(map(sub, stamps_us[1:], stamps_us))
        lengths_us = sorted(apart_us)
        if lengths_us and lengths_us[0] < 0:
            stamps_us, values = zip(*sorted(zip(stamps_us, values, strict=True)), strict=True)
            return cls.of(stamps_us, values)
        return cls(stamps_us, values, apart_us, lengths_us)


def read_ring(driver: Driver, calls: Calls, handle: Handle, kind: int, since_us: int) -> Ring | None:
    """Return the samples after ``since_us``; ``None`` if that is unknown.

    An idle card may answer NOT_FOUND for minutes: no samples, no error.
    """
    answer = calls.ask_with(_NO_SAMPLES, driver.nvmlDeviceGetSamples, handle, kind, since_us)
    if answer is None:
        return None
    value_type, taken = answer
    if not 0 <= value_type < len(_LAYOUTS):
        calls.note("nvmlDeviceGetSamples", f"value type {value_type}")
        return None
    flat = _layout(value_type, len(taken)).unpack(b"".join(taken))
    return Ring.of(flat[::2], flat[1::2])


@lru_cache(maxsize=256)
def _layout(kind: int, count: int) -> struct.Struct:
    return struct.Struct("@" + _LAYOUTS[kind] * count)
