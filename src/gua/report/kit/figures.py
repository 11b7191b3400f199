"""Formatting of numbers: parts add up to the totals beside them, and a nonzero value never prints as zero."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from gua.report.states import MS_PER_HOUR

NONE = "-"
NOT_ZERO = "<0.1"
_SHARE_PARTS = 1000
_FLOAT_NOISE = 1e-9
_SPAN_UNITS = (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1))


def apportion(values: Sequence[float], parts: int) -> list[int]:
    """Split ``parts`` in proportion to ``values`` by largest remainder, so that the whole parts add up to it.

    All zero if the values are. Source: the Hamilton method; ties go to the earlier value.
    """
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    exact = [value * parts / total for value in values]
    whole = [math.floor(part) for part in exact]
    by_remainder = sorted(range(len(values)), key=lambda place: whole[place] - exact[place])
    for place in by_remainder[: parts - sum(whole)]:
        whole[place] += 1
    return whole


def apportion_rest(values: Sequence[float], parts: int) -> list[int]:
    """Split ``parts`` as :func:`apportion` does, with the first rounded by itself: smaller values never exceed it."""
    total = sum(values)
    first = round(values[0] * parts / total) if total > 0 else 0
    return [first, *apportion(values[1:], parts - first)]


def percents(values: Sequence[float], split: Callable[[Sequence[float], int], list[int]] = apportion) -> list[str]:
    """Return each value's percentage of the sum with one decimal; together 100.0; ``-`` if the sum is 0.

    A nonzero value is at least ``<0.1``, a part of the whole at most ``>99.9``. ``split`` does the rounding.
    """
    total = sum(values)
    if total <= 0:
        return [NONE] * len(values)
    tenths = split(values, _SHARE_PARTS)
    return [
        NOT_ZERO if value > 0 and part == 0 else _percent(value / total, part)
        for value, part in zip(values, tenths, strict=True)
    ]


def points(now: Sequence[float], then: Sequence[float]) -> list[str]:
    """Return the change of each part's percentage in points, consistent with :func:`percents` of both."""
    if sum(now) <= 0 or sum(then) <= 0:
        return [NONE] * len(now)
    both = zip(apportion(now, _SHARE_PARTS), apportion(then, _SHARE_PARTS), strict=True)
    return [f"{(one - before) / 10:+.1f}" for one, before in both]


def within(values: Sequence[float], place: int, parts: Sequence[float]) -> list[str]:
    """Return the parts of one value in percent of all values; they add up to its :func:`percents`."""
    total = sum(values)
    if total <= 0:
        return [NONE] * len(parts)
    tenths = apportion(parts, apportion(values, _SHARE_PARTS)[place])
    return [_percent(part / total, tenth) for part, tenth in zip(parts, tenths, strict=True)]


def percent(ratio: float | None) -> str:
    """Return a ratio in percent with one decimal, ``-`` if unknown."""
    if ratio is None:
        return NONE
    return _percent(ratio, round(ratio * _SHARE_PARTS))


def _percent(ratio: float, tenths: int) -> str:
    if tenths == 0 and ratio > 0:
        return NOT_ZERO
    if tenths == _SHARE_PARTS and ratio < 1 - _FLOAT_NOISE:
        return ">99.9"
    return f"{tenths / 10:.1f}"


@dataclass(frozen=True, slots=True)
class HourFormat:
    """The format of all GPU-hours of one report: the same number of decimals, by the report's size."""

    decimals: int

    @classmethod
    def fitting(cls, total_ms: float) -> Self:
        """Return the format for a report of ``total_ms``: three decimals below ten hours, one from 100 on."""
        hours = total_ms / MS_PER_HOUR
        return cls(3 if hours < 10 else 2 if hours < 100 else 1)

    def of(self, milliseconds: float) -> str:
        """Return hours with thousands separators; ``<0.1`` for a nonzero value that rounds to zero."""
        return self.written(milliseconds, round(milliseconds * 10**self.decimals / MS_PER_HOUR))

    def parts(
        self, values: Sequence[float], split: Callable[[Sequence[float], int], list[int]] = apportion
    ) -> list[str]:
        """Return the hours of parts so that they add up to their total as :meth:`of` writes it."""
        units = self.units(values, split)
        return [self.written(value, unit) for value, unit in zip(values, units, strict=True)]

    def units(
        self, values: Sequence[float], split: Callable[[Sequence[float], int], list[int]] = apportion
    ) -> list[int]:
        """Return the parts in units of the last decimal, as :meth:`parts` writes them."""
        return split(values, round(sum(values) * 10**self.decimals / MS_PER_HOUR))

    def within(self, values: Sequence[float], place: int, parts: Sequence[float]) -> list[str]:
        """Return the hours of one value's parts so that they add up to it as :meth:`parts` writes it."""
        units = apportion(parts, self.units(values)[place])
        return [self.written(part, unit) for part, unit in zip(parts, units, strict=True)]

    def written(self, milliseconds: float, units: int) -> str:
        """Return ``units`` of the last decimal as hours; ``<0.1`` for a nonzero value of 0 units."""
        if units == 0 and milliseconds > 0:
            return f"<{10**-self.decimals:.{self.decimals}f}"
        return f"{units / 10**self.decimals:,.{self.decimals}f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 card``, ``2,000 cards``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def count(number: int | None) -> str:
    """Return an integer with thousands separators, ``-`` if unknown."""
    return NONE if number is None else f"{number:,}"


def ranges(numbers: Iterable[int]) -> str:
    """Return integers as ranges: ``0-3,5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def span(milliseconds: float | None) -> str:
    """Return a duration rounded down, in two units at most: ``4ms``, ``12s``, ``3h 12m``, ``2d 4h``.

    A negative duration is ``0s``, an unknown one ``-``.
    """
    if milliseconds is None:
        return NONE
    if 0 < milliseconds < 1000:
        return f"{int(milliseconds)}ms"
    whole = max(int(milliseconds // 1000), 0)
    for unit, unit_seconds, part, part_seconds in _SPAN_UNITS:
        if whole >= unit_seconds:
            rest = whole % unit_seconds // part_seconds
            return f"{whole // unit_seconds}{unit}" + (f" {rest}{part}" if rest else "")
    return f"{whole}s"


def at_least(milliseconds: float, *, is_lower_bound: bool) -> str:
    """Return a duration, marked with ``>`` if it is a lower bound."""
    return f"> {span(milliseconds)}" if is_lower_bound else span(milliseconds)


def amount(value: float | None, decimals: int = 1) -> str:
    """Return a number with thousands separators; ``<0.1`` for a nonzero value that rounds to zero, ``-`` if unknown."""
    if value is None:
        return NONE
    least = 10**-decimals
    if 0 < abs(value) < least / 2:
        return f"{'<' if value > 0 else '>-'}{least:.{decimals}f}"
    return f"{value:,.{decimals}f}"


def amounts(values: Sequence[float], decimals: int = 1) -> list[str]:
    """Return nonnegative amounts rounded so that they add up to their sum as :func:`amount` writes it."""
    return [*map(HourFormat(decimals).written, values, apportion(values, round(sum(values) * 10**decimals)))]
