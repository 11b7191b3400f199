"""What the imports of recordings have in common: their host, what a row stands for, and whose ticks they make."""

from __future__ import annotations

import os
from importlib.metadata import version

from gua.core.durations import parse_duration_ms
from gua.core.errors import UsageError
from gua.core.tick import Origin, Source
from gua.imports.survey import MAX_INTERVAL_MS
from gua.otlp.resource import origin


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


def import_origin(host: str, interval_ms: int) -> Origin:
    """Return who makes imported ticks: the same in every import, so that a second one changes nothing."""
    return origin(
        source=Source.IMPORT,
        interval_ms=interval_ms,
        environ=os.environ,
        host=host,
        instance_id="import",
        service_version=version("gua-otel"),
    )


def counted(number: int, noun: str) -> str:
    """Return ``1 row`` or ``2,000 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
