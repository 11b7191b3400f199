"""Lays tables out in columns, or, where a table does not fit, row by row with a line for each figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import cells, pad
from gua.report.kit.style import Style
from gua.report.kit.tables import Drawn, Heading, Part, Table, TableColumn
from gua.report.states import STATES

STACKED_BELOW: Final = 60
"""Below this width a table that does not fit whole is written row by row, so that nothing is left out [columns]."""

_INDENT: Final = 2
_BAR_WIDTH: Final = 10
_WIDEST_BAR: Final = 30


def draw(part: Part, style: Style) -> Iterator[str]:
    """Yield the lines of a part, none wider than the style's width."""
    match part:
        case str():
            yield from style.wrap(part)
        case Heading():
            yield ""
            for line in style.wrap(part.text, indent=3):
                yield style.title(line)
        case Drawn():
            yield part.line
        case Table():
            yield from _table(part, style)


def _table(table: Table, style: Style) -> Iterator[str]:
    if not table.rows:
        return
    places = _fitting(table, style)
    if places is None:
        yield from stacked(table, style)
        yield from _notes(table, range(len(table.columns)), style)
        return
    widths = _widths(table, places, style)
    gap = _gap(places, widths, style)
    used = _INDENT + sum(widths) + gap * (len(widths) - 1)
    spare = style.width - used - 2
    bar_width = min(spare, _WIDEST_BAR) if table.bar is not None and spare >= _BAR_WIDTH else 0
    yield _line(table, places, widths, gap, style, [column.title for column in table.columns])
    for number, row in enumerate(table.rows):
        line = _line(table, places, widths, gap, style, row)
        if bar_width and table.bar is not None:
            line = f"{line}{' ' * (used - _shown(line))}  {table.bar(number, bar_width)}".rstrip()
        yield line
    if bar_width:
        yield from style.wrap("bar: " + ", ".join(f"{style.fill[state]} {state}" for state in STATES))
    yield from _notes(table, places, style)


def _notes(table: Table, places: Sequence[int], style: Style) -> Iterator[str]:
    shown = {table.columns[place].title for place in places}
    told = "; ".join(f"{title}: {note}" for title, note in table.notes if title in shown)
    if told:
        yield from style.wrap(told)


def stacked(table: Table, style: Style) -> Iterator[str]:
    """Yield a block a row: what it is about, then ``title: figure`` lines; empty figures are left out."""
    for row in table.rows:
        head = " ".join(filter(None, row[: table.heads]))
        for line in style.wrap(head, indent=_INDENT, hanging=2 * _INDENT):
            yield style.state(line, head) if head in STATES else line
        for column, text in zip(table.columns[table.heads :], row[table.heads :], strict=True):
            if text:
                yield from style.wrap(f"{column.title}: {text}", indent=2 * _INDENT, hanging=3 * _INDENT)


def _fitting(table: Table, style: Style) -> list[int] | None:
    """Return the columns that are shown, ``None`` where the table is to be written row by row."""
    places = list(range(len(table.columns)))
    if style.width < STACKED_BELOW:
        natural = [_natural(table, place) for place in places]
        return places if _INDENT + sum(natural) + len(natural) - 1 <= style.width else None
    while _least(table, places) > style.width:
        leaving = [place for place in places if table.columns[place].leaves]
        if not leaving:
            return None
        places.remove(max(leaving, key=lambda place: table.columns[place].leaves))
    return places


def _natural(table: Table, place: int) -> int:
    return max(cells(text) for text in (table.columns[place].title, *(row[place] for row in table.rows)))


def _least(table: Table, places: Sequence[int]) -> int:
    widths = [_shortest(table.columns[place], _natural(table, place)) for place in places]
    return _INDENT + sum(widths) + len(widths) - 1


def _shortest(column: TableColumn, natural: int) -> int:
    return min(natural, max(column.shortest, cells(column.title))) if column.shortest else natural


def _widths(table: Table, places: Sequence[int], style: Style) -> list[int]:
    """Return the columns' widths: as wide as needed, the widest name gives way where room is short."""
    widths = [_natural(table, place) for place in places]
    least = [_shortest(table.columns[place], width) for place, width in zip(places, widths, strict=True)]
    room = style.width - _INDENT - (len(places) - 1)
    while sum(widths) > room:
        givers = [at for at, width in enumerate(widths) if width > least[at]]
        widths[max(givers, key=lambda at: widths[at])] -= 1
    return widths


def _gap(places: Sequence[int], widths: Sequence[int], style: Style) -> int:
    return 2 if _INDENT + sum(widths) + 2 * (len(places) - 1) <= style.width else 1


def _line(  # noqa: PLR0913, PLR0917 - a row, and where its cells go
    table: Table, places: Sequence[int], widths: Sequence[int], gap: int, style: Style, row: Sequence[str]
) -> str:
    written = []
    for place, width in zip(places, widths, strict=True):
        text = style.name(row[place], width) if cells(row[place]) > width else row[place]
        written.append(pad(text, width) if table.columns[place].left else " " * (width - cells(text)) + text)
    line = (" " * _INDENT + (" " * gap).join(written)).rstrip()
    for state in STATES:
        if state in row:
            line = style.state(line, state)
    return line


def _shown(line: str) -> int:
    """Return how many columns a line takes that may have colours in it."""
    return cells(_without_colour(line))


def _without_colour(line: str) -> str:
    kept, colour = [], False
    for character in line:
        if character == "\x1b":
            colour = True
        if not colour:
            kept.append(character)
        elif character == "m":
            colour = False
    return "".join(kept)
