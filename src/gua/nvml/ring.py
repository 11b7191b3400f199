"""The driver's rings of samples: time stamps and values, of whatever type the driver gives them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Driver, Handle, Row

# nvidia-ml-py hands out ctypes structures that look up each field in Python code, 5,000 look-ups in half a minute with
# eight cards: they are read as the C structs that they are. By nvmlValueType_t: time stamp, then a union of 8 bytes.
# https://docs.nvidia.com/deploy/nvml-api/structnvmlSample__t.html
_LAYOUTS: Final = {
    kind: struct.Struct(layout) for kind, layout in enumerate(("@Qd", "@QI4x", "@QL", "@QQ", "@Qq", "@Qi4x", "@QH6x"))
}
_NO_SAMPLES: Final[dict[int, tuple[int, Sequence[Row]]]] = {Code.NOT_FOUND: (1, ()), Code.NOT_SUPPORTED: (1, ())}


def read_ring(driver: Driver, calls: Calls, handle: Handle, kind: int, since_us: int) -> list[tuple[int, float]] | None:
    """Return (time stamp, value) of each sample after ``since_us``, oldest first; ``None`` if that is unknown.

    An idle card may answer NOT_FOUND for minutes: no samples, no error.
    """
    answer = calls.ask_with(_NO_SAMPLES, driver.nvmlDeviceGetSamples, handle, kind, since_us)
    if answer is None:
        return None
    value_type, taken = answer
    rows = _samples(value_type, taken)
    if rows is None:
        calls.note("nvmlDeviceGetSamples", f"value type {value_type}")
    return rows


def _samples(kind: int, rows: Iterable[Row]) -> list[tuple[int, float]] | None:
    """Return (time stamp, value) of each ``nvmlSample_t``; ``None`` for an unknown type of value."""
    layout = _LAYOUTS.get(kind)
    return None if layout is None else sorted(layout.iter_unpack(b"".join(rows)))
