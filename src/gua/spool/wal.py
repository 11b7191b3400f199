"""SQLite's write-ahead log, read without SQLite: which committed pages it holds, however damaged.

https://www.sqlite.org/fileformat.html#the_write_ahead_log
SQLite itself stops at the first frame that is damaged and drops all that was committed after it, without an error.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gua.spool.schema import PAGE_BYTES

HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_FRAME_BYTES: Final = _FRAME_HEADER_BYTES + PAGE_BYTES
_MAGIC: Final = 0x377F0682  # the lowest bit tells that the checksums are big-endian
_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_MASK: Final = 0xFFFF_FFFF


@dataclass(frozen=True, kw_only=True, slots=True)
class _Frame:
    offset: int
    page: int
    commits: bool
    sums: tuple[int, int]
    seed: tuple[int, int]


def salts(descriptor: int) -> tuple[int, int] | None:
    """Return the two numbers that the frames of the log's present round carry, ``None`` if there are no frames."""
    header = os.pread(descriptor, HEADER_BYTES, 0)
    first = os.pread(descriptor, _FRAME_HEADER_BYTES, HEADER_BYTES)
    if len(header) < HEADER_BYTES or len(first) < _FRAME_HEADER_BYTES:
        return None
    fields = _HEADER.unpack(header)
    if _checksum(header[:24], (0, 0), big=bool(fields[0] & 1)) == fields[6:]:
        return fields[4], fields[5]
    # The header is damaged; the first frame is always of the present round.
    first_fields = _FRAME.unpack(first)
    return first_fields[2], first_fields[3]


def last_commit(descriptor: int) -> int:
    """Return the number of the last frame that ends a transaction, from 1, by the frames' headers alone; 0 if none."""
    numbered = enumerate(_frames(descriptor), start=1)
    return max((number for number, frame in numbered if frame and frame.commits), default=0)


def pages_after(descriptor: int, frames: int) -> Iterator[bytes]:
    """Yield the pages of the present round that stand after so many frames."""
    for number, frame in enumerate(_frames(descriptor), start=1):
        if frame and number > frames:
            page = os.pread(descriptor, PAGE_BYTES, frame.offset + _FRAME_HEADER_BYTES)
            if len(page) == PAGE_BYTES:
                yield page


def committed_pages(descriptor: int) -> tuple[dict[int, int], bool]:
    """Return where in the log the newest sound version of each committed page begins: page number to offset.

    Each frame is checked by itself, from the checksum stored with the frame before it; damaged ones are left out,
    and the second value tells whether there were any.
    """
    header = os.pread(descriptor, HEADER_BYTES, 0)
    big = len(header) == HEADER_BYTES and bool(header[3] & 1)
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    damaged = False
    for frame in _frames(descriptor):
        if frame is None:
            continue
        if not _is_sound(descriptor, frame, big=big):
            damaged = True
            continue
        pending[frame.page] = frame.offset + _FRAME_HEADER_BYTES
        if frame.commits:
            committed |= pending
            pending = {}
    return committed, damaged


def _frames(descriptor: int) -> Iterator[_Frame | None]:
    """Yield the frames of the present round in order, ``None`` for those that carry other salts.

    Another process may cut the log meanwhile: it ends there.
    """
    present = salts(descriptor)
    header = os.pread(descriptor, HEADER_BYTES, 0)
    if present is None or len(header) < HEADER_BYTES:
        return
    seed = _HEADER.unpack(header)[6:]
    for offset in range(HEADER_BYTES, os.fstat(descriptor).st_size - _FRAME_BYTES + 1, _FRAME_BYTES):
        frame_header = os.pread(descriptor, _FRAME_HEADER_BYTES, offset)
        if len(frame_header) < _FRAME_HEADER_BYTES:
            return
        fields = _FRAME.unpack(frame_header)
        sums = fields[4], fields[5]
        if fields[2:4] == present:
            yield _Frame(offset=offset, page=fields[0], commits=fields[1] != 0, sums=sums, seed=(seed[0], seed[1]))
        else:
            yield None
        seed = sums


def _is_sound(descriptor: int, frame: _Frame, *, big: bool) -> bool:
    try:
        data = os.pread(descriptor, _FRAME_BYTES, frame.offset)
    except OSError:
        return False
    if len(data) < _FRAME_BYTES or not frame.page:
        return False
    return _checksum(data[_FRAME_HEADER_BYTES:], _checksum(data[:8], frame.seed, big=big), big=big) == frame.sums


def _checksum(data: bytes, seed: tuple[int, int], *, big: bool) -> tuple[int, int]:
    first, second = seed
    words = struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
