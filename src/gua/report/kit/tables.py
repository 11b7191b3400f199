"""The parts of a section (sentences, headings, tables) and their terminal lines: columns, or one block per row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gua.core.plaintext import cells, pad
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.style import Style
from gua.report.kit.words import NAME_WIDTH, card_name, index
from gua.report.model import OfCard, Placed, Report
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States

T = TypeVar("T")
C = TypeVar("C", bound=OfCard)
P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """One column of a table.

    ``left``: left-aligned, for names. ``shortest``: a name may be cut to this many columns where space is short, 0 if
    never. ``leaves``: columns with the largest number are dropped first where space is still short; 0 is never dropped.
    """

    title: str
    left: bool = False
    shortest: int = 0
    leaves: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of text cells; the first ``heads`` columns identify a row.

    ``bars`` show each row's split where space allows; rows after the last bar have none. ``notes`` explain visible
    columns by title.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    heads: int = 1
    bars: Sequence[States] = ()
    notes: Sequence[tuple[str, str]] = ()


def table_of(columns: Mapping[TableColumn, Sequence[str]]) -> Table:
    """Return the table of columns with their cells."""
    return Table(columns=[*columns], rows=[*zip(*columns.values(), strict=True)])


class Rows(Generic[T]):
    """Builder of a table with one row for each of the first ``most`` items; columns are added from left to right.

    ``rest`` is the number of items left out.
    """

    def __init__(self, things: Sequence[T], most: int | None = None) -> None:
        self.things = things[:most]
        self.rest = len(things) - len(self.things)
        self._columns: list[TableColumn] = []
        self._cells: list[list[str]] = [[] for _ in self.things]
        self._heads = 0
        self._notes: list[tuple[str, str]] = []

    def add(  # noqa: PLR0913 - all properties of a column
        self,
        titles: str | Sequence[str],
        cells: Callable[[T], str | Sequence[str]],
        *,
        left: bool = False,
        shortest: int = 0,
        leaves: int = 0,
        is_head: bool = False,
        note: str | None = None,
    ) -> None:
        """Add one column, or several whose cells are formatted together, with a function that formats each item.

        ``is_head``: the column identifies a row. ``note`` explains it. Other arguments are those of
        :class:`TableColumn`.
        """
        several = [titles] if isinstance(titles, str) else titles
        self._columns += [TableColumn(title=title, left=left, shortest=shortest, leaves=leaves) for title in several]
        for thing, row in zip(self.things, self._cells, strict=True):
            told = cells(thing)
            row.extend([told] if isinstance(told, str) else told)
        self._heads += len(several) if is_head else 0
        if note:
            self.explain(several, note)

    def explain(self, titles: Sequence[str], note: str) -> None:
        """Add a note on columns after the existing notes."""
        self._notes += [(title, note) for title in titles]

    def table(self, bars: Sequence[States] = ()) -> Table:
        """Return the table; without a head column the first column is the head."""
        return Table(columns=self._columns, rows=self._cells, heads=max(self._heads, 1), bars=bars, notes=self._notes)


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a part of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line that a section has formatted itself, where space allows."""

    line: str


Part = str | Table | Heading | Drawn
Body = Callable[[Report, Style, HourFormat], Iterator[Part]]


STACKED_BELOW: Final = 60
"""Width below which a table that does not fit is written row by row, so that no column is dropped [columns]."""

_INDENT: Final = 2
_BAR_WIDTH: Final = 10
_WIDEST_BAR: Final = 30
_WIDE_GAP_FROM: Final = 96


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
    bar_width = min(spare, _WIDEST_BAR) if table.bars and spare >= _BAR_WIDTH else 0
    yield _line(table, places, widths, gap, style, [column.title for column in table.columns])
    for number, row in enumerate(table.rows):
        line = _line(table, places, widths, gap, style, row)
        if bar_width and number < len(table.bars):
            line = f"{line}{' ' * (used - shown_width(line))}  {style.split(table.bars[number], bar_width)}".rstrip()
        yield line
    if bar_width:
        yield from style.wrap("bar: " + ", ".join(f"{style.fill[state]} {state}" for state in STATES))
    yield from _notes(table, places, style)


def _notes(table: Table, places: Sequence[int], style: Style) -> Iterator[str]:
    shown = {table.columns[place].title for place in places}
    told = "; ".join(f"{title}: {note}" for title, note in table.notes if title in shown)
    if told:
        yield from style.wrap(told)


def fits(table: Table, style: Style) -> bool:
    """Return whether a table is formatted in columns instead of row by row."""
    return _fitting(table, style) is not None


