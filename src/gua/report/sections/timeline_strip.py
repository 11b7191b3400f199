"""What a card's timeline is drawn with on a page: a path a state for its strip, the marks of its axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gua.core.moments import zone
from gua.report.kit.figures import apportion
from gua.report.sections.timeline_rows import CardTimeline, Timeline
from gua.report.states import STATES

HEIGHT: Final = 24
_STEPS: Final = 12  # of a column that holds several states
_STEP: Final = HEIGHT // _STEPS
_WIDTH: Final = 1000  # about that of the strip on a screen, so that patterns keep their shape
_PARTS: Final = len(STATES) + 1  # and what is unobserved
Levels = tuple[int, ...]  # the steps of each state from the bottom up


@dataclass(frozen=True, slots=True)
class Strip:
    """Paths in the order of ``STATES``, empty where a state never was, in a box of ``width`` x ``HEIGHT``."""

    width: float
    paths: tuple[str, ...]


def strip_of(card: CardTimeline, drawn: Timeline, cells_a_column: int) -> Strip:
    """Return a card's strip with that many cells added up in each column."""
    column_ms = drawn.cell_ms * cells_a_column
    whole_ms = drawn.until_ms - drawn.since_ms
    count = -(-len(card.cells) // cells_a_column)
    unit = max(1, round(_WIDTH / count)) if count else 1
    width = unit * whole_ms / column_ms if column_ms else unit
    paths: list[list[str]] = [[] for _ in STATES]
    for first, last, levels in _runs(list(_levels(card, drawn, cells_a_column))):
        right = min(last * unit, width)
        bottom = HEIGHT
        for path, level in zip(paths, levels, strict=True):
            if level:
                high = level * _STEP
                path.append(f"M{first * unit} {bottom - high}H{right:g}v{high}H{first * unit}z")
                bottom -= high
    return Strip(width, tuple("".join(path) for path in paths))


def _levels(card: CardTimeline, drawn: Timeline, cells_a_column: int) -> Iterator[Levels]:
    known: dict[tuple[int, ...], Levels] = {}
    for first in range(0, len(card.cells), cells_a_column):
        cells = card.cells[first : first + cells_a_column]
        since_ms = drawn.since_ms + first * drawn.cell_ms
        there_ms = min(len(cells) * drawn.cell_ms, drawn.until_ms - since_ms)
        sums = tuple(map(sum, zip(*cells, strict=True)))
        parts = (*sums, max(there_ms - sum(sums), 0))
        if parts not in known:
            known[parts] = _levels_of(parts)
        yield known[parts]


def _levels_of(parts: Sequence[int]) -> Levels:
    """Return the steps of each state; what was there is seen, at the cost of the largest."""
    levels = apportion(parts, _STEPS)
    for place, part in enumerate(parts):
        if part > 0 and levels[place] == 0 and place < _PARTS - 1:
            levels[levels.index(max(levels))] -= 1
            levels[place] = 1
    return tuple(levels[: _PARTS - 1])


def _runs(columns: Sequence[Levels]) -> Iterator[tuple[int, int, Levels]]:
    """Yield [first, last) of columns that are alike."""
    first = 0
    for place in range(1, len(columns) + 1):
        if place == len(columns) or columns[place] != columns[first]:
            yield first, place, columns[first]
            first = place


_MOST: Final = 9
_HOUR_STEPS: Final = (1, 2, 3, 6, 12)
_DAY_STEPS: Final = (1, 2, 7, 14, 28, 91, 182, 364, 1820)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER_MS: Final = 900_000
_MS: Final = timedelta(milliseconds=1)


def marks(since_ms: int, until_ms: int, timezone: str) -> list[tuple[float, str]]:
    """Return (place, words) of at most nine marks within a window, places from 0 to 1; midnights tell their date."""
    if until_ms <= since_ms:
        return []
    length_hours = (until_ms - since_ms) / 3_600_000
    for step in _HOUR_STEPS:
        if length_hours / step <= _MOST:
            return list(_hours(since_ms, until_ms, timezone, step))
    step = next((step for step in _DAY_STEPS if length_hours / 24 / step <= _MOST), _DAY_STEPS[-1])
    return list(_days(since_ms, until_ms, timezone, step))


def _hours(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    local_zone = zone(timezone)
    for at_ms in range(-(-since_ms // _QUARTER_MS) * _QUARTER_MS, until_ms, _QUARTER_MS):  # as zones are off by those
        local = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(local_zone)
        place = (at_ms - since_ms) / (until_ms - since_ms)
        if local.minute == 0 and local.hour % step == 0:
            yield place, f"{local:%a %d %b}" if local.hour == 0 else f"{local:%H:%M}"


def _days(since_ms: int, until_ms: int, timezone: str, step: int) -> Iterator[tuple[float, str]]:
    """Yield every ``step``-th local midnight; weeks begin on Mondays."""
    local_zone = zone(timezone)
    day = (_EPOCH + timedelta(milliseconds=since_ms)).astimezone(local_zone).date()
    while True:
        midnight = (datetime(day.year, day.month, day.day, tzinfo=local_zone) - _EPOCH) // _MS
        place = (midnight - since_ms) / (until_ms - since_ms)
        if place >= 1:
            return
        # Days are counted from a Monday, so that every seventh is one.
        if place >= 0 and (day.toordinal() - 1) % step == 0:
            yield place, f"{day:%a %d %b}"
        day += timedelta(days=1)
