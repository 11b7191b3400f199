"""How long something took or is ago, in two units at most."""

from __future__ import annotations

from typing import Final

_UNITS: Final = (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1))


def span(milliseconds: float) -> str:
    """Return a length of time rounded down: ``4ms``, ``12s``, ``3h 12m``, ``2d 4h``; below zero it is 0."""
    if 0 < milliseconds < 1000:
        return f"{int(milliseconds)}ms"
    whole = max(int(milliseconds // 1000), 0)
    for unit, unit_seconds, part, part_seconds in _UNITS:
        if whole >= unit_seconds:
            rest = whole % unit_seconds // part_seconds
            return f"{whole // unit_seconds}{unit}" + (f" {rest}{part}" if rest else "")
    return f"{whole}s"
