"""Sections streaks and what-if: idle streaks of processes, and GPU time that an idle limit would have freed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple, TypeVar

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, View
from gua.report.context import Finish, ReportContext
from gua.report.costs import OneCost, with_currencies
from gua.report.hours import MOST_CARD_HOURS_IN_PARTS
from gua.report.kit.amounts import Amounts
from gua.report.kit.fields import AS_IS, Cells, Hours, Seconds, cells, columns, grouped, to_json
from gua.report.kit.figures import NONE, HourFormat, count, percent, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table
from gua.report.model import Card, Headline, Report
from gua.report.prices import PricedTime, Prices
from gua.report.section import Csv, Section
from gua.report.states import IDLE_HELD

W = TypeVar("W", bound="WhatIf")
LONGER_THAN_MS: Final = (0, 3_600_000, 8 * 3_600_000, 24 * 3_600_000)
WHAT_IF_LIMITS_MS: Final = tuple(minutes * 60_000 for minutes in (5, 15, 30, 60, 120, 240, 480, 1440))
FALSE_ALARM_MS: Final = 10 * 60_000
"""A reclaim is a false alarm if the process was active again within this time after the limit [ms]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreakClass:
    """Idle streaks longer than ``longer_than_ms``: their number, their holders, and the time in them [ms].

    ``idle_ms`` is the processes' own idle time. ``idle_held_gpu_ms`` is the GPU time attributed to them while the card
    was idle-held, ``cost`` its cost.
    """

    longer_than_ms: Seconds[int]
    streaks: int
    holders: int
    idle_ms: Hours[int]
    idle_held_gpu_ms: Hours[float]
    cost: OneCost = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIf:
    """The effect of reclaiming cards from processes that are idle longer than ``limit_ms``, over the window.

    ``gpu_ms`` is the GPU time freed [ms], ``cost`` its cost: time attributed to the process while the card was
    idle-held, after the first ``limit_ms`` of each idle streak. ``reclaims``: streaks longer than the limit.
    ``holders``: their holders (Slurm job, else pod, else container, else owner). ``false_alarms``: reclaims whose
    process was active again within :data:`FALSE_ALARM_MS` after the limit.
    """

    limit_ms: Seconds[int]
    gpu_ms: Hours[float]
    cost: OneCost = None
    reclaims: int
    holders: int
    false_alarms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfEmpty(WhatIf):
    """The effect of ending allocations that have no process longer than ``limit_ms``, over the window.

    ``gpu_ms`` is the GPU time freed [ms], ``cost`` its cost: of each allocated card, after the first ``limit_ms`` of
    each empty streak. ``reclaims``: streaks longer than the limit. ``holders``: their allocations.
    ``false_alarms``: reclaims whose owner had a process within :data:`FALSE_ALARM_MS` after the limit.
    """

    holders: Annotated[int, AS_IS.named("allocations")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Streaks:
    """The cumulative distribution of idle streaks, and the effect of each what-if limit.

    ``what_if_empty`` has the same limits for empty allocations; it is empty without an allocation source.
    """

    classes: tuple[StreakClass, ...]
    what_if: tuple[WhatIf, ...]
    what_if_empty: tuple[WhatIfEmpty, ...] = ()


class StreaksRow(NamedTuple):
    """Idle streaks longer than ``limit_ms``, and the GPU time [us] that such a limit would free.

    ``holder_hashes`` identifies the holders across batches of hosts.
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
    """Empty streaks of allocations longer than ``limit_ms``, and the GPU time [us] that such a limit would free."""

    limit_ms: Count
    streaks: Count
    allocations: Count
    given_back_us: Count
    false_alarms: Count
    given_back_priced: tuple[PricedTime, ...]


EMPTY_LIMITS: Final = View("empty_limits", EmptyLimitsRow, (*READ, *PRICED, "limits_ms", "false_alarm_ms"))
STREAKS: Final = View("streaks", StreaksRow, (*READ, *PRICED, "limits_ms", "false_alarm_ms", "in_parts"))


def what_if_empty(rows: Iterable[EmptyLimitsRow], limits_ms: Sequence[int], prices: Prices) -> tuple[WhatIfEmpty, ...]:
    """Return one result per limit; a limit that no streak reaches has no row and counts as 0."""
    parts = grouped(rows, lambda row: row.limit_ms)
    return tuple(
        _what_if(WhatIfEmpty, limit, parts.get(limit, ()), sum(row.allocations for row in parts.get(limit, ())), prices)
        for limit in limits_ms
    )


def streaks(rows: Iterable[StreaksRow], limits_ms: Sequence[int], prices: Prices) -> Streaks:
    """Return the distribution and the what-if limits; a limit that no streak reaches has no row and counts as 0."""
    parts = grouped(rows, lambda row: row.limit_ms)
    return Streaks(
        classes=tuple(_class_of(limit, parts.get(limit, ()), prices) for limit in LONGER_THAN_MS),
        what_if=tuple(
            _what_if(WhatIf, limit, parts.get(limit, ()), _holders(parts.get(limit, ())), prices) for limit in limits_ms
        ),
    )


def _class_of(limit_ms: int, parts: Sequence[StreaksRow], prices: Prices) -> StreakClass:
    idle_held_us = sum(row.idle_held_us for row in parts)
    return StreakClass(
        longer_than_ms=limit_ms,
        streaks=sum(row.streaks for row in parts),
        holders=_holders(parts),
        idle_ms=sum(row.idle_ms for row in parts),
        idle_held_gpu_ms=idle_held_us / 1000,
        cost=prices.cost(idle_held_us, _priced(row.idle_held_priced for row in parts)),
    )


def _holders(parts: Sequence[StreaksRow]) -> int:
    """Return the number of distinct holders, across batches of hosts."""
    return parts[0].holders if len(parts) == 1 else len({holder for row in parts for holder in row.holder_hashes})


def _what_if(
    kind: type[W], limit_ms: int, parts: Sequence[StreaksRow] | Sequence[EmptyLimitsRow], holders: int, prices: Prices
) -> W:
    given_back_us = sum(row.given_back_us for row in parts)
    return kind(
        limit_ms=limit_ms,
        gpu_ms=given_back_us / 1000,
        cost=prices.cost(given_back_us, _priced(row.given_back_priced for row in parts)),
        reclaims=sum(row.streaks for row in parts),
        holders=holders,
        false_alarms=sum(row.false_alarms for row in parts),
    )


def _priced(parts: Iterable[tuple[PricedTime, ...]]) -> tuple[PricedTime, ...]:
    """Return GPU time [us] by price, summed over batches of hosts."""
    added: Counter[int] = Counter()
    for part in parts:
        added.update(dict(part))
    return tuple(PricedTime(*one) for one in sorted(added.items()))


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the number of idle streaks above each length, and the hours in them."""
    amounts = Amounts.of_report(report)
    yield (
        "An idle streak is a process that holds a card and does nothing, until it is active again. Each line "
        "counts those of the lines below it, too."
    )
    rows = Rows(report[Streaks].classes)
    rows.add("longer than", lambda one: span(one.longer_than_ms) if one.longer_than_ms else "0 (all)", left=True)
    rows.add("streaks", lambda one: f"{one.streaks:,}")
    rows.add("holders", lambda one: f"{one.holders:,}")
    rows.add("idle hours", lambda one: hours.of(one.idle_ms), leaves=1)
    rows.add("GPU-hours", lambda one: hours.of(one.idle_held_gpu_ms))
    rows.add(amounts.titles("", style.name), lambda one: amounts.cells(one.cost))
    yield rows.table(notes=_NOTES)


_NOTES: Final = {
    "holders": "Slurm jobs, pods, containers or owners",
    "idle hours": "each process's own",
    "GPU-hours": "the idle-held time of cards that is theirs",
}


def _what_if_text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row per limit: GPU-hours freed, holders or allocations, false alarms."""
    found = report[Streaks]
    yield (
        "A rule that reclaims a card after an idle limit, applied to this window. "
        f"False alarm: active again within {span(FALSE_ALARM_MS)} after the limit."
    )
    yield _limits_table(found.what_if, report, style, hours, are_empty=False)
    if not found.what_if_empty:
        return
    yield Heading("What if empty allocations were taken back")
    yield (
        "A rule that reclaims an allocated card after a limit without a process, applied "
        f"over this window. False alarm: its owner came within {span(FALSE_ALARM_MS)} after the limit."
    )
    yield _limits_table(found.what_if_empty, report, style, hours, are_empty=True)


def _limits_table(
    limits: Sequence[WhatIf], report: Report, style: Style, hours: HourFormat, *, are_empty: bool
) -> Table:
    rows, amounts = Rows(limits), Amounts.of_report(report)
    what, whose = ("empty", "allocations") if are_empty else ("idle", "holders")
    rows.add(f"{what} for more than", lambda one: span(one.limit_ms), left=True)
    rows.add("GPU-hours back", lambda one: hours.of(one.gpu_ms))
    rows.add(amounts.titles("", style.name), lambda one: amounts.cells(one.cost))
    if not are_empty:
        held_ms = report.headline.states[IDLE_HELD].gpu_ms
        rows.add("% of idle-held", lambda one: percent(one.gpu_ms / held_ms) if held_ms else NONE, leaves=1)
    numbers = ("reclaims", whose, "false alarms")
    rows.add(numbers, lambda one: [*map(count, (one.reclaims, one.holders, one.false_alarms))])
    return rows.table()


def _collect(context: ReportContext) -> Finish:
    limits_ms = sorted(context.request.what_if_limits_ms or WHAT_IF_LIMITS_MS)
    prices, sources = context.prices, context.sources()
    every_ms, in_parts = sorted({*LONGER_THAN_MS, *limits_ms}), int(bool(context.parts))
    answer = context.rows(STREAKS, limits_ms=every_ms, in_parts=in_parts, batched=True, false_alarm_ms=FALSE_ALARM_MS)
    of_empty = {"limits_ms": limits_ms, "false_alarm_ms": FALSE_ALARM_MS}
    empty = context.rows(EMPTY_LIMITS, only_if=sources, batched=True, **of_empty)

    def finish(_headline: Headline, _cards: Sequence[Card]) -> Streaks:
        found = streaks(answer(), limits_ms, prices)
        return replace(found, what_if_empty=what_if_empty(empty(), limits_ms, prices)) if sources() else found

    return finish


def _rows(found: Streaks, _report: Report) -> Iterator[Cells]:
    for one in found.classes:
        yield from with_currencies(cells(one), one.cost, ["longer_than_seconds"])


def _limits(found: Streaks, _report: Report) -> Iterator[Cells]:
    for rule, limits in (("idle", found.what_if), ("empty", found.what_if_empty)):
        for one in limits:
            yield from with_currencies({"rule": rule, **cells(one)}, one.cost, ["rule", "limit_seconds"])


STREAKS_SECTION = Section(
    name="streaks",
    title="Idle streaks",
    model=Streaks,
    collect=_collect,
    text=_text,
    json=lambda found: {"classes": to_json(found.classes)},
    csv=Csv(columns(StreakClass), _rows),
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)


WHAT_IF_SECTION = Section(
    name="what-if",
    title="What if idle cards were reclaimed",
    model=Streaks,
    collect=_collect,
    text=_what_if_text,
    json=lambda found: {
        "limits": to_json(found.what_if),
        "empty_limits": to_json(found.what_if_empty),
        "false_alarm_seconds": FALSE_ALARM_MS // 1000,
    },
    csv=Csv(("rule", *columns(WhatIf), "allocations"), _limits),
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)
