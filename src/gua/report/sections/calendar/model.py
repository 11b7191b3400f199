"""Time: hours of the day and of the week, days, and this window against the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from gua.report.kit.fields import AS_IS, ByState, Json, Timestamp, Unit, json_of
from gua.report.model import Coverage


def _observed(coverage: Coverage) -> Json:
    """Return how much was observed; when cards were expected is not said of a window that is only compared with."""
    return {key: value for key, value in json_of(coverage).items() if not key.startswith("effective_")}


_OBSERVED = Unit(json=_observed, cell=AS_IS.cell)


@dataclass(frozen=True, kw_only=True, slots=True)
class DayHour:
    """An hour of the day in the window's zone, 0 to 23."""

    hour: int
    states: ByState


class TimeOfDay(tuple[DayHour, ...]):
    """All 24 hours."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WeekHour:
    """An hour of the week in the window's zone. Weekday 0 (Monday) to 6, hour 0 to 23."""

    weekday: Annotated[int, replace(AS_IS, column="weekday_from_monday_0")]
    hour: int
    states: ByState


class Week(tuple[WeekHour, ...]):
    """All 168 hours, Monday's first."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CalendarDay:
    """A day in the window's zone, as ``2026-03-29``.

    ``seconds`` of it lie in the window (82,800 where an hour was skipped).
    """

    date: str
    seconds: float
    states: ByState


class Days(tuple[CalendarDay, ...]):
    """Every day of which something lies in the window, oldest first."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Previous:
    """The window of the same length just before this one: (since, until] in Unix ms; nothing of it may be observed."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    coverage: Annotated[Coverage | None, _OBSERVED]
    states: ByState
