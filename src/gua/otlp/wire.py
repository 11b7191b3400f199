"""Protobuf wire fragments of the few OTLP messages that a tick is made of.

A tick has some 650 points that differ from the last tick's in time and value alone. Building a message
object for each costs several times what joining cached bytes does, so the fragments are written here.
Field numbers: opentelemetry/proto/{common,resource,metrics}/v1 of OTLP 1.x, written in ascending order so
that the bytes equal what protobuf itself would write (a test holds that).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from gua.core.plaintext import storable

Value = str | int | float | bool
Attribute = tuple[str, Value | None]


VALUE_BYTES = 8
_FIXED64_START = 0x11  # NumberDataPoint.start_time_unix_nano = 2
_FIXED64_TIME = 0x19  # NumberDataPoint.time_unix_nano = 3
AS_DOUBLE = b"\x21"  # NumberDataPoint.as_double = 4
AS_INT = b"\x31"  # NumberDataPoint.as_int = 6
_POINT_ATTRIBUTES = 0x3A  # NumberDataPoint.attributes = 7
RESOURCE_ATTRIBUTES = 0x0A  # Resource.attributes = 1

_time = struct.Struct("<BQ").pack
_start_and_time = struct.Struct("<BQBQ").pack
_double = struct.Struct("<cd").pack
_integer = struct.Struct("<cq").pack


_VARINTS = tuple(bytes((number,)) for number in range(0x80))


def varint(number: int) -> bytes:
    """Return a non-negative number as a base-128 varint."""
    if number < 0x80:
        return _VARINTS[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(tag: int, payload: bytes) -> bytes:
    """Return a length-delimited field; ``tag`` is the tag byte (field number x 8 + 2)."""
    return b"%c%b%b" % (tag, varint(len(payload)), payload)


def _any_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return struct.pack("<Bd", 0x21, value)
    return field(0x0A, value.encode())


def key_value(tag: int, key: str, value: Value) -> bytes:
    """Return one attribute as a field of its owner; text must be :func:`~gua.core.plaintext.storable`."""
    return field(tag, field(0x0A, key.encode()) + field(0x12, _any_value(value)))


@lru_cache(maxsize=1024)
def attributes(*pairs: Attribute) -> bytes:
    """Return a point's attributes as :func:`joined` does.

    Cached: hosts show the same cards tick after tick. One key always has one type, so that Python's
    ``1 == True`` cannot hand out the wrong fragment.
    """
    return joined(pairs)


def joined(pairs: Iterable[Attribute]) -> bytes:
    """Return a point's attributes in the order given; those that are ``None`` are left out."""
    return b"".join(
        key_value(_POINT_ATTRIBUTES, key, storable(value) if isinstance(value, str) else value)
        for key, value in pairs
        if value is not None
    )


def span(time_ns: int, start_ns: int | None) -> bytes:
    """Return what the points of one moment begin with: their start, if they have one, and their time."""
    if start_ns is None:
        return _time(_FIXED64_TIME, time_ns)
    return _start_and_time(_FIXED64_START, start_ns, _FIXED64_TIME, time_ns)


def point(value: float, span: bytes, attributes: bytes) -> bytes:
    """Return a NumberDataPoint as a field of its Gauge or Sum; an ``int`` is sent as such, also 0."""
    number = _integer(AS_INT, value) if isinstance(value, int) else _double(AS_DOUBLE, value)
    return point_head(len(span) + len(number) + len(attributes)) + span + number + attributes


def point_head(length: int) -> bytes:
    """Return what stands before a NumberDataPoint of so many bytes."""
    return b"\x0a" + varint(length)
