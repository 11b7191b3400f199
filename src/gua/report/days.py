"""Which UTC days of a long window are read as days, not by their hours: the numbers are the same, the rows a 24th."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, cast

from gua.core.parameters import BOUNDS, NOW_HOURS
from gua.core.ports import Row, ViewReader
from gua.core.view import Count, View
from gua.core.zones import zone
from gua.report.hours import HOURS, Hour, choose_hours, hours_of
from gua.report.model import Extent, Window

LEAST_CARD_HOURS: Final = 20_000
"""Card-hours of a window from which on days are asked for: of fewer, the question takes longer than they save."""
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MONDAY: Final = 4  # 1970-01-05
_MONTH_DAYS: Final = 37  # and the week in which it begins
_NO_DAY: Final = -1  # an empty list of numbers has no type in SQL
READ_DAYS: Final = frozenset(
    {"overview", "owners", "costs", "energy", "idle_time", "activity", "idle_split", "card_sizes", "slow_cards"}
)
"""Views that read days."""
READ_DAYS_BY_HOUR: Final = frozenset({"time_of_day", "calendar"})
"""Views that read them where the zone differs from UTC by whole hours."""
READ_DAYS_BY_KEY: Final = frozenset({"usage"})
"""Views that read them by what a day knows of processes."""
READ_DAYS_BEFORE_NOW: Final = frozenset({"card_streaks", "holders"})
"""Views that tell of now, and read them but for those before it."""
_SILENT_HOURS: Final = 7
"""Hours before now of which none is read as a day where it is told what a card does: it is silent after three ticks."""
_KEYS: Final = frozenset({"identity", "owner", "program", "host", "model"})
LEAST_CARD_DAYS: Final = 5_000
"""Card-days from which on streaks of cards are read of days: of fewer, planning takes longer than they save."""


class HeldDay(NamedTuple):
    """A UTC day that holds, as a number since 1970: which of its hours have ticks, a bit each, and its card ticks."""

    day: int
    hours: int
    card_ticks: Count


HELD_DAYS: Final = View("held_days", HeldDay, BOUNDS)


def are_many(extents: Sequence[Extent], window: Window) -> bool:
    """Return whether a window has so many card-hours that days are worth a question."""
    card_ms = sum(
        extent.cards * max(min(extent.last_ms, window.until_ms) - max(extent.first_ms, window.since_ms), 0)
        for extent in extents
    )
    return card_ms >= LEAST_CARD_HOURS * _HOUR_MS


def with_days(
    reader: ViewReader, bounds: Mapping[str, object], *, price_starts: Iterable[int], timezone: str
) -> tuple[ViewReader, list[Hour], frozenset[int]]:
    """Return a reader that reads days of the window {since_ms, until_ms, hosts} where they hold, hours, and days.

    A day in which a price begins is read by its hours.
    """
    split = {start_ms // _DAY_MS for start_ms in price_starts if start_ms % _DAY_MS}
    days = tuple(day for day in sorted(HELD_DAYS.rows(reader, bounds)) if day.day not in split)
    if not days:
        return reader, choose_hours(reader, bounds), frozenset()
    of_days = frozenset(day.day for day in days)
    others = hours_of(reader, bounds, HOURS.rows(reader, {**bounds, **by_day(days, bounds)}))
    if any(hour.hour // 24 in of_days for hour in others):
        # A store that is asked for views, not by their queries, knows no days: it tells of all hours.
        return reader, sorted(others), frozenset()
    return DailyReader(reader, bounds, days, timezone), sorted([*others, *_hours_of(days)]), of_days


def _hours_of(days: Iterable[HeldDay]) -> Iterator[Hour]:
    """Yield the hours of days, all of them counted; the ticks of all of a day stand in its first."""
    for day in days:
        card_ticks = day.card_ticks
        for hour in range(24):
            if day.hours >> hour & 1:
                yield Hour(day.day * 24 + hour, is_counted=True, card_ticks=card_ticks)
                card_ticks = 0


@dataclass(frozen=True)
class DailyReader:
    """A reader whose questions of one window are given the days to read."""

    reader: ViewReader
    bounds: Mapping[str, object]
    days: Sequence[HeldDay]
    timezone: str
    before_now: Sequence[HeldDay] | None = None
    before_states: Sequence[HeldDay] = ()
    cards: int = 0
    tells_holders_apart: bool = False

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may ask at the same time."""
        return self.reader.is_concurrent

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Row]:
        """Return the rows of a view; where it may, and is asked for counted hours, it reads the days."""
        days = self._of(view, parameters)
        if days and parameters.get("use_hourly") and self._is_within(parameters):
            return self.reader.rows(view, {**parameters, **by_day(days, self.bounds)})
        return self.reader.rows(view, parameters)

    def _is_within(self, parameters: Mapping[str, object]) -> bool:
        """Return whether a question is of the same window, and of its hosts or some of them: days hold for each."""
        every, some = ({*cast("Sequence[str]", given["hosts"])} for given in (self.bounds, parameters))
        return {**parameters, **self.bounds, "hosts": parameters["hosts"]} == parameters and (
            not every or (bool(some) and some <= every)
        )

    def telling_of_now(self, as_of_ms: int, interval_ms: int, cards: int) -> DailyReader:
        """Return the reader that also tells who holds any of ``cards`` at ``as_of_ms`` and did in the 24 hours before.

        These are read by their hours, and a few more: a card that is silent for longer has no holders and is not free.
        Where ticks of ``interval_ms`` are too long for that, all are.
        """
        held = self.days if interval_ms <= _HOUR_MS else ()

        def ended(hours: int) -> list[HeldDay]:
            return [day for day in held if (day.day + 1) * _DAY_MS <= as_of_ms - hours * _HOUR_MS]

        return replace(self, before_now=ended(NOW_HOURS), before_states=ended(_SILENT_HOURS), cards=cards)

    @property
    def days_before_now(self) -> frozenset[int]:
        """Days that are read as such where it is told who holds cards."""
        return frozenset(day.day for day in self.before_now or ())

    def _of(self, view: str, parameters: Mapping[str, object]) -> Sequence[HeldDay]:
        if view in READ_DAYS_BEFORE_NOW:
            if view == "card_streaks" and not parameters["long_streak_ms"]:
                # Of a large fleet, what processes did in the 24 hours before is asked besides.
                return self.before_states
            is_worth_it = view == "holders" or self.cards * len(self.days_before_now) >= LEAST_CARD_DAYS
            return (self.before_now or ()) if is_worth_it else ()
        if view in READ_DAYS_BY_KEY:
            # Usage tells who holds cards now besides, of hours, but where that is asked apart.
            tells_now = self.before_now is not None and not self.tells_holders_apart
            days = self.before_now if tells_now and self.before_now is not None else self.days
            return days if parameters["by"] in _KEYS else ()
        if view in READ_DAYS_BY_HOUR:
            return self.days if _is_whole_hours(self.timezone, self.days) else ()
        return self.days if view in READ_DAYS else ()


