"""Parsers of cells: times, memory, percentages, watts and unknown values as nvidia-smi writes them."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from gua.core.errors import UsageError
from gua.core.moments import to_ms
from gua.core.untrusted import require

Cell: TypeAlias = str | int | float | None
"""A value in a file: text in CSV; text, number or null in JSON."""

MIB: Final = 2**20
LONGEST_VALUE: Final = 256
"""Maximum characters of a number or time: the patterns take quadratic time on other text."""
_NUMBER = re.compile(r"([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%°]*)", re.ASCII)
_UNKNOWN = frozenset(
    ("", "n/a", "na", "nan", "none", "null", "-", "err!", "not supported", "unknown error", "unknown", "not found")
)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}", re.ASCII)
MOST_REASONS: Final = 0xFFFF
"""Mask of 16 bits: NVML defines eleven reasons, and higher bits mean that the value is something else."""
_LOST = ("gpu is lost", "requires reset", "reset required")
BYTES_PER_UNIT: Final = {
    "b": 1,
    "bytes": 1,
    "kb": 1000,
    "kib": 2**10,
    "mb": 10**6,
    "mib": MIB,
    "gb": 10**9,
    "gib": 2**30,
    "tb": 10**12,
    "tib": 2**40,
}
_MAX_BYTES = 2**50
_MAX_WATTS = 100_000
_MAX_CELSIUS = 1_000
_STAMP = re.compile(
    r"\s*([0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9]{2}:[0-9]{2}):([0-5][0-9])(?:[.,]([0-9]{1,9}))?\s*"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?\s*",
    re.ASCII,
)
_EPOCH = re.compile(r"\s*[0-9]{9,19}(?:\.[0-9]+)?\s*", re.ASCII)
_MAX_MS = to_ms(datetime(2200, 1, 1, tzinfo=UTC))
_MIN_MS = to_ms(datetime(2000, 1, 1, tzinfo=UTC))
_DISORDER_MS: Final = 60_000
_CACHED_MINUTES = 10_000


remembered: Final = lru_cache(maxsize=20_000)
"""Decorator of parsers: a recording repeats few values often. Lists raise TypeError."""


def is_unknown(cell: Cell) -> bool:
    """Return whether the cell means an unknown value: empty, N/A, ERR!, or anything in square brackets."""
    if cell is None:
        return True
    if not isinstance(cell, str):
        return False
    text = cell.strip()
    return text.lower() in _UNKNOWN or (text.startswith("[") and text.endswith("]"))


def is_lost(cell: Cell) -> bool:
    """Return whether the cell is nvidia-smi's message that the card is lost or needs a reset."""
    return isinstance(cell, str) and any(words in cell.lower() for words in _LOST)


def is_error(cell: Cell) -> bool:
    """Return whether the cell is ``ERR!`` or a message that the card is lost."""
    return is_lost(cell) or (isinstance(cell, str) and cell.strip().strip("[]").upper() == "ERR!")


def _number(cell: Cell, what: str) -> tuple[float, str] | None:
    """Return number and lower-case unit of a cell, ``None`` if it is unknown. Raises ValueError for anything else."""
    if is_unknown(cell):
        return None
    if isinstance(cell, str) and len(cell) <= LONGEST_VALUE and (match := _NUMBER.fullmatch(cell.strip())):
        number, unit = float(match.group(1)), match.group(2).lower()
    elif isinstance(cell, int | float) and not isinstance(cell, bool):
        number, unit = float(cell), ""
    else:
        raise ValueError(f"{what} is {cell.strip() if isinstance(cell, str) else cell!r}, not a number")
    if math.isfinite(number):
        return number, unit
    raise ValueError(f"{what} is {cell!r}, not a finite number")


def _within(number: float, low: float, high: float, what: str) -> float:
    if low <= number <= high:  # called for each row: formatting the message costs more than the check
        return number
    raise ValueError(f"{what} is {number:g}, not within {low:g} and {high:g}")


def _quantity_parser(
    what: str, units: Mapping[str, int], low: float, high: float, *, per: int = 1
) -> Callable[[Cell], float | None]:
    """Return a parser of numbers from ``low`` to ``high`` in the first unit; ``units`` are divisors to that unit.

    A number without a unit is in the first one. The parser divides its result by ``per``, returns ``None`` for unknown
    values and raises ValueError for invalid ones.
    """

    def parse(cell: Cell) -> float | None:
        measured = _number(cell, what)
        if measured is None:
            return None
        number, unit = measured
        divisor = units.get(unit) if unit else 1
        if divisor is None:
            expected = next(iter(units)).upper() if units else "no unit"
            raise ValueError(f"{what} has the unit {unit!r}: {expected} is expected")
        return _within(number / divisor, low, high, what) / per

    return parse


def percent_parser(what: str) -> Callable[[Cell], float | None]:
    """Return a parser of percentages (``"37 %"``, 37) to ratios from 0 to 1. The parser raises ValueError."""
    return _quantity_parser(what, {"%": 1}, 0, 100, per=100)


def ratio_parser(what: str) -> Callable[[Cell], float | None]:
    """Return a parser of ratios from 0 to 1, as DCGM writes them. The parser raises ValueError."""
    return _quantity_parser(what, {}, 0, 1)


watts = _quantity_parser("power", {"w": 1, "mw": 1000}, 0, _MAX_WATTS)
celsius = _quantity_parser("temperature", {"c": 1, "°c": 1, "cel": 1}, -_MAX_CELSIUS, _MAX_CELSIUS)


