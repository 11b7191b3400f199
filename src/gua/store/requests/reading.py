"""An OTLP request taken apart, where it is of the form that our encoder writes: what stands where in its bytes.

Only what ``gua.otlp.encode`` writes is read. A field that it does not write, or writes elsewhere, makes a request that
its points alone tell in full. Text stays bytes: a store keeps them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct, error
from typing import Final, NamedTuple

from gua.core import metrics
from gua.core.metrics import Metric, MetricKind

Value = bytes | int | float | bool
Attributes = Mapping[bytes, Value]

VALUE_BYTES: Final = 8
_METRICS: Final = {metric.name.encode(): metric for metric in metrics.CATALOGUE}
_SCOPES: Final = frozenset(scope.encode() for scope in metrics.SCOPES)
# Of ExportMetricsServiceRequest, ResourceMetrics, Resource, ScopeMetrics, Metric; of NumberDataPoint; of AnyValue.
_FIRST, _SECOND, _UNIT, _GAUGE, _SUM = 0x0A, 0x12, 0x1A, 0x2A, 0x3A
_START, _TIME, _AS_DOUBLE, _AS_INT, _ATTRIBUTE = 0x11, 0x19, 0x21, 0x31, 0x3A
_STRING, _BOOL, _INT, _DOUBLE = 0x0A, 0x10, 0x18, 0x21
_TYPES: Final[Mapping[bytes, type]] = {
    b"gua.sample.interval": float,
    b"gua.gpu.memory.shared": bool,
    **dict.fromkeys((b"gua.gpu.index", b"process.pid", b"process.user.id", b"gua.allocation.user.id"), int),
}
"""Attributes that are no text; views tell a value's type by the attribute's name, too."""
# What stands after the points: the temporality, and whether it only grows.
_ENDINGS: Final = {
    MetricKind.GAUGE: b"",
    MetricKind.DELTA: b"\x10\x01\x18\x01",
    MetricKind.COUNTER: b"\x10\x02\x18\x01",
    MetricKind.AMOUNT: b"\x10\x02",
}
_MOST_SHIFT: Final = 63
_double: Final = Struct("<d").unpack


class NotPlainError(Exception):
    """The request holds something that only its points tell in full."""


class Point(NamedTuple):
    """A point: ``span`` is its start, if it has one, its time and the tag of its value, which lies at ``place``."""

    metric: Metric
    span: bytes
    place: int
    is_integer: bool
    attributes: bytes


class OwnRequest(NamedTuple):
    """What is in a request: who sent it, and its points in order; attributes as :func:`attributes_of` reads them."""

    resource: bytes
    points: list[Point]


def read(raw: bytes) -> OwnRequest:
    """Return what is in a request. Raises NotPlainError where it is not of the form that our encoder writes."""
    try:
        return _request(raw)
    except (IndexError, ValueError, error):
        raise NotPlainError from None


def _request(raw: bytes) -> OwnRequest:
    ((tag, begin, end),) = _fields(raw, 0, len(raw))
    (of_resource, *resource), (of_scope, *scoped) = _fields(raw, begin, end)
    (of_name, *named), *found = _fields(raw, *scoped)
    ((of_text, *name),) = _fields(raw, *named)
    if (tag, of_resource, of_scope, of_name, of_text) != (_FIRST, _FIRST, _SECOND, _FIRST, _FIRST):
        raise NotPlainError
    if raw[slice(*name)] not in _SCOPES:
        raise NotPlainError
    points: list[Point] = []
    for tag, begin, end in found:
        if tag != _SECOND:
            raise NotPlainError
        points += _points(raw, begin, end)
    return OwnRequest(raw[slice(*resource)], points)


def _points(raw: bytes, begin: int, end: int) -> Iterator[Point]:
    (of_name, *name), (of_unit, *_), (tag, at, end) = _fields(raw, begin, end)
    metric = _METRICS.get(raw[slice(*name)])
    if metric is None or (of_name, of_unit) != (_FIRST, _UNIT):
        raise NotPlainError
    if tag != (_GAUGE if metric.kind is MetricKind.GAUGE else _SUM):
        raise NotPlainError
    while at < end and raw[at] == _FIRST:
        first, ends = _length(raw, at + 1, end)
        of_time = first + 1 + VALUE_BYTES if raw[first] == _START else first
        place = of_time + 2 + VALUE_BYTES
        of_value = raw[place - 1]
        at = place + VALUE_BYTES
        if raw[of_time] != _TIME or of_value not in (_AS_DOUBLE, _AS_INT) or at > ends:
            raise NotPlainError
        yield Point(metric, raw[first:place], place, of_value == _AS_INT, raw[at:ends])
        at = ends
    if raw[at:end] != _ENDINGS[metric.kind]:
        raise NotPlainError


def attributes_of(raw: bytes, *, resource: bool = False) -> Attributes:
    """Return the attributes of a point or a resource, each once. Raises NotPlainError."""
    try:
        return _attributes(raw, _FIRST if resource else _ATTRIBUTE)
    except (IndexError, ValueError, error):
        raise NotPlainError from None


@lru_cache(maxsize=4096)
def _attributes(raw: bytes, tag: int) -> Attributes:
    fields = _fields(raw, 0, len(raw))
    pairs = dict([_pair(raw[begin:end]) for _, begin, end in fields])
    if len(pairs) != len(fields) or any(found != tag for found, _, _ in fields):
        raise NotPlainError
    return pairs


@lru_cache(maxsize=4096)
def _pair(raw: bytes) -> tuple[bytes, Value]:
    (of_key, *place), (of_value, begin, end) = _fields(raw, 0, len(raw))
    key, value = raw[slice(*place)], _value(raw[begin:end])
    if (of_key, of_value) != (_FIRST, _SECOND) or type(value) is not _TYPES.get(key, bytes):
        raise NotPlainError
    return key, value


def _value(raw: bytes) -> Value:
    kind = raw[0]
    if kind == _STRING:
        ((_, begin, end),) = _fields(raw, 0, len(raw))
        return raw[begin:end]
    if kind == _DOUBLE:
        return float(*_double(raw[1:]))
    number, end = _varint(raw, 1)
    if end != len(raw) or kind not in (_BOOL, _INT) or (kind == _BOOL and number > 1):
        raise NotPlainError
    if kind == _BOOL:
        return bool(number)
    return number - (1 << 64) if number >> 63 else number


def _fields(raw: bytes, begin: int, end: int) -> list[tuple[int, int, int]]:
    """Return the fields of a message that has only such with a length: their tags, where they begin and end."""
    found = []
    while begin < end:
        first, ends = _length(raw, begin + 1, end)
        found.append((raw[begin], first, ends))
        begin = ends
    return found


def _length(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where what has a length begins and ends. Raises NotPlainError where that is beyond the end."""
    length, first = raw[at], at + 1
    if length & 0x80:
        length, first = _varint(raw, at)
    if first + length > end:
        raise NotPlainError
    return first, first + length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return a number of up to 64 bits and where it ends. Raises NotPlainError, IndexError."""
    number = shift = 0
    while raw[at] & 0x80:
        number |= (raw[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MOST_SHIFT:
            raise NotPlainError
    number |= raw[at] << shift
    if number >> 64:
        raise NotPlainError
    return number, at + 1
