"""Time: hours of the day, hours of the week as heatmaps, days, and this window against the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Final

from gua.report.kit.bars import CLASSES, of_state, split_in_words, states_bar, swatch
from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural
from gua.report.kit.html_cards import shares
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, caption_of, paragraph, state_columns, table
from gua.report.kit.markup import Markup, join, tag
from gua.report.model import Report
from gua.report.sections.calendar.model import CalendarDay, DayHour, Days, Previous, TimeOfDay, Week
from gua.report.sections.calendar.previous import change
from gua.report.sections.calendar.week import WEEKDAYS
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States, observed_ms, share

MOST_DAYS: Final = 92
_HEATMAPS: Final[Mapping[str, str]] = MappingProxyType(
    {IDLE_HELD: "held without being used", TRULY_IDLE: "held by nobody"}
)
_SECONDS_PER_DAY: Final = 86_400


def time_of_day(report: Report, _hours: HourFormat) -> Markup:
    """Return every hour of the day with its split, in two halves side by side where there is room."""
    every = report[TimeOfDay]
    half = len(every) // 2
    columns = [HtmlColumn("hour"), HtmlColumn("", BAR), *state_columns()]

    def rows(hours: Sequence[DayHour]) -> list[list[str]]:
        return [
            [f"{each.hour:02d}-{(each.hour + 1) % 24:02d}", states_bar(each.states), *shares(each.states)]
            for each in hours
        ]

    caption = f"% of what was observed in the hour of the day, {report.window.timezone}"
    return tag(
        "div",
        tag("div", table(f"{caption}, first half", columns, rows(every[:half]))),
        tag("div", table(f"{caption}, second half", columns, rows(every[half:]))),
        class_="two",
    )


def week(report: Report, _hours: HourFormat) -> Markup:
    """Return a heatmap for each kind of idle: weekday by hour, shaded, with its number."""
    by_hour = {(hour.weekday, hour.hour): hour.states for hour in report[Week]}
    return join(
        [
            tag("div", *(_heatmap(state, by_hour, report) for state in _HEATMAPS), class_="two"),
            paragraph(
                join([swatch("n"), "hatched: nothing was observed in that hour of the week. A 0 was observed to be 0."])
            ),
        ]
    )


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
    when = f"{WEEKDAYS[weekday]} {hour:02d}-{(hour + 1) % 24:02d}: "
    part = None if states is None else share(states, state)
    if states is None or part is None:
        return tag("td", NONE, class_="f-n", title=f"{when}unobserved")
    level = min(10, round(part * 10) or int(part > 0))
    shown = round(part * 100)
    written = "<1" if part > 0 and shown == 0 else ">99" if part < 1 and shown == 100 else str(shown)
    return tag("td", written, class_=f"{CLASSES[state]}{level}", title=when + split_in_words(states))


def days(report: Report, hours: HourFormat) -> Markup:
    """Return day by day how the hours were split; bars as long as what was observed."""
    every = report[Days]
    shown = every[-MOST_DAYS:]
    longest = max(observed_ms(day.states) for day in shown)
    columns = [
        HtmlColumn("day"),
        HtmlColumn("", BAR),
        *state_columns(),
        HtmlColumn("idle-held %", NUMBER, "h"),
        HtmlColumn("in the window"),
    ]
    rest = len(every) - len(shown)
    return table(
        f"GPU-hours observed on each day, {report.window.timezone}; the bar is as long as what was observed",
        columns,
        [_day(day, longest, hours) for day in shown],
        note=f"And {plural(rest, 'earlier day')}; --json has all." if rest else None,
    )


def _day(day: CalendarDay, longest: float, hours: HourFormat) -> list[str]:
    whole = "" if day.seconds == _SECONDS_PER_DAY else f"{day.seconds / 3600:.4g} h"
    return [
        f"{WEEKDAYS[date.fromisoformat(day.date).weekday()]} {day.date}",
        states_bar(day.states, of=longest),
        *hours.parts([day.states[state].gpu_ms for state in STATES]),
        percent(share(day.states, IDLE_HELD)),
        whole,
    ]


def previous(report: Report, hours: HourFormat) -> Markup:
    """Return this window beside the one of the same length before it, and the change in points."""
    earlier, zone = report[Previous], report.window.timezone
    span = f"{moment(earlier.since_ms, zone)} to {moment(earlier.until_ms, zone)}"
    if not observed_ms(earlier.states):
        return tag("p", f"Nothing was observed in the window before ({span}), so there is nothing to compare with.")
    coverage = NONE if earlier.coverage is None else percent(earlier.coverage.ratio)
    bars = tag(
        "div",
        *(tag("span", "before", class_="sub"), states_bar(earlier.states)),
        *(tag("span", "now", class_="sub"), states_bar(report.headline.states)),
        class_="pair",
    )
    changes = table(
        f"The window before is {span}; {coverage} % of it was observed, of this one {percent(report.coverage.ratio)} %",
        [
            HtmlColumn("state"),
            HtmlColumn("before %", NUMBER),
            HtmlColumn("now %", NUMBER),
            HtmlColumn("change in points", NUMBER),
            HtmlColumn("before GPU-hours", NUMBER),
            HtmlColumn("now GPU-hours", NUMBER),
        ],
        _changes(earlier.states, report.headline.states, hours),
    )
    return tag("div", bars, tag("div", changes), class_="two")


def _changes(earlier: States, later: States, hours: HourFormat) -> list[list[str]]:
    before_ms = [earlier[state].gpu_ms for state in STATES]
    now_ms = [later[state].gpu_ms for state in STATES]
    columns = zip(
        STATES, percents(before_ms), percents(now_ms), hours.parts(before_ms), hours.parts(now_ms), strict=True
    )
    return [
        [
            of_state(state),
            was,
            is_now,
            change(share(later, state), share(earlier, state)),
            was_hours,
            now_hours,
        ]
        for state, was, is_now, was_hours, now_hours in columns
    ]
