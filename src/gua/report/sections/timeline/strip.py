"""The strip of a card's timeline: one path a state, equal neighbours merged, so that a month stays small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gua.report.kit.figures import apportion
from gua.report.sections.timeline.model import CardTimeline, Timeline
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
