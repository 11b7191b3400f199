"""What the screen rests on, in three lines: the thresholds, what is never called idle, the ticks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.durations import format_duration
from gua.report.kit.basis import size
from gua.report.kit.style import Style
from gua.report.model import Report

_MOST_INTERVALS: Final = 3


def basis(report: Report, style: Style) -> Iterator[str]:
    """Yield three sentences."""
    for text in _sentences(report):
        yield from style.wrap(text, indent=0, hanging=2)


def _sentences(report: Report) -> Iterator[str]:
    settings = {setting.key: setting for setting in report.rules}
    utilization, memory = settings["active_utilization"], settings["held_memory_bytes"]
    ratio = settings["held_memory_ratio"]
    held = size(memory.value) + (f" or {ratio.value * 100:.4g} % of it" if ratio.value else "")
    changed = "" if all(setting.is_default for setting in settings.values()) else " (not the defaults)"
    yield f"Basis: idle-held is below {utilization.value * 100:.4g} % utilization with over {held} held{changed}."
    yield "Unknown and unobserved time is never idle; active time need not be useful."
    intervals = sorted({extent.interval_ms for extent in report.extents if extent.interval_ms})
    told = " or ".join(map(format_duration, intervals)) if len(intervals) <= _MOST_INTERVALS else _range(intervals)
    every = f", one every {told}" if told else ""
    yield f"{report.headline.card_ticks:,} card ticks{every}; who shares a card shares its hours."


def _range(intervals: Sequence[int]) -> str:
    return f"{format_duration(intervals[0])} to {format_duration(intervals[-1])}"
