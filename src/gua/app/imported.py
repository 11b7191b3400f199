"""What the imports of recordings have in common: their host, and what a row stands for."""

from __future__ import annotations

from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError
from gua.imports.survey import MAX_INTERVAL_MS


def check_host(host: str | None) -> None:
    """Raise UsageError for a host that has no name."""
    if host is not None and not (host.strip() and host.isprintable()):
        msg = "--host is empty or holds control characters: give the name of the cards' host"
        raise UsageError(msg)


def row_interval_ms(text: str | None) -> int | None:
    """Return what a row stands for, in ms, ``None`` where nobody says. Raises UsageError."""
    if text is None:
        return None
    interval_ms = parse_duration_ms(text)
    if interval_ms > MAX_INTERVAL_MS:
        msg = f"--interval {text!r} is longer than a day: give what one row stands for, as in 30s"
        raise UsageError(msg)
    return interval_ms
