"""Parse and format times (``7d`` ago, ISO 8601, ``yesterday``, ``2026-11``), durations, and names of time zones."""

import difflib
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from gua.core.errors import UsageError

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|seconds?|minutes?|hours?|days?|weeks?|[smhdw])", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT_MS = 100 * 366 * _MILLISECONDS["d"]


def parse_duration_ms(text: str) -> int:
    """Return a duration such as "30s", "1.5h", "2w", "1h30m" or "7 days" in whole milliseconds, rounded down.

    Raises :class:`UsageError` if the text cannot be parsed, or the duration is below 1 ms or above 100 years.
    """
    parts = list(_DURATION.finditer(text.strip()))
    if not parts or "".join(part.group(0) for part in parts) != text.strip():
        raise UsageError(f"{text!r} is not a duration: write a number and ms, s, m, h, d or w, as in 30s, 12h or 7d")
    units = ("ms" if part.group(2) == "ms" else part.group(2)[0] for part in parts)
    exact = sum(Decimal(part.group(1)) * _MILLISECONDS[unit] for part, unit in zip(parts, units, strict=True))
    if exact < 1:
        raise UsageError(f"the duration {text!r} is shorter than 1 ms: write a longer one, as in 30s")
    if exact > _LIMIT_MS:
        raise UsageError(f"the duration {text!r} is longer than 100 years: write a shorter one, as in 30d")
    return int(exact)


def format_duration(milliseconds: int) -> str:
    """Return a duration [ms] as one integer with the largest exact unit: ``30s``, ``5m``, ``1500ms``."""
    for unit in ("w", "d", "h", "m", "s"):
        if milliseconds and milliseconds % _MILLISECONDS[unit] == 0:
            return f"{milliseconds // _MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms"


def to_ms(moment: datetime) -> int:
    """Return an aware ``datetime`` as Unix time in whole milliseconds, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def to_rfc3339(unix_ms: int) -> str:
    """Return Unix time [ms] as RFC 3339 in UTC: ``2026-03-25T04:47:19.043Z``, without a fraction if it is 0."""
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{unix_ms % 1000:03d}Z" if unix_ms % 1000 else f"{text}Z"


WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])", re.ASCII)
# Years near datetime's limits would overflow when hours of a time zone are added.
_FIRST_YEAR, _LAST_YEAR = 1900, 2199
UTC_NAMES: Final = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


def parse_moment_ms(text: str, *, now_ms: int, timezone: tzinfo, newest_ms: int | None = None) -> int:
    """Return the Unix time [ms] of a time expression.

    Accepted are now, an ISO 8601 time, and the start of a day (today, yesterday, the latest of a weekday) or month.
    A duration counts back from ``newest_ms``, or from now without it. A time without an offset is in ``timezone``.
    Raises UsageError for anything else, and for years before 1900 or after 2199.
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
            raise UsageError(
                f"{text!r} is no moment: write a duration before now (7d, '12 hours'), a time (2026-03-25, "
                "2026-03-25T14:05), today, yesterday, a day of the week or a month (2026-03)"
            ) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise UsageError(f"{text!r} is too far away: write a time from the year {_FIRST_YEAR} to {_LAST_YEAR}")
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=timezone))


def month_ms(text: str, *, timezone: tzinfo) -> tuple[int, int]:
    """Return the start and end [Unix ms] of a month such as ``2026-11``. Raises UsageError."""
    first = _month(text.strip())
    if first is None or not _FIRST_YEAR <= first.year <= _LAST_YEAR:
        raise UsageError(f"{text!r} is not a month: write it as in 2026-11")
    return begin_ms(first, timezone), begin_ms((first + timedelta(days=31)).replace(day=1), timezone)


def last_week_ms(*, now_ms: int, timezone: tzinfo) -> tuple[int, int]:
    """Return the start and end [Unix ms] of the last complete week, Monday to Sunday."""
    today = local_day(now_ms, timezone)
    monday = today - timedelta(days=today.weekday())
    return begin_ms(monday - timedelta(days=7), timezone), begin_ms(monday, timezone)


def local_time(unix_ms: int, timezone: tzinfo) -> datetime:
    """Return the local time at a Unix time, in whole seconds."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).astimezone(timezone)


def local_day(unix_ms: int, timezone: tzinfo) -> date:
    """Return the local date at a Unix time."""
    return local_time(unix_ms, timezone).date()


def begin_ms(day: date, timezone: tzinfo) -> int:
    """Return the start of a day [Unix ms]: midnight, or the first instant after it if clocks skip midnight."""
    return to_ms(datetime.combine(day, time(), timezone))


def _day(word: str, now_ms: int, timezone: tzinfo) -> datetime | None:
    """Return midnight of the named day or of the month's first day, without a time zone; ``None`` for other words."""
    day = _month(word)
    if day is None and word in {"today", "yesterday", *WEEKDAYS}:
        today = local_day(now_ms, timezone)
        back = (today.weekday() - WEEKDAYS.index(word)) % 7 if word in WEEKDAYS else int(word == "yesterday")
        day = today - timedelta(days=back)
    return None if day is None else datetime.combine(day, time())


def _month(word: str) -> date | None:
    match = _MONTH.fullmatch(word)
    return date(int(match[1]), int(match[2]), 1) if match and int(match[1]) else None


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises UsageError."""
    zone_info = None
    if name != "localtime":  # a file on some systems, not a zone name
        with suppress(KeyError, ValueError, OSError):  # a folder of the database is an OSError
            zone_info = ZoneInfo(name)
    if zone_info is None:
        by_case = {one.casefold(): one for one in available_timezones()}
        near = difflib.get_close_matches(name.casefold(), by_case, n=1)
        hint = f"did you mean {by_case[near[0]]}?" if near else "as in Europe/Berlin or America/New_York"
        raise UsageError(f"unknown time zone {name!r}: give an IANA name, {hint}, or UTC or local")
    if name.startswith("right/"):
        raise UsageError(f"time zone {name!r} counts leap seconds, which no tick does: leave right/ out")
    return zone_info


def zone_name(text: str) -> str:
    """Return the IANA name in its exact case; every alias of UTC becomes UTC. Raises UsageError."""
    name = text.strip().removeprefix("posix/")
    try:
        zone(name)
    except UsageError:
        others = available_timezones() - {name}
        name = next((one for one in others if one.casefold() == name.casefold()), "")
        if not name:
            raise
    return "UTC" if name in UTC_NAMES else name
