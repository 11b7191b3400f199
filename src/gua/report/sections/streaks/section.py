"""Idle streaks of processes, and what a rule that reclaims cards would have given back."""

from __future__ import annotations

from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Json, hours, to_json
from gua.report.section import Section, csv_of
from gua.report.sections.now.query import ask_card_streaks, idle_split
from gua.report.sections.streaks import html, text, what_if
from gua.report.sections.streaks.model import FALSE_ALARM_MS, StreakClass, Streaks, WhatIf
from gua.report.sections.streaks.query import ask_streaks, streaks


def _collect(asking: Asking) -> Finish:
    limits_ms = asking.request.what_if_limits_ms
    cards = asking.once(ask_card_streaks, asking.window)
    answer = asking.once(ask_streaks, limits_ms)
    return lambda _headline, _cards: streaks(answer(), limits_ms, idle_split(list(cards())).unknown_gpu_ms)


STREAKS = Section(
    name="streaks",
    title="Idle streaks",
    model=Streaks,
    collect=_collect,
    text=text.streaks,
    html=html.streaks,
    json=lambda found: {"classes": to_json(found.classes), "unknown_gpu_hours": hours(found.unknown_gpu_ms)},
    csv=csv_of(StreakClass, lambda found: found.classes),
    streaks="needed",
)


def _what_if(found: Streaks) -> Json:
    return {
        "limits": to_json(found.what_if),
        "false_alarm_seconds": FALSE_ALARM_MS // 1000,
        "unknown_gpu_hours": hours(found.unknown_gpu_ms),
    }


WHAT_IF = Section(
    name="what-if",
    title="What if idle cards were reclaimed",
    model=Streaks,
    collect=_collect,
    text=what_if.what_if,
    html=html.what_if,
    json=_what_if,
    csv=csv_of(WhatIf, lambda found: found.what_if),
    streaks="needed",
)
