"""The one compression of stored ticks: zstd level 3, as the spool writes and the landings read it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 3,
    # Four bytes a frame: without them a flipped byte may well decompress to another tick of the same length.
    zstd.CompressionParameter.checksum_flag: 1,
}


def compress(raw: bytes) -> bytes:
    """Return ``raw`` as one zstd frame that names its content size and ends with a checksum of the content."""
    return zstd.compress(raw, options=_OPTIONS)


def decompress(blob: bytes) -> bytes:
    """Return the content of one or more zstd frames. Raises ``ValueError`` if they are damaged."""
    try:
        return zstd.decompress(blob)
    except zstd.ZstdError as error:
        msg = f"damaged zstd data of {len(blob)} bytes: {error}"
        raise ValueError(msg) from error
