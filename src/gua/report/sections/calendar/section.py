"""Hours of the day, hours of the week, days, and this window against the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gua.core.durations import to_rfc3339
from gua.core.ports import ViewReader
from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Cell, Cells, cells, columns, gpu_hours, shares, state_columns
from gua.report.model import Report
from gua.report.questions import Answer, ask
from gua.report.rows import TIME_OF_DAY as HOURS_OF_DAY
from gua.report.rows import TimeOfDayRow
from gua.report.section import Csv, Section, on_page, zoned
from gua.report.sections.calendar import days, previous, time_of_day, week
from gua.report.sections.calendar.model import CalendarDay, DayHour, Days, Previous, TimeOfDay, Week, WeekHour
from gua.report.sections.calendar.query import before, calendar
from gua.report.states import STATES, States, StateTime

_HOURS = 24


def _hours_of_day(reader: ViewReader, read: Mapping[str, object], timezone: str) -> Answer[TimeOfDayRow]:
    return ask(reader, HOURS_OF_DAY, {**read, "timezone": timezone})


def _time_of_day(rows: Iterable[TimeOfDayRow]) -> TimeOfDay:
    hours = [dict.fromkeys(STATES, StateTime(card_ticks=0)) for _ in range(_HOURS)]
    for row in rows:
        hours[row.hour][row.state] = StateTime(gpu_ms=row.gpu_ms, card_ticks=row.card_ticks)
    return TimeOfDay(DayHour(hour=hour, states=states) for hour, states in enumerate(hours))


def _collect_time_of_day(asking: Asking) -> Finish:
    answer = asking.once(_hours_of_day, asking.window.timezone)
    return lambda _headline, _cards: _time_of_day(answer())


def _collect_week(asking: Asking) -> Finish:
    answer = asking.once(calendar, asking.window)
    return lambda _headline, _cards: Week(answer()[0])


def _collect_days(asking: Asking) -> Finish:
    answer = asking.once(calendar, asking.window)
    return lambda _headline, _cards: Days(answer()[1])


def _collect_previous(asking: Asking) -> Finish:
    answer = before(asking.reader, asking.bounds, from_ticks=asking.request.from_ticks)
    return lambda _headline, _cards: answer()


def _with_shares(kind: type) -> Csv[Any]:
    def rows(model: Iterable[DayHour | WeekHour | CalendarDay], _report: Report) -> Iterator[Cells]:
        return ({**cells(row), **shares(row.states)} for row in model)

    return Csv((*columns(kind), *state_columns("share")), rows)


TIME_OF_DAY = Section(
    name="time-of-day",
    title=zoned("Time of day"),
    model=TimeOfDay,
    collect=_collect_time_of_day,
    text=time_of_day.time_of_day,
    drawn=time_of_day.drawn,
    csv=_with_shares(DayHour),
)
WEEK = Section(
    name="week",
    title=zoned("Hours of the week"),
    model=Week,
    collect=_collect_week,
    text=week.week,
    drawn=week.drawn,
    html=on_page(__package__, "week"),
    csv=_with_shares(WeekHour),
)
DAYS = Section(
    name="days",
    title=zoned("Days"),
    model=Days,
    collect=_collect_days,
    text=days.days,
    csv=_with_shares(CalendarDay),
)


def _previous_rows(found: Previous, report: Report) -> Iterator[Cells]:
    yield _window("this", report.window.since_ms, report.window.until_ms, report.headline.states)
    yield _window("previous", found.since_ms, found.until_ms, found.states)


def _window(name: str, since_ms: int, until_ms: int, states: States) -> dict[str, Cell]:
    bounds: dict[str, Cell] = {"window": name, "since": to_rfc3339(since_ms), "until": to_rfc3339(until_ms)}
    return {**bounds, **gpu_hours(states), **shares(states)}


PREVIOUS = Section(
    name="previous",
    title="This window and the one before",
    model=Previous,
    collect=_collect_previous,
    text=previous.previous,
    csv=Csv(("window", "since", "until", *state_columns("gpu_hours"), *state_columns("share")), _previous_rows),
)
