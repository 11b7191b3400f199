"""What a value of a question or an answer over the local socket may be, each as a yes or no."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

Check = Callable[[object], bool]

STATES: Final = ("active", "idle-held", "truly-idle", "unknown")
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, where calendars stop
_MOST_HOURS: Final = 100_000
_LONGEST_NAME: Final = 1_024
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def is_number(value: object) -> bool:
    """Return whether this is a number and not infinite, nor a truth value."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def is_moment(value: object) -> bool:
    """Return whether this is a Unix time in ms that a calendar can tell."""
    return type(value) is int and 0 <= value <= _LAST_MS


def is_count(value: object) -> bool:
    """Return whether this is a whole number, 0 or more, of 64 bits."""
    return type(value) is int and 0 <= value < 2**64


def is_text(value: object) -> bool:
    """Return whether this is text."""
    return isinstance(value, str)


def or_unknown(check: Check) -> Check:
    """Return a check that takes ``None`` besides."""
    return lambda value: value is None or check(value)


def is_flag(value: object) -> bool:
    """Return whether this is 0 or 1, or a truth value."""
    return value in (0, 1)


def is_whole(value: object) -> bool:
    """Return whether this is a whole number of 64 bits."""
    return type(value) is int and -(2**63) <= value < 2**63


def are_hours(value: object) -> bool:
    """Return whether this is a list of hours as numbers, not endless."""
    return isinstance(value, list) and len(value) <= _MOST_HOURS and all(map(is_whole, value))


def is_hour(value: object) -> bool:
    """Return whether this is an hour of the day."""
    return type(value) is int and 0 <= value < 24


def is_weekday(value: object) -> bool:
    """Return whether this is a day of the week, 1 (Monday) to 7."""
    return type(value) is int and 1 <= value <= 7


def is_date(value: object) -> bool:
    """Return whether this is a date as ``2026-03-25``."""
    return isinstance(value, str) and _DATE.fullmatch(value) is not None


def is_state(value: object) -> bool:
    """Return whether this is a state of a card."""
    return value in STATES


def is_row_of(*checks: Check) -> Check:
    """Return a check of a list with one value for each of the checks."""
    return lambda row: (
        isinstance(row, (list, tuple))
        and len(row) == len(checks)
        and all(check(value) for check, value in zip(checks, row, strict=True))
    )


def is_list_of(check: Check) -> Check:
    """Return a check of a list of which every value passes."""
    return lambda rows: isinstance(rows, (list, tuple)) and all(map(check, rows))


def is_labels(value: object) -> bool:
    """Return whether this is an object of text by text."""
    return isinstance(value, dict) and all(is_text(one) for pair in value.items() for one in pair)


def is_host(value: object) -> bool:
    """Return whether this can be a host's name: text that UTF-8 can hold, and not endless."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return False
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


is_ratio: Final = or_unknown(is_number)
is_name: Final = or_unknown(is_text)
is_moment_or_unknown: Final = or_unknown(is_moment)
is_count_or_unknown: Final = or_unknown(is_count)
