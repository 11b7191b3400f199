"""Idle episodes, what a rule that reclaims cards would give back, and waiting that could have been avoided."""

from __future__ import annotations

from typing import Final

from gua.report.kit.bars import stacked
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural, span
from gua.report.kit.html_tables import BAR, NUMBER, Column, paragraph, table
from gua.report.kit.markup import Markup, join, name
from gua.report.model import Report
from gua.report.sections.cards.html import most
from gua.report.sections.contention.model import Contention
from gua.report.sections.streaks.model import FALSE_ALARM_MS, StreakClass, Streaks, WhatIf
from gua.report.sections.streaks.text import unknown
from gua.report.states import IDLE_HELD

MOST_HOSTS: Final = 100


def streaks(report: Report, hours: HourFormat) -> Markup | None:
    """Return how the idle time of processes is spread over short and long episodes."""
    if report.streaks is None:
        return None
    rows = [_class(one, report.streaks.classes, hours) for one in report.streaks.classes]
    columns = [
        Column("idle episodes"),
        Column("episodes", NUMBER),
        Column("holders", NUMBER),
        Column("", BAR),
        Column("idle-held GPU-hours", NUMBER, "h"),
        Column("idle hours of processes", NUMBER),
    ]
    return join(
        [
            table("Idle episodes of processes; each line holds those below it", columns, rows),
            *(paragraph(words) for words in unknown(report, hours)),
        ]
    )


def _class(one: StreakClass, every: tuple[StreakClass, ...], hours: HourFormat) -> list[str]:
    longest = max(each.idle_held_gpu_ms for each in every)
    return [
        f"longer than {span(one.longer_than_ms)}" if one.longer_than_ms else "all",
        f"{one.episodes:,}",
        f"{one.holders:,}",
        stacked([("h", "", one.idle_held_gpu_ms)], f"{hours.of(one.idle_held_gpu_ms)} GPU-hours", of=longest),
        hours.of(one.idle_held_gpu_ms),
        hours.of(one.idle_ms),
    ]


def what_if(report: Report, hours: HourFormat) -> Markup | None:
    """Return, for a row of limits, what taking the card from whoever is idle longer would have given back."""
    if report.streaks is None:
        return None
    held = report.headline.states[IDLE_HELD].gpu_ms
    columns = [
        Column("idle for more than"),
        Column("", BAR),
        Column("GPU-hours back", NUMBER, "h"),
        Column("of idle-held %", NUMBER),
        Column("reclaims", NUMBER),
        Column("holders", NUMBER),
        Column("false alarms", NUMBER),
        Column("false %", NUMBER),
    ]
    return table(
        "Whoever is idle for longer than the limit loses the card. A false alarm is a process that was active again "
        f"within {span(FALSE_ALARM_MS)}",
        columns,
        [_limit(one, held, report.streaks, hours) for one in report.streaks.what_if],
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


def contention(report: Report, hours: HourFormat) -> Markup | None:
    """Return how often no card was free while idle-held ones existed, by host."""
    if not report.contention:
        return None
    shown = most(report.contention, MOST_HOSTS, _worst)
    rest = len(report.contention) - len(shown)
    columns = [
        Column("host"),
        Column("cards", NUMBER),
        Column("", BAR),
        Column("a card free %", NUMBER, "t"),
        Column("none free, some idle-held %", NUMBER, "h"),
        Column("all active %", NUMBER, "a"),
        Column("not known %", NUMBER, "u"),
        Column("idle-held GPU-hours meanwhile", NUMBER),
    ]
    return table(
        "% of the time: what somebody in want of a card found. None free while some were idle-held is waiting that "
        "could have been avoided",
        columns,
        [_host(one, hours) for one in shown],
        note=f"And {plural(rest, 'more host')} with less of it; --json has all." if rest else None,
    )


def _worst(one: Contention) -> float:
    return float("inf") if one.host is None else float(one.contended_ms)


def _host(one: Contention, hours: HourFormat) -> list[str]:
    values = (one.free_ms, one.contended_ms, one.busy_ms, one.unknown_ms)
    parts = percents(values)
    words = ("a card was free", "none free, some idle-held", "all active", "not known")
    label = ", ".join(f"{word} {part} %" for word, part in zip(words, parts, strict=True))
    return [
        "(all cards)" if one.host is None else name(one.host),
        f"{one.cards:,}",
        stacked([(kind, "", value) for kind, value in zip("thau", values, strict=True)], label),
        *parts,
        hours.of(one.contended_gpu_ms),
    ]
