"""Idle streaks, and what a rule that reclaims cards would give back."""

from __future__ import annotations

from gua.report.kit.bars import stacked
from gua.report.kit.figures import NONE, HourFormat, percent, span
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, paragraph, table
from gua.report.kit.markup import Markup, join
from gua.report.model import Report
from gua.report.sections.streaks.model import FALSE_ALARM_MS, StreakClass, Streaks, WhatIf
from gua.report.sections.streaks.text import unknown
from gua.report.states import IDLE_HELD


def streaks(report: Report, hours: HourFormat) -> Markup:
    """Return how the idle time of processes is spread over short and long streaks."""
    classes = report[Streaks].classes
    rows = [_class(one, classes, hours) for one in classes]
    columns = [
        HtmlColumn("idle streaks"),
        HtmlColumn("streaks", NUMBER),
        HtmlColumn("holders", NUMBER),
        HtmlColumn("", BAR),
        HtmlColumn("idle-held GPU-hours", NUMBER, "h"),
        HtmlColumn("idle hours of processes", NUMBER),
    ]
    return join(
        [
            table("Idle streaks of processes; each line holds those below it", columns, rows),
            *(paragraph(words) for words in unknown(report, hours)),
        ]
    )


def _class(one: StreakClass, every: tuple[StreakClass, ...], hours: HourFormat) -> list[str]:
    longest = max(each.idle_held_gpu_ms for each in every)
    return [
        f"longer than {span(one.longer_than_ms)}" if one.longer_than_ms else "all",
        f"{one.streaks:,}",
        f"{one.holders:,}",
        stacked([("h", "", one.idle_held_gpu_ms)], f"{hours.of(one.idle_held_gpu_ms)} GPU-hours", of=longest),
        hours.of(one.idle_held_gpu_ms),
        hours.of(one.idle_ms),
    ]


def what_if(report: Report, hours: HourFormat) -> Markup:
    """Return, for a row of limits, what taking the card from whoever is idle longer would have given back."""
    found = report[Streaks]
    held = report.headline.states[IDLE_HELD].gpu_ms
    columns = [
        HtmlColumn("idle for more than"),
        HtmlColumn("", BAR),
        HtmlColumn("GPU-hours back", NUMBER, "h"),
        HtmlColumn("of idle-held %", NUMBER),
        HtmlColumn("reclaims", NUMBER),
        HtmlColumn("holders", NUMBER),
        HtmlColumn("false alarms", NUMBER),
        HtmlColumn("false %", NUMBER),
    ]
    return table(
        "Whoever is idle for longer than the limit loses the card. A false alarm is a process that was active again "
        f"within {span(FALSE_ALARM_MS)}",
        columns,
        [_limit(one, held, found, hours) for one in found.what_if],
    )


def _limit(one: WhatIf, held: float, streaks: Streaks, hours: HourFormat) -> list[str]:
    back = hours.of(one.gpu_ms)
    largest = max(held, *(each.gpu_ms for each in streaks.what_if))
    return [
        span(one.limit_ms),
        stacked([("h", "", one.gpu_ms)], f"{back} GPU-hours back", of=largest),
        back,
        percent(one.gpu_ms / held) if held else NONE,
        f"{one.reclaims:,}",
        f"{one.holders:,}",
        f"{one.false_alarms:,}",
        percent(one.false_alarms / one.reclaims) if one.reclaims else NONE,
    ]
