"""Idle streaks of processes, and what a rule that reclaims cards would have given back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gua.report.allocation_sources import ask_sources
from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.kit.fields import Cells, Json, cells, columns, hours, to_json
from gua.report.model import Card, Headline
from gua.report.section import Csv, Section
from gua.report.sections.now.cut import ask_split
from gua.report.sections.streaks import text, what_if
from gua.report.sections.streaks.model import FALSE_ALARM_MS, StreakClass, Streaks, WhatIf
from gua.report.sections.streaks.query import ask_empty_limits, ask_streaks, streaks, what_if_empty
from gua.report.streak_limit import MOST_CARD_HOURS_IN_PARTS


def _collect(asking: Asking) -> Finish:
    limits_ms = asking.request.what_if_limits_ms
    split = ask_split(asking)
    prices = asking.prices
    answer = asking.once_in_parts(ask_streaks, limits_ms, prices)
    sources = asking.once(ask_sources)
    empty = asking.once_in_parts(ask_empty_limits, limits_ms, prices, sources)

    def finish(_headline: Headline, _cards: Sequence[Card]) -> Streaks:
        found = streaks(answer(), limits_ms, split().unknown_gpu_ms, prices)
        return replace(found, what_if_empty=what_if_empty(empty(), limits_ms, prices)) if sources() else found

    return finish


def _rows(found: Iterable[StreakClass], whose: str) -> Iterator[Cells]:
    for one in found:
        yield from with_currencies(cells(one), one.cost, [whose])


def _limits(found: Streaks) -> Iterator[Cells]:
    for rule, limits in (("idle", found.what_if), ("empty", found.what_if_empty)):
        for one in limits:
            yield from with_currencies({"rule": rule, **cells(one)}, one.cost, ["rule", "limit_seconds"])


STREAKS = Section(
    name="streaks",
    title="Idle streaks",
    model=Streaks,
    collect=_collect,
    text=text.streaks,
    json=lambda found: {"classes": to_json(found.classes), "unknown_gpu_hours": hours(found.unknown_gpu_ms)},
    csv=Csv(columns(StreakClass), lambda found, _report: _rows(found.classes, "longer_than_seconds")),
    streaks="needed",
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)


def _what_if(found: Streaks) -> Json:
    return {
        "limits": to_json(found.what_if),
        "empty_limits": to_json(found.what_if_empty),
        "false_alarm_seconds": FALSE_ALARM_MS // 1000,
        "unknown_gpu_hours": hours(found.unknown_gpu_ms),
    }


WHAT_IF = Section(
    name="what-if",
    title="What if idle cards were reclaimed",
    model=Streaks,
    collect=_collect,
    text=what_if.what_if,
    json=_what_if,
    csv=Csv(("rule", *columns(WhatIf), "allocations"), lambda found, _report: _limits(found)),
    streaks="needed",
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)