def memory_parser(what: str, default_unit: str) -> Callable[[Cell], int | None]:
    """Return a parser of memory to bytes; cells without a unit are in ``default_unit``. It raises ValueError."""

    def parse(cell: Cell) -> int | None:
        measured = _number(cell, what)
        if measured is None:
            return None
        number, unit = measured
        require((unit or default_unit) in BYTES_PER_UNIT, f"{what} has the unit {unit!r}: MiB is expected")
        return round(_within(number * BYTES_PER_UNIT[unit or default_unit], 0, _MAX_BYTES, what))

    return parse


def clock_reasons(cell: Cell) -> int | None:
    """Return the bit mask of clock event reasons in a decimal or hexadecimal cell. Raises ValueError if invalid."""
    if isinstance(cell, str) and _HEX.fullmatch(cell.strip()):
        cell = int(cell, 16)
    return whole(cell, "clock event reasons", MOST_REASONS)


def whole(cell: Cell, what: str, high: int) -> int | None:
    """Return the integer in a cell, ``None`` if unknown. Raises ValueError unless it is from 0 to ``high``."""
    measured = _number(cell, what)
    if measured is None:
        return None
    number, unit = measured
    is_whole = not unit and number == int(number) and 0 <= number <= high
    require(is_whole, f"{what} is {cell!r}, not a whole number from 0 to {high}")
    return int(number)


def label(cell: Cell, what: str) -> str | None:
    """Return a stripped name, ``None`` if unknown. Raises ValueError if not printable or above 256 characters."""
    if is_unknown(cell):
        return None
    text = str(cell).strip()
    is_text = text.isprintable() and len(text) <= 256
    require(is_text, f"{what} holds characters that are not text, or more than 256")
    return text


def parse_size(text: str) -> int:
    """Return the bytes for a size such as ``"600MiB"`` or ``"1.5 GiB"``. Raises UsageError for any other text."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)", text.strip(), re.ASCII)
    unit = BYTES_PER_UNIT.get(match.group(2).lower()) if match else None
    if match is None or unit is None or (size := int(Fraction(match.group(1)) * unit)) > _MAX_BYTES:
        raise UsageError(f"{text!r} is not a size: write a number and B, KiB, MiB or GiB, as in 600MiB")
    return size


class Timestamps:
    """Stateful parser of the times of one file, in the order of its rows; the last cell is cached.

    Formats: local time (``2026/03/25 04:47:19.043``), ISO 8601 with or without an offset, or Unix time in s, ms, µs or
    ns. A local time that occurs twice, at the end of daylight saving time, is the earlier one. It is the later one if
    that avoids going back by more than a minute. ``without_offset`` is whether any time had no offset.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._minute = lru_cache(maxsize=_CACHED_MINUTES)(self._read_minute)
        self._cell: Cell = math.nan  # NaN equals nothing, so the first cell is parsed
        self._last_ms = 0
        self.without_offset = False

    def parse(self, cell: Cell) -> int:
        """Return the time as Unix ms, rounded down. Raises ValueError unless it is a time from 2000 to 2200."""
        if cell == self._cell:
            return self._last_ms
        earlier, later = self._read(cell)
        twice = later > earlier and earlier < self._last_ms - _DISORDER_MS <= later
        self._last_ms = later if twice else earlier
        self._cell = cell
        return self._last_ms

    def _read(self, cell: Cell) -> tuple[int, int]:
        match = _STAMP.fullmatch(cell) if isinstance(cell, str) and len(cell) <= LONGEST_VALUE else None
        if match is None:
            return self._unix(cell)
        minute, second, fraction, offset = match.groups()
        earlier, later = self._minute(minute, offset)
        within = int(second) * 1000 + int((fraction or "0").ljust(3, "0")[:3])
        return earlier + within, later + within

    def _read_minute(self, minute: str, offset: str | None) -> tuple[int, int]:
        """Return the start of a minute (Unix ms) at its first and second occurrence on a local clock."""
        try:
            moment = datetime.fromisoformat(minute.replace("/", "-") + (offset or ""))
            if offset is None:
                self.without_offset = True
                moment = moment.replace(tzinfo=self._zone)
            bounds = to_ms(moment), to_ms(moment.replace(fold=1))
        except (ValueError, OverflowError):
            raise ValueError(f"timestamp {minute!r} is not a date and time") from None
        require(_MIN_MS <= bounds[0] <= _MAX_MS, "timestamp is not between the years 2000 and 2200")
        # In the gap at the start of daylight saving time fold=1 is before fold=0; such times never occur.
        return bounds[0], max(bounds)

    def _unix(self, cell: Cell) -> tuple[int, int]:
        number = cell
        if isinstance(cell, str) and _EPOCH.fullmatch(cell):
            number = float(cell) if "." in cell else int(cell)
        if isinstance(number, bool) or not isinstance(number, int | float):
            shown = "missing" if is_unknown(cell) else repr(cell)
            msg = f"timestamp is {shown}, not a time such as 2026/03/25 04:47:19.043 or 2026-03-25T04:47:19Z"
            raise ValueError(msg)  # noqa: TRY004 - same error for any type of cell
        # Only one of seconds, milli-, micro- and nanoseconds is between 2000 and 2200.
        for per_ms, scale in ((1, 1000), (1, 1), (1000, 1), (1_000_000, 1)):
            if _MIN_MS <= number * scale / per_ms <= _MAX_MS:
                unix_ms = number * scale // per_ms if isinstance(number, int) else int(number * scale / per_ms + 1e-4)
                return unix_ms, unix_ms
        raise ValueError(f"timestamp {cell!r} is not a Unix time between the years 2000 and 2200")
