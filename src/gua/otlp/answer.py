"""What an endpoint answers: partial success, the reason of a refusal, how long to stay away.

The three messages have two fields each that matter here. Reading them by hand keeps protobuf, 5 MB of it, out of
an agent that sends over HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from gua.core.plaintext import safe

_MAX_REASON: Final = 200
_MAX_BYTES: Final = 4 * _MAX_REASON
_MAX_VARINT_BITS: Final = 63
_FIXED: Final = {1: 8, 5: 4}
_VARINT: Final = 0
_DELIMITED: Final = 2


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A request that was taken, but for ``rejected_points`` of its points; ``reason`` is what was said of it."""

    rejected_points: int = 0
    reason: str = ""


def taken(body: bytes) -> Acceptance:
    """Return what an ExportMetricsServiceResponse says; nothing was rejected if it is none."""
    try:
        partial = dict(_fields(body)).get(1, b"")
        if not isinstance(partial, bytes):
            return Acceptance()
        inner = dict(_fields(partial))
    except ValueError:
        return Acceptance()
    rejected, reason = inner.get(1, 0), inner.get(2, b"")
    return Acceptance(
        rejected if isinstance(rejected, int) and rejected.bit_length() <= _MAX_VARINT_BITS else 0, _line(reason)
    )


def reason(body: bytes, *, without: Callable[[str], str] = str) -> str:
    """Return the message of a ``google.rpc.Status``, or a short plain text; empty for anything else, as HTML.

    ``without`` takes out of the whole message what may not be repeated, before it is cut to its length.
    """
    try:
        return _line(dict(_fields(body)).get(2, b""), without)
    except ValueError:
        return "" if b"<" in body else _line(body, without)


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


def _line(said: bytes | int, without: Callable[[str], str] = str) -> str:
    """Return what was said in one line that a terminal can show."""
    return safe(without(said.decode(errors="replace"))[:_MAX_BYTES], _MAX_REASON) if isinstance(said, bytes) else ""


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield number and value of the varint and length-delimited fields; raises ValueError if this is no message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _DELIMITED:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(kind)
        if number == 0 or at + length > len(message):
            raise ValueError(number)
        if kind == _DELIMITED:
            yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the varint that begins at ``at``, and where the next thing begins."""
    number = 0
    for shift in range(0, 70, 7):
        if at + shift // 7 >= len(message):
            break
        byte = message[at + shift // 7]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + shift // 7 + 1
    raise ValueError(at)
