"""Idle streaks of processes, and what limits would give back, from the rows of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.ports import ViewReader
from gua.core.view import Count, View
from gua.report.allocation_sources import SourceRow
from gua.report.parts import PartReader
from gua.report.prices import PricedTime, Prices
from gua.report.questions import Answer, ask, ask_if
from gua.report.sections.streaks.model import (
    FALSE_ALARM_MS,
    LONGER_THAN_MS,
    WHAT_IF_LIMITS_MS,
    StreakClass,
    Streaks,
    WhatIf,
    WhatIfEmpty,
)


class StreaksRow(NamedTuple):
    """Idle streaks of at least ``limit_ms``, and what a limit of that length would give back, GPU time in us.

    ``holder_hashes``: a number for each holder, where hosts are asked for in several parts.
    """

    limit_ms: Count
    streaks: Count
    holders: Count
    holder_hashes: tuple[int, ...]
    idle_ms: Count
    idle_held_us: Count
    given_back_us: Count
    false_alarms: Count
    idle_held_priced: tuple[PricedTime, ...]
    given_back_priced: tuple[PricedTime, ...]


class EmptyLimitsRow(NamedTuple):
    """Streaks of more than ``limit_ms`` in which allocations were empty, and what such a limit would give back [us]."""

    limit_ms: Count
    streaks: Count
    allocations: Count
    given_back_us: Count
    false_alarms: Count
    given_back_priced: tuple[PricedTime, ...]


EMPTY_LIMITS: Final = View("empty_limits", EmptyLimitsRow, (*READ, "limits_ms", "false_alarm_ms", *PRICED))
STREAKS: Final = View("streaks", StreaksRow, (*READ, "limits_ms", "false_alarm_ms", "in_parts", *PRICED))


def ask_streaks(
    reader: ViewReader, read: Mapping[str, object], limits_ms: Sequence[int], prices: Prices
) -> Answer[StreaksRow]:
    """Ask for the distribution of idle streaks and for what each limit would give back, a row a limit and part."""
    parameters = {
        **read,
        **prices.parameters,
        "limits_ms": sorted({*LONGER_THAN_MS, *(limits_ms or WHAT_IF_LIMITS_MS)}),
        "false_alarm_ms": FALSE_ALARM_MS,
        "in_parts": int(isinstance(reader, PartReader)),
    }
    return ask(reader, STREAKS, parameters)


def ask_empty_limits(
    reader: ViewReader,
    read: Mapping[str, object],
    limits_ms: Sequence[int],
    prices: Prices,
    sources: Callable[[], Sequence[SourceRow]],
) -> Answer[EmptyLimitsRow]:
    """Ask what taking back allocations that were empty for so long would have freed, where a source tells of any.

    There is a row a limit and part; an allocation counts once on each host.
    """
    limits = sorted(limits_ms or WHAT_IF_LIMITS_MS)
    parameters = {**read, **prices.parameters, "limits_ms": limits, "false_alarm_ms": FALSE_ALARM_MS}
    return ask_if(reader, sources, EMPTY_LIMITS, parameters)


def what_if_empty(rows: Iterable[EmptyLimitsRow], limits_ms: Sequence[int], prices: Prices) -> tuple[WhatIfEmpty, ...]:
    """Return a limit each; one that no streak reaches has no row."""
    by_limit: dict[int, list[EmptyLimitsRow]] = {}
    for row in rows:
        by_limit.setdefault(row.limit_ms, []).append(row)
    found = (
        EmptyLimitsRow(
            limit_ms=limit,
            streaks=sum(row.streaks for row in of_limit),
            allocations=sum(row.allocations for row in of_limit),
            given_back_us=sum(row.given_back_us for row in of_limit),
            false_alarms=sum(row.false_alarms for row in of_limit),
            given_back_priced=_priced(row.given_back_priced for row in of_limit),
        )
        for limit in sorted(limits_ms or WHAT_IF_LIMITS_MS)
        for of_limit in [by_limit.get(limit, [])]
    )
    return tuple(
        WhatIfEmpty(
            limit_ms=row.limit_ms,
            gpu_ms=row.given_back_us / 1000,
            cost=prices.cost(row.given_back_us, row.given_back_priced),
            reclaims=row.streaks,
            allocations=row.allocations,
            false_alarms=row.false_alarms,
        )
        for row in found
    )


def streaks(rows: Iterable[StreaksRow], limits_ms: Sequence[int], unknown_gpu_ms: float, prices: Prices) -> Streaks:
    """Return both from the rows of all limits; a limit that no streak reaches has no row."""
    by_limit: dict[int, list[StreaksRow]] = {}
    for row in rows:
        by_limit.setdefault(row.limit_ms, []).append(row)
    limits = {limit: _together(of_parts) for limit, of_parts in by_limit.items()}
    return Streaks(
        classes=tuple(_class(limit, limits.get(limit), prices) for limit in LONGER_THAN_MS),
        what_if=tuple(_what_if(limit, limits.get(limit), prices) for limit in sorted(limits_ms or WHAT_IF_LIMITS_MS)),
        unknown_gpu_ms=unknown_gpu_ms,
    )


def _together(rows: Sequence[StreaksRow]) -> StreaksRow:
    """Return what the rows of one limit are together, each of other hosts."""
    if len(rows) == 1:
        return rows[0]
    hashes = {holder for row in rows for holder in row.holder_hashes}
    return StreaksRow(
        limit_ms=rows[0].limit_ms,
        streaks=sum(row.streaks for row in rows),
        holders=len(hashes),
        holder_hashes=(),
        idle_ms=sum(row.idle_ms for row in rows),
        idle_held_us=sum(row.idle_held_us for row in rows),
        given_back_us=sum(row.given_back_us for row in rows),
        false_alarms=sum(row.false_alarms for row in rows),
        idle_held_priced=_priced(row.idle_held_priced for row in rows),
        given_back_priced=_priced(row.given_back_priced for row in rows),
    )


def _priced(parts: Iterable[tuple[PricedTime, ...]]) -> tuple[PricedTime, ...]:
    """Return times by price, of several parts added up."""
    added: Counter[int] = Counter()
    for part in parts:
        added.update(dict(part))
    return tuple(PricedTime(*one) for one in sorted(added.items()))


def _class(limit_ms: int, row: StreaksRow | None, prices: Prices) -> StreakClass:
    if row is None:
        row = _none(limit_ms)
    return StreakClass(
        longer_than_ms=limit_ms,
        streaks=row.streaks,
        holders=row.holders,
        idle_ms=row.idle_ms,
        idle_held_gpu_ms=row.idle_held_us / 1000,
        cost=prices.cost(row.idle_held_us, row.idle_held_priced),
    )


def _what_if(limit_ms: int, row: StreaksRow | None, prices: Prices) -> WhatIf:
    if row is None:
        row = _none(limit_ms)
    return WhatIf(
        limit_ms=limit_ms,
        gpu_ms=row.given_back_us / 1000,
        cost=prices.cost(row.given_back_us, row.given_back_priced),
        reclaims=row.streaks,
        holders=row.holders,
        false_alarms=row.false_alarms,
    )


def _none(limit_ms: int) -> StreaksRow:
    return StreaksRow(limit_ms, 0, 0, (), 0, 0, 0, 0, (), ())
