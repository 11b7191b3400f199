"""Parse and format durations such as ``30s``, ``1.5h`` or ``7 days``; convert times to Unix ms and RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from gua.core.errors import UsageError

_MILLISECONDS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|seconds?|minutes?|hours?|days?|weeks?|[smhdw])", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT_MS = 100 * 366 * _MILLISECONDS["d"]


def parse_duration_ms(text: str) -> int:
    """Return a duration such as "30s", "1.5h", "2w", "1h30m" or "7 days" in whole milliseconds, rounded down.

    Raises :class:`UsageError` if the text cannot be parsed, or the duration is below 1 ms or above 100 years.
    """
    parts = list(_DURATION.finditer(text.strip()))
    if not parts or "".join(part.group(0) for part in parts) != text.strip():
        raise UsageError(f"{text!r} is not a duration: write a number and ms, s, m, h, d or w, as in 30s, 12h or 7d")
    units = ("ms" if part.group(2) == "ms" else part.group(2)[0] for part in parts)
    exact = sum(Decimal(part.group(1)) * _MILLISECONDS[unit] for part, unit in zip(parts, units, strict=True))
    if exact < 1:
        raise UsageError(f"the duration {text!r} is shorter than 1 ms: write a longer one, as in 30s")
    if exact > _LIMIT_MS:
        raise UsageError(f"the duration {text!r} is longer than 100 years: write a shorter one, as in 30d")
    return int(exact)


def format_duration(milliseconds: int) -> str:
    """Return a duration [ms] as one integer with the largest exact unit: ``30s``, ``5m``, ``1500ms``."""
    for unit in ("w", "d", "h", "m", "s"):
        if milliseconds and milliseconds % _MILLISECONDS[unit] == 0:
            return f"{milliseconds // _MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms"


def to_ms(moment: datetime) -> int:
    """Return an aware ``datetime`` as Unix time in whole milliseconds, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def to_rfc3339(unix_ms: int) -> str:
    """Return Unix time [ms] as RFC 3339 in UTC: ``2026-03-25T04:47:19.043Z``, without a fraction if it is 0."""
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{unix_ms % 1000:03d}Z" if unix_ms % 1000 else f"{text}Z"
