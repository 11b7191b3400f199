"""The queries of a report of one window, to a reader of a test."""

from __future__ import annotations

from gua.core.ports import ViewReader
from gua.report.context import ReportContext
from gua.report.hours import Parts
from gua.report.model import Window
from gua.report.prices import Prices
from gua.report.window import ReportRequest


def report_context(reader: ViewReader, window: Window, parts: Parts = ()) -> ReportContext:
    """Return the queries of a window without hours, hosts, labels and prices."""
    bounds: dict[str, object] = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": []}
    return ReportContext(
        reader=reader,
        request=ReportRequest(now_ms=window.until_ms),
        window=window,
        extents=(),
        labels={},
        hours=(),
        bounds=bounds,
        read={**bounds, "tick_hours": [-1], "use_hourly": 1},
        prices=Prices(),
        parts=parts,
    )
