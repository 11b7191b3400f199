"""Moments as people name them: ``7d`` ago, an ISO 8601 time, ``yesterday``, ``monday``, ``2026-11``; and time zones."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from gua.core.durations import parse_duration_ms, to_ms
from gua.core.errors import UsageError

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])", re.ASCII)
# Beyond these the hours of a zone would soon be no times of Python's any more.
_FIRST_YEAR, _LAST_YEAR = 1900, 2199
UTC_NAMES: Final = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


def parse_moment_ms(text: str, *, now_ms: int, timezone: tzinfo, newest_ms: int | None = None) -> int:
    """Return the Unix time in ms of a moment as written.

    That is now, an ISO 8601 time, the beginning of a day (today, yesterday, or the last one of its weekday) or a month,
    or a duration counted back from ``newest_ms``, now if not given. What has no offset is local to ``timezone``.
    Raises UsageError.
    """
    word = text.strip()
    if word.lower() == "now":
        return now_ms
    moment = _day(word.lower(), now_ms, timezone)
    if moment is None:
        with suppress(ValueError):
            moment = datetime.fromisoformat(word)
    if moment is None:
        try:
            return (now_ms if newest_ms is None else newest_ms) - parse_duration_ms(word)
        except UsageError:
            msg = (
                f"{text!r} is no moment: write a duration before now (7d, '12 hours'), a time (2026-03-25, "
                "2026-03-25T14:05), today, yesterday, a day of the week or a month (2026-03)"
            )
            raise UsageError(msg) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        msg = f"{text!r} is too far away: write a time from the year {_FIRST_YEAR} to {_LAST_YEAR}"
        raise UsageError(msg)
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=timezone))


def month_ms(text: str, *, timezone: tzinfo) -> tuple[int, int]:
    """Return the begin and end, Unix ms, of a month such as ``2026-11``. Raises UsageError."""
    first = _month(text.strip())
    if first is None or not _FIRST_YEAR <= first.year <= _LAST_YEAR:
        msg = f"{text!r} is no month: write it as in 2026-11"
        raise UsageError(msg)
    return begin_ms(first, timezone), begin_ms((first + timedelta(days=31)).replace(day=1), timezone)


def last_week_ms(*, now_ms: int, timezone: tzinfo) -> tuple[int, int]:
    """Return the begin and end, Unix ms, of the last week that is over, Monday to Sunday."""
    today = local_day(now_ms, timezone)
    monday = today - timedelta(days=today.weekday())
    return begin_ms(monday - timedelta(days=7), timezone), begin_ms(monday, timezone)


def local_day(unix_ms: int, timezone: tzinfo) -> date:
    """Return the day that it is somewhere at a moment."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).astimezone(timezone).date()


def begin_ms(day: date, timezone: tzinfo) -> int:
    """Return when a day begins, Unix ms: midnight, or where clocks skip it the first moment after."""
    return to_ms(datetime.combine(day, time(), timezone))


def _day(word: str, now_ms: int, timezone: tzinfo) -> datetime | None:
    """Return the day or month that a word names, at midnight."""
    day = _month(word)
    if day is None and word in {"today", "yesterday", *WEEKDAYS}:
        today = local_day(now_ms, timezone)
        back = (today.weekday() - WEEKDAYS.index(word)) % 7 if word in WEEKDAYS else int(word == "yesterday")
        day = today - timedelta(days=back)
    return None if day is None else datetime.combine(day, time())


def _month(word: str) -> date | None:
    found = _MONTH.fullmatch(word)
    return date(int(found[1]), int(found[2]), 1) if found and int(found[1]) else None


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises UsageError."""
    if name == "localtime":  # a file of some systems, and no zone's name
        raise _unknown_zone(name)
    try:
        found = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a folder of the database is an OSError
        raise _unknown_zone(name) from None
    if name.startswith("right/"):
        msg = f"time zone {name!r} counts leap seconds, which no tick does: leave right/ out"
        raise UsageError(msg)
    return found


def zone_name(text: str) -> str:
    """Return the IANA name that is meant, whatever its case; every name of UTC is UTC. Raises UsageError."""
    name = text.strip().removeprefix("posix/")
    try:
        zone(name)
    except UsageError:
        others = available_timezones() - {name}
        name = next((one for one in others if one.casefold() == name.casefold()), "")
        if not name:
            raise
    return "UTC" if name in UTC_NAMES else name


def _unknown_zone(name: str) -> UsageError:
    by_case = {one.casefold(): one for one in available_timezones()}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1)
    hint = f"did you mean {by_case[near[0]]}?" if near else "as in Europe/Berlin or America/New_York"
    return UsageError(f"unknown time zone {name!r}: give an IANA name, {hint}, or UTC or local")
