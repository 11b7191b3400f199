"""Sections time-of-day, week and days: GPU time by hour of the day, hour of the week, and day."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise, product
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from gua.core.moments import begin_ms, local_day, zone
from gua.core.parameters import READ
from gua.core.view import Count, Date, HourOfDay, StateName, View, Weekday
from gua.report.context import model_of
from gua.report.kit.fields import AS_IS, ByState, Cells, cells, columns, shares, state_columns
from gua.report.kit.figures import NONE, HourFormat, percents
from gua.report.kit.html import CLASSES, Markup, caption_of, join, paragraph, split_in_words, swatch, tag
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Part, Rows
from gua.report.model import Report, Window
from gua.report.rows import TIME_OF_DAY, TimeOfDayRow
from gua.report.section import Csv, Section, zoned
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States, StateTime, observed_ms, share, times


@dataclass(frozen=True, kw_only=True, slots=True)
class DayHour:
    """An hour of the day in the window's time zone, 0 to 23, with its time by state."""

    hour: int
    states: ByState


class TimeOfDay(tuple[DayHour, ...]):
    """All 24 hours of the day."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WeekHour:
    """An hour of the week in the window's time zone. Weekday 0 (Monday) to 6, hour 0 to 23."""

    weekday: Annotated[int, replace(AS_IS, column="weekday_from_monday_0")]
    hour: int
    states: ByState


class Week(tuple[WeekHour, ...]):
    """All 168 hours of the week, Monday's first."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CalendarDay:
    """A day in the window's time zone, as ``2026-03-29``.

    ``seconds`` is its length within the window (82,800 where an hour was skipped).
    """

    date: str
    seconds: float
    states: ByState


class Days(tuple[CalendarDay, ...]):
    """Every day that overlaps the window, oldest first."""

    __slots__ = ()


_DAYS_OF_WEEK: Final = 7
_HOURS_OF_DAY: Final = 24
# Stores accept no tick before 2000 and no time after 2106.
_FIRST_MS: Final = 946_684_800_000
_LAST_MS: Final = 4_294_967_295_000


class CalendarRow(NamedTuple):
    """A state's GPU time [ms] and ticks in an hour of the week (``is_week``), or on a day."""

    is_week: bool
    weekday: Weekday | None
    hour: HourOfDay | None
    date: Date | None
    state: StateName
    gpu_ms: float
    card_ticks: Count


CALENDAR: Final = View("calendar", CalendarRow, (*READ, "timezone"))


Row = TypeVar("Row", CalendarRow, TimeOfDayRow)
Key = TypeVar("Key", bound=Hashable)


def _by(rows: Iterable[Row], key: Callable[[Row], Key]) -> Mapping[Key, dict[str, StateTime]]:
    """Return the time by state of each key of the rows; a key without rows has none in any state."""
    found: defaultdict[Key, dict[str, StateTime]] = defaultdict(lambda: dict.fromkeys(STATES, StateTime(card_ticks=0)))
    for row in rows:
        found[key(row)][row.state] = StateTime(gpu_ms=row.gpu_ms, card_ticks=row.card_ticks)
    return found


def time_of_day(rows: Iterable[TimeOfDayRow]) -> TimeOfDay:
    """Return the hours of the day, with all four states each."""
    states = _by(rows, lambda row: row.hour)
    return TimeOfDay(DayHour(hour=hour, states=states[hour]) for hour in range(_HOURS_OF_DAY))


def week_of(rows: Iterable[CalendarRow]) -> Week:
    """Return the hours of the week of rows of ``gua_report.calendar``, with all four states each."""
    states = _by((row for row in rows if row.is_week), lambda row: (row.weekday, row.hour))
    hours = product(range(_DAYS_OF_WEEK), range(_HOURS_OF_DAY))
    return Week(WeekHour(weekday=weekday, hour=hour, states=states[weekday + 1, hour]) for weekday, hour in hours)