def lay(table: Table, style: Style) -> tuple[list[str], int]:
    """Return a table's head and rows, one line each, and the width of their bars, 0 where space is too short.

    Columns with ``leaves`` are added in ascending order while the name column (with a ``shortest``) has that width
    left; left-aligned ones only while it has its full width.
    """
    gap = 1 if style.width < _WIDE_GAP_FROM else 2
    columns = table.columns
    widths = [_natural(table, place) for place in range(len(columns))]
    name = next(place for place, column in enumerate(columns) if column.shortest)
    taken = [
        width + (2 if column.left or place < name else gap)
        for place, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    shown = {place for place, column in enumerate(columns) if not column.leaves}
    room = style.width - _INDENT - sum(taken[place] for place in shown - {name})
    in_turn = sorted({column.leaves for column in columns} - {0})
    for turn in in_turn:
        coming = {place for place, column in enumerate(columns) if column.leaves == turn}
        least = widths[name] if any(columns[place].left for place in coming) else columns[name].shortest
        if room - sum(taken[place] for place in coming) >= min(widths[name], least):
            shown |= coming
            room -= sum(taken[place] for place in coming)
    widths[name] = min(widths[name], room)
    spare = room - widths[name] - 2
    bar_width = min(spare, _WIDEST_BAR) if table.bars and spare >= _BAR_WIDTH else 0

    def line(row: Sequence[str]) -> str:
        written = ""
        for place in sorted(shown):
            text = style.name(row[place], widths[place]) if cells(row[place]) > widths[place] else row[place]
            between = " " * (2 if columns[place].left else gap) if written else ""
            blank = " " * (widths[place] - cells(text))
            written += between + (text + blank if columns[place].left else blank + text)
        return " " * _INDENT + written

    head = line([column.title for column in columns])
    for state in STATES:
        head = style.state(head, state)
    rows = [line(row) for row in table.rows]
    if bar_width:
        rows = [f"{row}  {style.split(bar, bar_width)}".rstrip() for row, bar in zip(rows, table.bars, strict=True)]
    return [head, *rows], bar_width


def stacked(table: Table, style: Style) -> Iterator[str]:
    """Yield a block per row: its heads, then ``title: figure`` lines; empty figures are left out."""
    for row in table.rows:
        head = " ".join(filter(None, row[: table.heads]))
        for line in style.wrap(head, indent=_INDENT, hanging=2 * _INDENT):
            yield style.state(line, head) if head in STATES else line
        for column, text in zip(table.columns[table.heads :], row[table.heads :], strict=True):
            if text:
                yield from style.wrap(f"{column.title}: {text}", indent=2 * _INDENT, hanging=3 * _INDENT)


def _fitting(table: Table, style: Style) -> list[int] | None:
    """Return the columns that are shown, ``None`` where the table must be written row by row."""
    places = list(range(len(table.columns)))
    if style.width < STACKED_BELOW:
        natural = [_natural(table, place) for place in places]
        return places if _INDENT + sum(natural) + len(natural) - 1 <= style.width else None
    while _least(table, places) > style.width:
        turn = max(table.columns[place].leaves for place in places)
        if not turn:
            return None
        # Columns of one number are dropped together: one of two currencies alone would look like the total.
        places = [place for place in places if table.columns[place].leaves != turn]
    return places


def _natural(table: Table, place: int) -> int:
    return max(cells(text) for text in (table.columns[place].title, *(row[place] for row in table.rows)))


def _least(table: Table, places: Sequence[int]) -> int:
    widths = [_shortest(table.columns[place], _natural(table, place)) for place in places]
    return _INDENT + sum(widths) + len(widths) - 1


def _shortest(column: TableColumn, natural: int) -> int:
    return min(natural, max(column.shortest, cells(column.title))) if column.shortest else natural


def _widths(table: Table, places: Sequence[int], style: Style) -> list[int]:
    """Return the column widths: natural widths, with the widest name column reduced where space is short."""
    widths = [_natural(table, place) for place in places]
    least = [_shortest(table.columns[place], width) for place, width in zip(places, widths, strict=True)]
    room = style.width - _INDENT - (len(places) - 1)
    while sum(widths) > room:
        givers = [at for at, width in enumerate(widths) if width > least[at]]
        widths[max(givers, key=lambda at: widths[at])] -= 1
    return widths


def _gap(places: Sequence[int], widths: Sequence[int], style: Style) -> int:
    return 2 if _INDENT + sum(widths) + 2 * (len(places) - 1) <= style.width else 1


def _line(  # noqa: PLR0913, PLR0917 - a row and its layout
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


def shown_width(line: str) -> int:
    """Return the display width of a line [columns], ignoring colour codes."""
    return cells(_COLOUR.sub("", line))


_COLOUR: Final = re.compile("\x1b[^m]*m")


MOST_CARDS: Final = 24


def placed_rows(report: Report, style: Style, things: Sequence[P], most: int | None = None) -> Rows[P]:
    """Return a builder with a row per item on a card: its host where the report has several, and the card's index."""
    rows = Rows(things, most)
    if len(report.hosts) > 1:
        rows.add("host", lambda one: style.name(one.host, NAME_WIDTH), left=True, shortest=8, is_head=True)
    rows.add("gpu", lambda one: index(one.index, one.gpu, style), is_head=True)
    return rows


def card_rows(report: Report, style: Style, cards: Sequence[C]) -> Rows[C]:
    """Return a builder with a row for each of the first cards: host where there are several, index, name."""
    rows = placed_rows(report, style, cards, MOST_CARDS * style.times)
    rows.add("name", lambda card: card_name(card.model, card.gpu, style), left=True, shortest=8, is_head=True)
    return rows


def more(rest: int, what: str, where: str) -> Iterator[str]:
    """Yield the number of items left out, and where they are shown: ``--csv energy has every one``."""
    if rest > 0:
        yield f"and {plural(rest, f'more {what}')}: {where}."


def most_idle(things: Sequence[T], states: Callable[[T], States], most: int) -> tuple[list[T], list[T]]:
    """Return the ``most`` items with the longest idle time, and the others, both in input order."""

    def idle_ms(place: int) -> float:
        of = states(things[place])
        return of[IDLE_HELD].gpu_ms + of[TRULY_IDLE].gpu_ms

    kept = {*sorted(range(len(things)), key=lambda place: -idle_ms(place))[:most]}
    shown = [thing for place, thing in enumerate(things) if place in kept]
    return shown, [thing for place, thing in enumerate(things) if place not in kept]
