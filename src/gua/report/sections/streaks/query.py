"""Idle streaks of processes, and what limits would give back, from the rows of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.questions import Answer, ask
from gua.report.sections.streaks.model import (
    FALSE_ALARM_MS,
    LONGER_THAN_MS,
    WHAT_IF_LIMITS_MS,
    StreakClass,
    Streaks,
    WhatIf,
)


class StreaksRow(NamedTuple):
    """Idle streaks of at least ``limit_ms``, and what a limit of that length would give back, GPU time in us."""

    limit_ms: Count
    streaks: Count
    holders: Count
    idle_ms: Count
    idle_held_us: Count
    given_back_us: Count
    false_alarms: Count


STREAKS: Final = View("streaks", StreaksRow, (*READ, "limits_ms", "false_alarm_ms"))


def ask_streaks(reader: ViewReader, read: Mapping[str, object], limits_ms: Sequence[int]) -> Answer[StreaksRow]:
    """Ask for the distribution of idle streaks and for what each limit would give back."""
    limits = sorted({*LONGER_THAN_MS, *(limits_ms or WHAT_IF_LIMITS_MS)})
    return ask(reader, STREAKS, {**read, "limits_ms": limits, "false_alarm_ms": FALSE_ALARM_MS})


def streaks(rows: Iterable[StreaksRow], limits_ms: Sequence[int], unknown_gpu_ms: float) -> Streaks:
    """Return both from the rows of all limits; a limit that no streak reaches has no row."""
    by_limit = {row.limit_ms: row for row in rows}
    return Streaks(
        classes=tuple(_class(limit, by_limit.get(limit)) for limit in LONGER_THAN_MS),
        what_if=tuple(_what_if(limit, by_limit.get(limit)) for limit in sorted(limits_ms or WHAT_IF_LIMITS_MS)),
        unknown_gpu_ms=unknown_gpu_ms,
    )


def _class(limit_ms: int, row: StreaksRow | None) -> StreakClass:
    if row is None:
        return StreakClass(longer_than_ms=limit_ms, streaks=0, holders=0, idle_ms=0, idle_held_gpu_ms=0)
    return StreakClass(
        longer_than_ms=limit_ms,
        streaks=row.streaks,
        holders=row.holders,
        idle_ms=row.idle_ms,
        idle_held_gpu_ms=row.idle_held_us / 1000,
    )


def _what_if(limit_ms: int, row: StreaksRow | None) -> WhatIf:
    if row is None:
        return WhatIf(limit_ms=limit_ms, gpu_ms=0, reclaims=0, holders=0, false_alarms=0)
    return WhatIf(
        limit_ms=limit_ms,
        gpu_ms=row.given_back_us / 1000,
        reclaims=row.streaks,
        holders=row.holders,
        false_alarms=row.false_alarms,
    )