def by_day(days: Sequence[HeldDay], bounds: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of views that read ``days``, one at least, of the window {since_ms}."""
    held = [day.day for day in days]
    return {
        "days": held,
        "odd_days": sorted({*range(held[0], held[-1])} - {*held}) or [_NO_DAY],
        "unread_weeks": [_date(monday) for monday in _unread_weeks(held, cast("int", bounds["since_ms"]))]
        or [_date(0)],
    }


def _unread_weeks(held: Sequence[int], since_ms: int) -> Iterator[int]:
    """Yield the Mondays of weeks of which no hour is read, up to the last held day.

    All their days are held, or end an hour before the window begins. Of earlier months nothing is read anyway.
    """
    begun = (since_ms - _HOUR_MS) // _DAY_MS
    first = max(begun - _MONTH_DAYS, 0)
    is_held = {*held}.__contains__
    for monday in range(first + (_MONDAY - first) % 7, held[-1], 7):
        if all(day < begun or is_held(day) for day in range(monday, monday + 7)):
            yield monday


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()


def _is_whole_hours(timezone: str, days: Sequence[HeldDay]) -> bool:
    """Return whether a zone differs from UTC by whole hours on all of the days."""
    local = zone(timezone)
    first = datetime.fromtimestamp(days[0].day * 86_400, UTC)
    hours = (days[-1].day - days[0].day + 1) * 24
    offsets = ((first + timedelta(hours=hour)).astimezone(local).utcoffset() for hour in range(hours))
    return all(offset is not None and not offset % timedelta(hours=1) for offset in offsets)