def days_of(rows: Iterable[CalendarRow], window: Window) -> Days:
    """Return the days of rows of ``gua_report.calendar``, with all four states each."""
    states = _by((row for row in rows if not row.is_week), lambda row: row.date or "")
    # A date that only the store's time zone data has stays in the result, with length 0.
    lengths = dict.fromkeys(states, 0) | ms_of_days(window)
    return Days(CalendarDay(date=date, seconds=lengths[date] / 1000, states=states[date]) for date in sorted(lengths))


def ms_of_days(window: Window) -> dict[str, int]:
    """Return the milliseconds of each day (``2026-03-29``) within the window, oldest first.

    A day begins with the first moment of its date, and has 23 or 25 hours where clocks change. A date that a time zone
    skips (Samoa, 2011-12-30) is missing.
    """
    local = zone(window.timezone)
    since_ms, until_ms = max(window.since_ms, _FIRST_MS), min(window.until_ms, _LAST_MS)
    first, last = local_day(since_ms, local), local_day(until_ms - 1, local)
    dates = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    bounds = pairwise([since_ms, *(begin_ms(day, local) for day in dates[1:]), until_ms])
    return {day.isoformat(): end - begin for day, (begin, end) in zip(dates, bounds, strict=False) if begin < end}


_SHADE_WIDTH: Final = 3
_SHADE_WORDS: Final = ("below 25", "below 50", "below 75", "75 or more")


def legend(style: Style) -> str:
    """Return the legend of the shades."""
    return ", ".join(f"{shade} {words}" for shade, words in zip(style.shades, _SHADE_WORDS, strict=True))


def _hours_of_day(report: Report, style: Style, *, is_shaded: bool = False) -> Iterator[Part]:
    """Yield a row per hour of the day, with a shade per number or a bar per row."""
    yield f"% of what was observed in the hour{f'; {legend(style)}' if is_shaded else ''}"

    def parts(one: DayHour) -> list[str]:
        written = percents(times(one.states))
        if not is_shaded:
            return written
        shades = (style.paint(state, style.shade(share(one.states, state), _SHADE_WIDTH)) for state in STATES)
        return [f"{shade}{part:>7}" for shade, part in zip(shades, written, strict=True)]

    rows = Rows(report[TimeOfDay])
    rows.add("hour", lambda one: _label(one.hour), left=True)
    rows.add(STATES, parts)
    yield rows.table(bars=[] if is_shaded else [one.states for one in report[TimeOfDay]])


def _label(hour: int) -> str:
    return f"{hour:02d}-{(hour + 1) % 24:02d}"


WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _hours_of_week(report: Report, style: Style, *, is_shaded: bool = False) -> Iterator[Part]:
    """Yield the idle-held share of every hour of the week, one row per hour of the day, or with a shade per number."""
    text = "idle-held in % of what was observed in the hour; other states with --csv week or --json"
    yield f"{text}{f'; {legend(style)}' if is_shaded else ''}"
    held = {(one.weekday, one.hour): share(one.states, IDLE_HELD) for one in report[Week]}

    def cell(part: float | None) -> str:
        return f"{style.paint(IDLE_HELD, style.shade(part, 1))}{whole(part):>4}" if is_shaded else whole(part)

    rows = Rows(range(_HOURS_OF_DAY))
    rows.add("hour", _label, left=True)
    rows.add(WEEKDAYS, lambda hour: [cell(held.get((day, hour))) for day in range(len(WEEKDAYS))])
    yield rows.table()


def whole(part: float | None) -> str:
    """Return a share in whole percent: ``<1`` for a nonzero value, ``>99`` for less than all, ``-`` if unknown."""
    if part is None:
        return NONE
    rounded = round(part * 100)
    if rounded == 0 and part > 0:
        return "<1"
    return ">99" if rounded == 100 and part < 1 else str(rounded)


