"""Compression of stored ticks: zstd level 3, written by the spool and read by the landings."""

import sys
from collections.abc import Mapping
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 3,
    # Four bytes per frame: otherwise a flipped bit may decompress to another tick of equal length.
    zstd.CompressionParameter.checksum_flag: 1,
}


def compress(raw: bytes) -> bytes:
    """Return ``raw`` as one zstd frame with its content size and a checksum."""
    return zstd.compress(raw, options=_OPTIONS)


def decompress(blob: bytes) -> bytes:
    """Return the content of one or more zstd frames. Raises ``ValueError`` if they are damaged."""
    try:
        return zstd.decompress(blob)
    except zstd.ZstdError as error:
        raise ValueError(f"damaged zstd data of {len(blob)} bytes: {error}") from error
