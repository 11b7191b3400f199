"""Allocation sources and whether they were readable; queried for every report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.report.kit.fields import filled
from gua.report.model import ReportedSource
from gua.report.states import MS_PER_HOUR

_NEWEST_MS: Final = 15 * 60_000


class SourceRow(NamedTuple):
    """How long [ms] a source on a host was readable or not; ``reason`` is the latest failure. Times are Unix ms."""

    host: str
    source: str
    ok_ms: Count
    failed_ms: Count
    reason: str | None
    last_ms: Moment
    last_failed_ms: Moment | None


SOURCES: Final = View("allocation_sources", SourceRow, READ)


def newest_sources(reader: ViewReader, now_ms: int, hosts: Sequence[str] = ()) -> tuple[ReportedSource, ...]:
    """Return the sources read in the 15 minutes before ``now_ms`` (Unix ms), from ticks instead of hourly rollups."""
    since_ms = now_ms - _NEWEST_MS
    hours = sorted({since_ms // MS_PER_HOUR, now_ms // MS_PER_HOUR})
    bounds = {"since_ms": since_ms, "until_ms": now_ms, "hosts": list(hosts)}
    return sources_of(SOURCES.rows(reader, {**bounds, "tick_hours": hours, "use_hourly": 0}))


def sources_of(rows: Iterable[SourceRow]) -> tuple[ReportedSource, ...]:
    """Return the sources by host and name; ``ok`` is false where the newest reading failed."""
    return tuple(
        filled(ReportedSource, row, ok=row.last_failed_ms is None or row.last_failed_ms < row.last_ms)
        for row in sorted(rows, key=lambda row: (row.host, row.source))
    )
