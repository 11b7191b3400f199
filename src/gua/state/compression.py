"""The one compression of stored ticks: zstd level 3, as the spool writes and the landings read it."""

from __future__ import annotations

import sys
import threading
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


class _Kept(threading.local):
    """The compressor of each thread: making one costs as much as compressing a tick of a small host."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(options=_OPTIONS)


_kept: Final = _Kept()


def compress(raw: bytes) -> bytes:
    """Return ``raw`` as one zstd frame that names its content size and ends with a checksum of the content."""
    compressor = _kept.compressor
    if compressor.last_mode != compressor.FLUSH_FRAME:  # a frame was broken off, as where memory ran out
        compressor = _kept.compressor = zstd.ZstdCompressor(options=_OPTIONS)
    compressor.set_pledged_input_size(len(raw))
    return compressor.compress(raw, compressor.FLUSH_FRAME)


def decompress(blob: bytes) -> bytes:
    """Return the content of one or more zstd frames. Raises ``ValueError`` if they are damaged."""
    try:
        return zstd.decompress(blob)
    except zstd.ZstdError as error:
        msg = f"damaged zstd data of {len(blob)} bytes: {error}"
        raise ValueError(msg) from error


def is_intact(blob: bytes, raw_length: int) -> bool:
    """Return whether ``blob`` is one whole zstd frame of ``raw_length`` bytes; never makes more than those."""
    return content(blob, raw_length) is not None


def content(blob: bytes, raw_length: int) -> bytes | None:
    """Return the content of one whole zstd frame, ``None`` if that is not of ``raw_length`` bytes; never makes more."""
    reader = zstd.ZstdDecompressor()
    try:
        if zstd.get_frame_info(blob).decompressed_size != raw_length:
            return None
        raw = reader.decompress(blob, max_length=raw_length + 1)
        # A frame that was read just to its last byte still has its checksum to come.
        more = b"" if reader.eof else reader.decompress(b"", max_length=1)
    except (zstd.ZstdError, EOFError):
        return None
    return raw if reader.eof and len(raw) == raw_length and not more and not reader.unused_data else None
