"""Checks and conversions for untrusted values decoded from JSON."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

Check = Callable[[object], bool]

LAST_MS: Final = 253_402_300_799_999  # end of the year 9999, the last that ``datetime`` supports
_LONGEST_NAME: Final = 1_024


def require(condition: object, problem: str) -> None:
    """Raise ValueError with ``problem`` as its message unless ``condition`` is true."""
    if not condition:
        raise ValueError(problem)


def is_within(least: int, most: int) -> Check:
    """Return a check for integers from ``least`` to ``most``, both included; a bool fails."""
    return lambda value: type(value) is int and least <= value <= most


def is_like(pattern: str) -> Check:
    """Return a check for strings that match the regular expression ``pattern`` in full."""
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


is_whole: Final = is_within(-(2**63), 2**63 - 1)
is_count: Final = is_within(0, 2**64 - 1)
is_moment: Final = is_within(0, LAST_MS)  # Unix time in ms


def is_number(value: object) -> bool:
    """Return whether the value is an int or a finite float; a bool is neither."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def is_flag(value: object) -> bool:
    """Return whether the value equals 0 or 1, as True and False do."""
    return value in (0, 1)


def is_text(value: object) -> bool:
    """Return whether the value is a string."""
    return isinstance(value, str)


def is_host(value: object) -> bool:
    """Return whether the value can be a host name: at most 1,024 characters, no lone surrogates."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return False
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def is_labels(value: object) -> bool:
    """Return whether the value is a dict with string keys and string values."""
    return isinstance(value, dict) and all(is_text(part) for pair in value.items() for part in pair)


def is_word_of(*words: str) -> Check:
    """Return a check for strings that equal one of ``words``."""
    return lambda value: isinstance(value, str) and value in words


def is_list_of(check: Check, *, most: float = math.inf) -> Check:
    """Return a check for lists or tuples of at most ``most`` values that all pass ``check``."""
    return lambda values: isinstance(values, (list, tuple)) and len(values) <= most and all(map(check, values))


def is_row_of(*checks: Check) -> Check:
    """Return a check for lists or tuples with one value per check, in the same order; each must pass its own."""
    return lambda row: (
        isinstance(row, (list, tuple))
        and len(row) == len(checks)
        and all(check(value) for check, value in zip(checks, row, strict=True))
    )


def or_unknown(check: Check) -> Check:
    """Return a check that accepts ``None`` and everything that ``check`` accepts."""
    return lambda value: value is None or check(value)


def parsed_json(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text, ``None`` if it is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def object_in(value: object) -> dict[str, Any]:
    """Return the value if it is a dict, else an empty dict."""
    return value if isinstance(value, dict) else {}


def list_in(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the dicts in a list and skip other items; return an empty list if the value is not a list."""
    return [item for item in list_in(value) if isinstance(item, dict)]


def text_in(value: object) -> str | None:
    """Return the value if it is a string, else ``None``."""
    return value if isinstance(value, str) else None


def number_in(value: object) -> float | None:
    """Return the value as a float if it is a finite number below 2**64 in magnitude, else ``None``."""
    return float(value) if isinstance(value, (int, float)) and is_number(value) and abs(value) < 2**64 else None


def count_in(value: object) -> int | None:
    """Return the value if it is an integer from 0 to 2**64 - 1, else ``None``."""
    return value if isinstance(value, int) and is_count(value) else None
