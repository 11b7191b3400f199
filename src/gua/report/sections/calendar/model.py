"""Time: hours of the week, days, and this window against the one before."""

from __future__ import annotations

from dataclasses import dataclass

from gua.report.states import Coverage, States


@dataclass(frozen=True, kw_only=True, slots=True)
class WeekHour:
    """An hour of the week in the window's zone. Weekday 0 (Monday) to 6, hour 0 to 23."""

    weekday: int
    hour: int
    states: States


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A day in the window's zone, as ``2026-03-29``.

    ``seconds`` of it lie in the window (82,800 where an hour was skipped).
    """

    date: str
    seconds: float
    states: States


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """The window of the same length just before this one: (since, until] in Unix ms; nothing of it may be observed."""

    since_ms: int
    until_ms: int
    coverage: Coverage | None
    states: States
