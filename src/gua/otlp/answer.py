"""Parsing of an endpoint's response: partial success, rejection reason, retry delay."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from gua.core.plaintext import safe

_MAX_REASON: Final = 200
_MAX_CHARACTERS: Final = 4 * _MAX_REASON


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An accepted request, except ``rejected_points`` of its points; ``reason`` is the endpoint's message."""

    rejected_points: int = 0
    reason: str = ""


def parse_acceptance(body: bytes) -> Acceptance:
    """Return the partial success of an ExportMetricsServiceResponse; an empty Acceptance for any other body."""
    try:
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return Acceptance()
    return Acceptance(max(partial.rejected_data_points, 0), _line(partial.error_message))


def parse_reason(body: bytes, *, without: Callable[[str], str] = str) -> str:
    """Return the message of a ``google.rpc.Status``, or a short plain text; empty for anything else, such as HTML.

    ``without`` removes secrets from the whole message before it is cut to 200 characters.
    """
    try:
        return _line(without(Status.FromString(body).message))
    except DecodeError:
        return "" if b"<" in body else _line(without(body.decode(errors="replace")))


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date (RFC 9110, 10.2.3). ``None`` if unusable."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


def _line(message: str) -> str:
    """Return the message as one line that is safe to print on a terminal."""
    return safe(message[:_MAX_CHARACTERS], _MAX_REASON)
