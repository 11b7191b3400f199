"""The rows of the driver's long answers, read as the C structs that they are.

nvidia-ml-py hands them out as ctypes structures that look up each field in Python code; with eight cards that
is 5,000 look-ups in half a minute. The layouts are NVML's binary interface
(https://docs.nvidia.com/deploy/nvml-api/structnvmlSample__t.html, structnvmlProcessUtilizationSample__t.html).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

Row = bytes
"""One C struct; ctypes structures can be read as bytes, and so say no type checker."""

# By nvmlValueType_t: time stamp, then a union of 8 bytes.
_SAMPLES: Final = {
    0: struct.Struct("@Qd"),
    1: struct.Struct("@QI4x"),
    2: struct.Struct("@QL"),
    3: struct.Struct("@QQ"),
    4: struct.Struct("@Qq"),
    5: struct.Struct("@Qi4x"),
    6: struct.Struct("@QH6x"),
}
_USES: Final = struct.Struct("@IQI4xII")


def samples(kind: int, rows: Iterable[Row]) -> list[tuple[int, float]] | None:
    """Return (time stamp, value) of each ``nvmlSample_t``, oldest first; ``None`` for an unknown type of value."""
    layout = _SAMPLES.get(kind)
    return None if layout is None else sorted(layout.iter_unpack(b"".join(rows)))


def uses(rows: Sequence[Row]) -> list[tuple[int, int, int, int, int]]:
    """Return (pid, time stamp, percents of multiprocessors, encoder, decoder) of ``nvmlProcessUtilizationSample_t``.

    Its fourth percentage, of the memory interface, is left out: memory is busy where one of the others is.
    """
    return list(_USES.iter_unpack(b"".join(rows)))
