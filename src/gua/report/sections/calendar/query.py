"""Time: hours of the week and days in the window's zone, and the window before this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import Row, ViewReader
from gua.core.view import Count, Date, HourOfDay, StateName, View, Weekday
from gua.core.zones import zone
from gua.report.hours import choose_hours, read_of
from gua.report.model import Window
from gua.report.questions import ask
from gua.report.rows import OVERVIEW, OverviewRow
from gua.report.sections.calendar.model import CalendarDay, Previous, WeekHour
from gua.report.states import STATES, States, StateTime

Calendar = tuple[tuple[WeekHour, ...], tuple[CalendarDay, ...]]

_DAYS_OF_WEEK: Final = 7
_HOURS_OF_DAY: Final = 24
_QUARTER_MS: Final = 15 * 60_000
_STRIDE_MS: Final = 6 * 3_600_000
# Stores take no tick of before 2000, and hold hours up to 2106.
_FIRST_MS: Final = 946_684_800_000
_LAST_MS: Final = 4_294_967_295_000


class CalendarRow(NamedTuple):
    """A state's time in an hour of the week (``is_week``), or on a day."""

    is_week: bool
    weekday: Weekday | None
    hour: HourOfDay | None
    date: Date | None
    state: StateName
    gpu_ms: float
    card_ticks: Count


CALENDAR: Final = View("calendar", CalendarRow, (*READ, "timezone"))


def calendar(reader: ViewReader, read: Mapping[str, object], window: Window) -> Callable[[], Calendar]:
    """Ask for hours of the week and days; call what is returned for them.

    ``read`` is {since_ms, until_ms, hosts, tick_hours, use_hourly}. All 168 hours of the week come, Monday's first, and
    every day of which something lies in the window, those without ticks as well.
    """
    answer = ask(reader, CALENDAR, {**read, "timezone": window.timezone})
    return lambda: calendar_of(answer(), window)


def calendar_of(rows: Iterable[CalendarRow], window: Window) -> Calendar:
    """Return the rows of ``gua_report.calendar`` as hours of the week and days."""
    hours: dict[tuple[int, int], dict[str, StateTime]] = {}
    days: dict[str, dict[str, StateTime]] = {}
    for row in rows:
        states: dict[str, StateTime] = {}
        if row.is_week and row.weekday is not None and row.hour is not None:
            states = hours.setdefault((row.weekday - 1, row.hour), {})
        elif row.date is not None:
            states = days.setdefault(row.date, {})
        states[row.state] = StateTime(gpu_ms=row.gpu_ms, card_ticks=row.card_ticks)
    week = tuple(
        WeekHour(weekday=weekday, hour=hour, states=_whole(hours.get((weekday, hour), {})))
        for weekday in range(_DAYS_OF_WEEK)
        for hour in range(_HOURS_OF_DAY)
    )
    # Of a day that only the store's time zones know, none is lost.
    lengths = dict.fromkeys(days, 0) | ms_of_days(window)
    return week, tuple(
        CalendarDay(date=date, seconds=lengths[date] / 1000, states=_whole(days.get(date, {})))
        for date in sorted(lengths)
    )


def ms_of_days(window: Window) -> dict[str, int]:
    """Return how many milliseconds of each day, as ``2026-03-29``, lie in the window, oldest first.

    A day has 23 or 25 hours where clocks change, and a date that a zone leaves out (Samoa, 2011-12-30) none.
    """
    local = zone(window.timezone)
    days: dict[str, int] = {}
    for since_ms, until_ms in _pieces(max(window.since_ms, _FIRST_MS), min(window.until_ms, _LAST_MS), local):
        date = _local(since_ms, local).date().isoformat()
        days[date] = days.get(date, 0) + until_ms - since_ms
    return days


def before(reader: ViewReader, bounds: Mapping[str, object], *, from_ticks: bool = False) -> Callable[[], Previous]:
    """Ask for the window of the same length just before ``bounds`` {since_ms, until_ms, hosts}; call what is returned.

    Its coverage is ``None`` where no card was expected in it.
    """
    since_ms, until_ms = _moment(bounds["since_ms"]), _moment(bounds["until_ms"])
    earlier_ms = since_ms - (until_ms - since_ms)
    answer = ask(
        _Totals(reader, from_ticks=from_ticks),
        OVERVIEW,
        {**bounds, "since_ms": max(earlier_ms, 0), "until_ms": since_ms},
    )

    def told() -> Previous:
        total = next((row for row in answer() if row.is_total), None)
        if total is None or not total.expected_gpu_ms:
            return Previous(since_ms=earlier_ms, until_ms=since_ms, coverage=None, states=_whole({}))
        return Previous(since_ms=earlier_ms, until_ms=since_ms, coverage=total.coverage, states=_states(total))

    return told


class _Totals:
    """Views as of a window that has hours of its own to choose, so that both questions go to a server in one thread."""

    def __init__(self, reader: ViewReader, *, from_ticks: bool) -> None:
        self._reader = reader
        self._from_ticks = from_ticks

    @property
    def is_concurrent(self) -> bool:
        return self._reader.is_concurrent

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        hours = choose_hours(self._reader, parameters, from_ticks=self._from_ticks)
        return self._reader.rows(view, read_of(parameters, hours))


def _pieces(since_ms: int, until_ms: int, local: tzinfo) -> Iterator[tuple[int, int]]:
    """Yield the time from one moment to another in pieces, each of them of one date.

    In strides, and by the quarter only where the date or the offset changes: the view puts whole quarters on a date.
    """
    while since_ms < until_ms:
        end_ms = min(since_ms + _STRIDE_MS, until_ms)
        first, last = _local(since_ms, local), _local(end_ms - 1, local)
        if first.date() != last.date() or first.utcoffset() != last.utcoffset():
            end_ms = min(since_ms - since_ms % _QUARTER_MS + _QUARTER_MS, until_ms)
        yield since_ms, end_ms
        since_ms = end_ms


def _local(unix_ms: int, local: tzinfo) -> datetime:
    return datetime.fromtimestamp(unix_ms // 1000, UTC).astimezone(local)


def _moment(value: object) -> int:
    if not isinstance(value, int):
        msg = f"a window's bound is Unix time in ms, not {value!r}"
        raise TypeError(msg)
    return value


def _whole(states: States) -> States:
    return {state: states.get(state, StateTime(card_ticks=0)) for state in STATES}


def _states(total: OverviewRow) -> States:
    return {one.state: StateTime(card_ticks=one.card_ticks, gpu_ms=one.gpu_ms) for one in total.states}
