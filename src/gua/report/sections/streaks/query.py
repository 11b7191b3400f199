"""Streaks of a store: whether they are made, and the sections made of them: episodes, what-if, contention, timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.ports import ViewReader
from gua.core.view import Count, Moment, View
from gua.report.model import Card, Window
from gua.report.questions import Answer, ask
from gua.report.sections.contention.model import Contention
from gua.report.sections.streaks.model import (
    FALSE_ALARM_MS,
    LONGER_THAN_MS,
    WHAT_IF_LIMITS_MS,
    StreakClass,
    Streaks,
    WhatIf,
)
from gua.report.sections.timeline.model import CardTimeline, Presence, Timeline

MOST_CELLS: Final = 400
MOST_PRESENCES: Final = 6
_CELLS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10_080, 43_200)
)


class StreaksRow(NamedTuple):
    """Idle episodes of at least ``limit_ms``, and what a limit of that length would give back, GPU time in us."""

    limit_ms: Count
    episodes: Count
    holders: Count
    idle_ms: Count
    idle_held_us: Count
    given_back_us: Count
    false_alarms: Count


class ContentionRow(NamedTuple):
    """What somebody in want of a card found on a host, or on all of them (``is_total``)."""

    is_total: bool
    host: str
    cards: Count
    free_ms: Count
    contended_ms: Count
    busy_ms: Count
    unknown_ms: Count
    contended_us: Count


class Cell(NamedTuple):
    """A cell of a card's timeline by its number, ms in each state."""

    number: Count
    active_ms: Count
    idle_held_ms: Count
    truly_idle_ms: Count
    unknown_ms: Count


class TimelineRow(NamedTuple):
    """A card's cells that have ticks."""

    host: str
    gpu: str
    cells: tuple[Cell, ...]


class PresenceRow(NamedTuple):
    """One of the processes that were longest on a card: its ``place`` among so many ``processes``."""

    host: str
    gpu: str
    pid: Count
    owner: str | None
    program: str | None
    first_ms: Moment
    last_ms: Moment
    idle_ms: Count
    unknown_ms: Count
    processes: Count
    place: Count


STREAKS: Final = View("streaks", StreaksRow, (*READ, "limits_ms", "false_alarm_ms"))
CONTENTION: Final = View("contention", ContentionRow, READ)
TIMELINE: Final = View("timeline", TimelineRow, (*READ, "cell_ms"))
PRESENCES: Final = View("timeline_processes", PresenceRow, (*READ, "limit"))


def ask_streaks(reader: ViewReader, read: Mapping[str, object], limits_ms: Sequence[int]) -> Answer[StreaksRow]:
    """Ask for the distribution of idle episodes and for what each limit would give back."""
    limits = sorted({*LONGER_THAN_MS, *(limits_ms or WHAT_IF_LIMITS_MS)})
    return ask(reader, STREAKS, {**read, "limits_ms": limits, "false_alarm_ms": FALSE_ALARM_MS})


def streaks(rows: Iterable[StreaksRow], limits_ms: Sequence[int], unknown_gpu_ms: float) -> Streaks:
    """Return both from the rows of all limits; a limit that no episode reaches has no row."""
    by_limit = {row.limit_ms: row for row in rows}
    return Streaks(
        classes=tuple(_class(limit, by_limit.get(limit)) for limit in LONGER_THAN_MS),
        what_if=tuple(_what_if(limit, by_limit.get(limit)) for limit in sorted(limits_ms or WHAT_IF_LIMITS_MS)),
        unknown_gpu_ms=unknown_gpu_ms,
    )


def _class(limit_ms: int, row: StreaksRow | None) -> StreakClass:
    if row is None:
        return StreakClass(longer_than_ms=limit_ms, streaks=0, holders=0, idle_ms=0, idle_held_gpu_ms=0)
    return StreakClass(
        longer_than_ms=limit_ms,
        streaks=row.episodes,
        holders=row.holders,
        idle_ms=row.idle_ms,
        idle_held_gpu_ms=row.idle_held_us / 1000,
    )


def _what_if(limit_ms: int, row: StreaksRow | None) -> WhatIf:
    if row is None:
        return WhatIf(limit_ms=limit_ms, gpu_ms=0, reclaims=0, holders=0, false_alarms=0)
    return WhatIf(
        limit_ms=limit_ms,
        gpu_ms=row.given_back_us / 1000,
        reclaims=row.episodes,
        holders=row.holders,
        false_alarms=row.false_alarms,
    )


def contention(rows: Iterable[ContentionRow]) -> tuple[Contention, ...]:
    """Return all cards together first, then each host where there are several."""
    found = [
        Contention(
            host=None if row.is_total else row.host,
            cards=row.cards,
            free_ms=row.free_ms,
            contended_ms=row.contended_ms,
            busy_ms=row.busy_ms,
            unknown_ms=row.unknown_ms,
            contended_gpu_ms=row.contended_us / 1000,
        )
        for row in rows
    ]
    hosts = sorted((one for one in found if one.host is not None), key=lambda one: one.host or "")
    return tuple(hosts) if len(hosts) == 1 else (*(one for one in found if one.host is None), *hosts)


def cell_ms(window: Window) -> int:
    """Return the length of a timeline's cells: a round one, of which the window has :data:`MOST_CELLS` at most."""
    length = window.until_ms - window.since_ms
    return next((one for one in _CELLS_MS if length <= one * MOST_CELLS), -(-length // MOST_CELLS))


def ask_timeline(
    reader: ViewReader, read: Mapping[str, object], window: Window
) -> tuple[Answer[TimelineRow], Answer[PresenceRow]]:
    """Ask for the cells of each card, and for who was longest on it."""
    return (
        ask(reader, TIMELINE, {**read, "cell_ms": cell_ms(window)}),
        ask(reader, PRESENCES, {**read, "limit": MOST_PRESENCES}),
    )


def timeline(
    answers: tuple[Answer[TimelineRow], Answer[PresenceRow]], window: Window, cards: Sequence[Card]
) -> Timeline:
    """Return the timeline of every card, in the order of ``cards``."""
    length = cell_ms(window)
    count = -(-(window.until_ms - window.since_ms) // length)
    cells = {(row.host, row.gpu): row.cells for row in answers[0]()}
    present: dict[tuple[str, str], list[PresenceRow]] = {}
    for row in answers[1]():
        present.setdefault((row.host, row.gpu), []).append(row)
    return Timeline(
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        cell_ms=length,
        cards=tuple(
            _card_timeline(card, cells.get((card.host, card.gpu), ()), present.get((card.host, card.gpu), []), count)
            for card in cards
        ),
    )


def _card_timeline(card: Card, cells: Iterable[Cell], present: Sequence[PresenceRow], count: int) -> CardTimeline:
    known = {number: (active, held, free, unknown) for number, active, held, free, unknown in cells}
    ordered = sorted(present, key=lambda row: row.place)
    return CardTimeline(
        host=card.host,
        gpu=card.gpu,
        index=card.index,
        card_name=card.name,
        cells=tuple(known.get(number, (0, 0, 0, 0)) for number in range(count)),
        holders=tuple(
            Presence(
                owner=row.owner,
                program=row.program,
                pid=row.pid,
                since_ms=row.first_ms,
                until_ms=row.last_ms,
                idle_ms=row.idle_ms,
                unknown_ms=row.unknown_ms,
            )
            for row in ordered
        ),
        more_holders=ordered[0].processes - len(ordered) if ordered else 0,
    )
