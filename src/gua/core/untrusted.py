"""Values of unknown origin, as JSON brings them: whether they are what they should be, and what is left if not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

Check = Callable[[object], bool]

LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, where calendars stop
_LONGEST_NAME: Final = 1_024


def require(condition: object, problem: str) -> None:
    """Raise ValueError, with the problem in a few plain words, unless the condition holds."""
    if not condition:
        raise ValueError(problem)


def is_within(least: int, most: int) -> Check:
    """Return a check of whole numbers from ``least`` to ``most``, both included."""
    return lambda value: type(value) is int and least <= value <= most


def is_like(pattern: str) -> Check:
    """Return a check of text that a pattern fits as a whole."""
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


is_whole: Final = is_within(-(2**63), 2**63 - 1)
is_count: Final = is_within(0, 2**64 - 1)
is_moment: Final = is_within(0, LAST_MS)  # Unix time in ms


def is_number(value: object) -> bool:
    """Return whether this is a number and not infinite, nor a truth value."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def is_flag(value: object) -> bool:
    """Return whether this is 0 or 1, or a truth value."""
    return value in (0, 1)


def is_text(value: object) -> bool:
    """Return whether this is text."""
    return isinstance(value, str)


def is_host(value: object) -> bool:
    """Return whether this can be a host's name: text that UTF-8 can hold, and not endless."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return False
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def is_labels(value: object) -> bool:
    """Return whether this is an object of text by text."""
    return isinstance(value, dict) and all(is_text(part) for pair in value.items() for part in pair)


def is_word_of(*words: str) -> Check:
    """Return a check of text that is one of the words."""
    return lambda value: isinstance(value, str) and value in words


def is_list_of(check: Check, *, most: float = math.inf) -> Check:
    """Return a check of a list of which every value passes, of ``most`` values at most."""
    return lambda values: isinstance(values, (list, tuple)) and len(values) <= most and all(map(check, values))


def is_row_of(*checks: Check) -> Check:
    """Return a check of a list with one value for each of the checks."""
    return lambda row: (
        isinstance(row, (list, tuple))
        and len(row) == len(checks)
        and all(check(value) for check, value in zip(checks, row, strict=True))
    )


def or_unknown(check: Check) -> Check:
    """Return a check that takes ``None`` besides."""
    return lambda value: value is None or check(value)


def object_in(value: object) -> dict[str, Any]:
    """Return an object, an empty one if it is none."""
    return value if isinstance(value, dict) else {}


def list_in(value: object) -> list[Any]:
    """Return a list, an empty one if it is none."""
    return value if isinstance(value, list) else []


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; whatever else is in it is left out."""
    return [item for item in list_in(value) if isinstance(item, dict)]


def text_in(value: object) -> str | None:
    """Return text, ``None`` if it is none."""
    return value if isinstance(value, str) else None


def number_in(value: object) -> float | None:
    """Return a number of a size that times and amounts have, ``None`` if it is none."""
    return float(value) if isinstance(value, (int, float)) and is_number(value) and abs(value) < 2**64 else None


def count_in(value: object) -> int | None:
    """Return a whole number, 0 or more, ``None`` if it is none."""
    return value if isinstance(value, int) and is_count(value) else None
