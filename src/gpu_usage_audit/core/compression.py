"""The one compression of stored ticks: zstd level 3, as the spool writes and the landings read it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3


def compress(raw: bytes) -> bytes:
    """Return ``raw`` as one zstd frame that names its content size."""
    return zstd.compress(raw, level=_LEVEL)


def decompress(blob: bytes) -> bytes:
    """Return the content of one or more zstd frames. Raises ``ValueError`` if they are damaged."""
    try:
        return zstd.decompress(blob)
    except zstd.ZstdError as error:
        msg = f"damaged zstd data of {len(blob)} bytes: {error}"
        raise ValueError(msg) from error
