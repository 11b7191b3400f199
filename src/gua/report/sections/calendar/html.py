"""Hours of the week as heatmaps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gua.report.kit.figures import NONE, HourFormat
from gua.report.kit.html import CLASSES, Markup, caption_of, join, paragraph, split_in_words, swatch, tag
from gua.report.model import Report
from gua.report.sections.calendar.model import Week
from gua.report.sections.calendar.week import WEEKDAYS, whole
from gua.report.states import IDLE_HELD, TRULY_IDLE, States, share

_HEATMAPS: Final[Mapping[str, str]] = MappingProxyType(
    {IDLE_HELD: "held without being used", TRULY_IDLE: "held by nobody"}
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
    return tag("td", whole(part), class_=f"{CLASSES[state]}{level}", title=when + split_in_words(states))
