"""The first pass over a recording: every row is read and checked before anything is delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gua.core.durations import format_duration, to_rfc3339
from gua.core.errors import DataError, UsageError
from gua.imports.rows import RecordedCardRow

MAX_INTERVAL_MS: Final = 86_400_000
MAX_AHEAD_MS: Final = 86_400_000
"""How far ahead of the clock a store takes ticks: what lies further would be left out of all that it tells."""
_EXACT_MS = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What the first pass found. Times are those of the first and the last row, Unix time in ms.

    ``card_ticks`` counts rows without ``duplicates`` (rows that stand twice, letter for letter).
    ``inferred`` tells that the interval is the median distance of rows, not given.
    """

    card_ticks: int
    ticks: int
    cards: int
    hosts: tuple[str, ...]
    first_ms: int
    last_ms: int
    interval_ms: int
    inferred: bool
    duplicates: int


class Spacings:
    """The distances between the rows of each card: exact to the millisecond up to a minute, then to the second."""

    def __init__(self) -> None:
        self._counts: defaultdict[int, int] = defaultdict(int)

    def add(self, spacing_ms: int) -> None:
        """Count one distance. What is kept is bounded, whatever the distances are."""
        if spacing_ms > _EXACT_MS:
            spacing_ms = min((spacing_ms + 500) // 1000 * 1000, MAX_INTERVAL_MS + 1000)
        self._counts[spacing_ms] += 1

    def median_ms(self) -> int | None:
        """Return the median (of an even number: the mean of the middle two), ``None`` if nothing was counted."""
        total = sum(self._counts.values())
        if total == 0:
            return None
        middle, passed = [], 0
        for spacing in sorted(self._counts):
            reached = passed + self._counts[spacing]
            middle += [spacing for position in ((total - 1) // 2, total // 2) if passed <= position < reached]
            passed = reached
        return sum(middle) // len(middle)


def nominal_interval_ms(spacings: Spacings) -> int:
    """Return the median distance of a card's rows, rounded to a second and at least one.

    Raises UsageError if there is none, or if it is too long for a row to stand for all of it.
    """
    median = spacings.median_ms()
    if median is None:
        msg = "one row of each card does not tell the interval: give it with --interval, as in --interval 30s"
        raise UsageError(msg)
    if median > MAX_INTERVAL_MS:
        msg = "the rows of a card are more than a day apart: give what each stands for with --interval, as in 1h"
        raise UsageError(msg)
    return max(1000, (median + 500) // 1000 * 1000)


def check_not_ahead(where: str, newest_ms: int, now_ms: int) -> None:
    """Raise DataError if a recording ends more than a day ahead of the clock (Unix time in ms)."""
    if newest_ms > now_ms + MAX_AHEAD_MS:
        msg = (
            f"{where}: a row is of {to_rfc3339(newest_ms)}, more than a day ahead of this host's clock "
            f"({to_rfc3339(now_ms)}), and a store takes no such ticks: correct the times or the clock"
        )
        raise DataError(msg)


def survey(rows: Iterable[RecordedCardRow], *, interval_ms: int | None, in_order: bool) -> Survey:
    """Read the merged rows once and check them.

    ``interval_ms`` is the nominal interval, inferred if it is ``None``. ``in_order`` asks that times never go
    back from card to card either, as process lists are joined on the way. Raises DataError for times of a card
    that go back and for two different rows of a card at one time, UsageError if nothing tells the interval.
    """
    last: dict[tuple[str, str], RecordedCardRow] = {}
    spacings = Spacings()
    moment = newest = 0
    first = 2**62
    card_ticks = ticks = duplicates = 0
    for row in rows:
        ts_ms, card = row.ts_ms, row.card
        key = card.host, card.uuid
        before = last.get(key)
        if before is not None:
            spacing = ts_ms - before.ts_ms
            if spacing <= 0:
                _check_same(row, before)
                duplicates += 1
                continue
            spacings.add(spacing)
        last[key] = row
        card_ticks += 1
        if ts_ms != moment:
            if in_order and ts_ms < newest:
                msg = (
                    f"{row.source.where}: the time goes back to {to_rfc3339(ts_ms)}: "
                    "sort the rows of all cards by time to join --apps to them"
                )
                raise DataError(msg)
            ticks += 1
            moment = ts_ms
            newest = max(newest, ts_ms)
            first = min(first, ts_ms)
    return Survey(
        card_ticks=card_ticks,
        ticks=ticks,
        cards=len(last),
        hosts=tuple(sorted({host for host, _ in last})),
        first_ms=first,
        last_ms=newest,
        interval_ms=interval_ms or nominal_interval_ms(spacings),
        inferred=interval_ms is None,
        duplicates=duplicates,
    )


def _check_same(row: RecordedCardRow, before: RecordedCardRow) -> None:
    """Raise DataError unless the row is the one before it once more."""
    where, uuid = row.source.where, row.card.uuid
    if row.ts_ms < before.ts_ms:
        msg = (
            f"{where}: the time of card {uuid} goes back by {format_duration(before.ts_ms - row.ts_ms)} to "
            f"{to_rfc3339(row.ts_ms)}: nothing was imported; sort the rows of each card by time"
        )
        raise DataError(msg)
    if row[:-1] != before[:-1]:
        msg = (
            f"{where}: card {uuid} has two different rows at {to_rfc3339(row.ts_ms)}: "
            "nothing was imported; remove one of them"
        )
        raise DataError(msg)