def _days_text(report: Report, _style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table with a row per day of the window's time zone; a day with a clock change has 23 or 25 hours."""
    yield "% of what was observed on the day"
    rows = Rows(report[Days])
    rows.add("day", lambda one: f"{one.date} {WEEKDAYS[date.fromisoformat(one.date).weekday()]}", left=True)
    rows.add(STATES, lambda one: percents(times(one.states)))
    rows.add("GPU-hours", lambda one: hours.of(observed_ms(one.states)), leaves=2)
    rows.add("day's hours", lambda one: f"{one.seconds / 3600:.2f}".rstrip("0").rstrip("."), leaves=1)
    notes = {"day's hours": "how much of it is in the window; 23 or 25 where the clock changed"}
    yield rows.table([one.states for one in report[Days]], notes)


_HEATMAPS: Final[Mapping[str, str]] = {IDLE_HELD: "held without being used", TRULY_IDLE: "held by nobody"}


def _week_page(report: Report, _hours: HourFormat) -> Markup:
    """Return a heatmap for each idle state: weekday by hour, shaded, with its number."""
    by_hour = {(hour.weekday, hour.hour): hour.states for hour in report[Week]}
    note = join([swatch("n"), "hatched: nothing was observed in that hour of the week. A 0 was observed to be 0."])
    heatmaps = tag("div", *(_heatmap(state, by_hour, report) for state in _HEATMAPS), class_="two")
    return join([heatmaps, paragraph(note)])


def _heatmap(state: str, by_hour: Mapping[tuple[int, int], States], report: Report) -> Markup:
    caption = join(
        [swatch(CLASSES[state]), f"{state}: {_HEATMAPS[state]}, % of the observed hour, {report.window.timezone}"]
    )
    head = tag("tr", tag("td"), *(tag("th", f"{hour:02d}", scope="col") for hour in range(24)))
    rows = [
        tag(
            "tr",
            tag("th", WEEKDAYS[weekday], scope="row"),
            *(_heat(state, weekday, hour, by_hour.get((weekday, hour))) for hour in range(24)),
        )
        for weekday in range(7)
    ]
    body = tag("table", caption_of(caption), tag("thead", head), tag("tbody", *rows), class_="heat")
    label = f"Heatmap of {state} by weekday and hour"
    return tag("div", body, class_="scroll", role="region", aria_label=label, tabindex=0)


def _heat(state: str, weekday: int, hour: int, states: States | None) -> Markup:
    when = f"{WEEKDAYS[weekday]} {_label(hour)}: "
    part = None if states is None else share(states, state)
    if states is None or part is None:
        return tag("td", NONE, class_="f-n", title=f"{when}unobserved")
    level = min(10, round(part * 10) or int(part > 0))
    return tag("td", whole(part), class_=f"{CLASSES[state]}{level}", title=when + split_in_words(states))


def _with_shares(kind: type) -> Csv[Any]:
    def rows(model: Iterable[DayHour | WeekHour | CalendarDay], _report: Report) -> Iterator[Cells]:
        return ({**cells(row), **shares(row.states)} for row in model)

    return Csv((*columns(kind), *state_columns("share")), rows)


TIME_OF_DAY_SECTION = Section(
    name="time-of-day",
    title=zoned("Time of day"),
    model=TimeOfDay,
    collect=model_of(TIME_OF_DAY, lambda rows, _window: time_of_day(rows)),
    text=lambda report, style, _hours: _hours_of_day(report, style),
    drawn=lambda report, style, _hours: _hours_of_day(report, style, is_shaded=style.width >= STACKED_BELOW),
    csv=_with_shares(DayHour),
)
WEEK_SECTION = Section(
    name="week",
    title=zoned("Hours of the week"),
    model=Week,
    collect=model_of(CALENDAR, lambda rows, _window: week_of(rows)),
    text=lambda report, style, _hours: _hours_of_week(report, style),
    drawn=lambda report, style, _hours: _hours_of_week(report, style, is_shaded=style.width >= STACKED_BELOW),
    html=_week_page,
    csv=_with_shares(WeekHour),
)
DAYS_SECTION = Section(
    name="days",
    title=zoned("Days"),
    model=Days,
    collect=model_of(CALENDAR, days_of),
    text=_days_text,
    csv=_with_shares(CalendarDay),
)
