"""How long something took or is ago, in two units at most."""

from __future__ import annotations

from gua.report.kit.figures import NONE


def span(seconds: float | None) -> str:
    """Return how long something took or is ago: ``4ms``, ``12s``, ``3h 12m``, ``2d 4h``; rounded down."""
    if seconds is None:
        return NONE
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    whole = int(seconds)
    for unit, unit_seconds, part, part_seconds in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= unit_seconds:
            rest = whole % unit_seconds // part_seconds
            return f"{whole // unit_seconds}{unit}" + (f" {rest}{part}" if rest else "")
    return f"{whole}s"
