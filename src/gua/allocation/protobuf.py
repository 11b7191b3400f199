"""The fields of protobuf messages, as bytes: enough to read an answer of a few small messages.

https://protobuf.dev/programming-guides/encoding/. The classes of protobuf itself would cost the agent some MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_MOST_VARINT_BYTES: Final = 10
_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_FIXED32: Final = 5


def delimited(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the number and bytes of each length-delimited field: text, bytes, messages, packed numbers.

    Numbers and what else a field may be is left out. Raises ValueError where the message is damaged.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, place = _varint(message, place)
            continue
        if kind == _LENGTH_DELIMITED:
            length, place = _varint(message, place)
        elif kind in {_FIXED64, _FIXED32}:
            length = 8 if kind == _FIXED64 else 4
        else:
            msg = f"a field of wire type {kind}"
            raise ValueError(msg)
        end = place + length
        if end > len(message) or number == 0:
            msg = "a field that is cut off"
            raise ValueError(msg)
        if kind == _LENGTH_DELIMITED:
            yield number, message[place:end]
        place = end


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MOST_VARINT_BYTES):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, place
    msg = "a number that does not end"
    raise ValueError(msg)
