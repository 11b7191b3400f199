"""Origins of ticks that no agent of this host made: of a recording or a simulation."""

from __future__ import annotations

import os
from importlib.metadata import version

from gua.core.tick import Origin
from gua.core.words import Source
from gua.otlp.resource import origin


def origin_elsewhere(source: Source, host: str, interval_ms: int, *, instance_id: str) -> Origin:
    """Return the ticks' origin. A constant ``instance_id`` makes repeated imports idempotent."""
    return origin(
        source=source,
        interval_ms=interval_ms,
        environ=os.environ,
        host=host,
        instance_id=instance_id,
        service_version=version("gua-otel"),
    )
