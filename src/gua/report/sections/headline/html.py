"""Where the hours went: the whole time in one bar above the split."""

from __future__ import annotations

from gua.report.kit.figures import HourFormat
from gua.report.kit.html import CLASSES, UNOBSERVED, Markup, draw_parts, join, stacked
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.headline import text
from gua.report.states import STATES


def headline(report: Report, hours: HourFormat) -> Markup:
    """Return the bar of all expected time, and the split with its numbers."""
    written = text.state_hours(report, hours)
    unobserved_ms = report.coverage.unobserved_gpu_ms
    parts = [
        *(
            (CLASSES[state], f"{state}: {written[state]} GPU-hours", report.headline.states[state].gpu_ms)
            for state in STATES
        ),
        (CLASSES[UNOBSERVED], f"{UNOBSERVED}: {hours.of(unobserved_ms)} GPU-hours", unobserved_ms),
    ]
    label = "All expected GPU time. " + ", ".join(called for _, called, _ in parts)
    return join(
        [
            stacked(parts, label, class_="bar tall"),
            draw_parts(text.headline(report, Style(), hours), "Share of what was observed, by state"),
        ]
    )
