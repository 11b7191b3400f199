"""The parts of a section (sentences, headings, tables) and their terminal lines: columns, or one paragraph per row."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from gua.core.plaintext import cells
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

    def add(  # noqa: PLR0913 - all properties of a column
        self,
        titles: str | Sequence[str],
        cells: Callable[[T], str | Sequence[str]],
        *,
        left: bool = False,
        shortest: int = 0,
        leaves: int = 0,
        is_head: bool = False,
    ) -> None:
        """Add one column, or several whose cells are formatted together, with a function that formats each item.

        ``is_head``: the column identifies a row. Other arguments are those of :class:`TableColumn`.
        """
        several = [titles] if isinstance(titles, str) else titles
        self._columns += [TableColumn(title=title, left=left, shortest=shortest, leaves=leaves) for title in several]
        for thing, row in zip(self.things, self._cells, strict=True):
            texts = cells(thing)
            row.extend([texts] if isinstance(texts, str) else texts)
        self._heads += len(several) if is_head else 0

    def table(self, bars: Sequence[States] = (), notes: Mapping[str, str] = MappingProxyType({})) -> Table:
        """Return the table, with the ``notes`` on its columns; without a head column the first column is the head."""
        titles = {column.title for column in self._columns}
        return Table(
            columns=self._columns,
            rows=self._cells,
            heads=max(self._heads, 1),
            bars=bars,
            notes=[(title, note) for title, note in notes.items() if title in titles],
        )


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
_TITLE_WIDTH: Final = 16
"""Width to which titles of names are cut at most [columns]; those that users chose may be longer."""
_BAR_WIDTH: Final = 10
_WIDEST_BAR: Final = 30


def draw(part: Part, style: Style) -> Iterator[str]:
    """Yield the lines of a part, none wider than the style's width."""
    match part:
        case str():
            yield from style.wrap(part)
        case Heading():
            yield ""
            yield from style.heading(part.text, indent=3)
        case Drawn():
            yield part.line
        case Table():
            yield from _table(part, style)


def _table(table: Table, style: Style) -> Iterator[str]:
    if not table.rows:
        return
    room = style.width - _INDENT
    places = _fitting(table, room)
    is_whole = places is not None and _used([_natural(table, place) for place in range(len(table.columns))], 1) <= room
    if places is None or (style.width < STACKED_BELOW and not is_whole):
        yield from _stacked(table, style)
        yield from _notes(table, range(len(table.columns)), style)
        return
    lines, used = _lines(table, places, room, style)
    spare = room - used - 2
    bar_width = min(spare, _WIDEST_BAR) if table.bars and spare >= _BAR_WIDTH else 0
    for line, bar in zip_longest(lines, (None, *table.bars)):
        if bar_width and bar:
            split = style.split({state: bar[state].gpu_ms for state in STATES}, bar_width)
            yield f"{_INDENT * ' '}{_padded(line, used, left=True)}  {split}".rstrip()
        else:
            yield _INDENT * " " + line
    if bar_width:
        yield from style.wrap("bar: " + ", ".join(f"{style.fill[state]} {state}" for state in STATES))
    yield from _notes(table, places, style)


def fits(table: Table, style: Style) -> bool:
    """Return whether the columns that are never dropped fit without indent, their names cut at most to ``shortest``."""
    return _fitting(table, style.width) is not None


def columns(table: Table, style: Style) -> list[str]:
    """Return the head and the rows, without indent, with as many columns as fit; others are left out.

    Cells may contain colour codes in columns that are never cut.
    """
    least = [place for place, column in enumerate(table.columns) if not column.leaves]
    return _lines(table, _fitting(table, style.width) or least, style.width, style)[0]


def _notes(table: Table, places: Sequence[int], style: Style) -> Iterator[str]:
    shown = {table.columns[place].title for place in places}
    notes = "; ".join(f"{title}: {note}" for title, note in table.notes if title in shown)
    if notes:
        yield from style.wrap(notes)


def _stacked(table: Table, style: Style) -> Iterator[str]:
    """Yield the titles of the heads, then a paragraph per row; empty figures are left out."""
    if titles := " ".join(filter(None, (column.title for column in table.columns[: table.heads]))):
        yield from style.wrap(f"{titles}:")
    for row in table.rows:
        head = " ".join(filter(None, row[: table.heads]))
        figures = zip(table.columns[table.heads :], row[table.heads :], strict=True)
        written = ", ".join(f"{column.title} {text}" for column, text in figures if text)
        for line in style.wrap(f"{head}: {written}", hanging=2 * _INDENT):
            yield style.state(line, head) if head in STATES else line


def _fitting(table: Table, room: int) -> list[int] | None:
    """Return the columns that are shown, ``None`` if those that are never dropped do not fit."""
    places = list(range(len(table.columns)))
    while _used([_shortest(table.columns[place], _natural(table, place)) for place in places], 1) > room:
        turn = max(table.columns[place].leaves for place in places)
        if not turn:
            return None
        # Columns of one number are dropped together: one of two currencies alone would look like the total.
        places = [place for place in places if table.columns[place].leaves != turn]
    return places


def _natural(table: Table, place: int) -> int:
    return max(shown_width(text) for text in (table.columns[place].title, *(row[place] for row in table.rows)))


def _used(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shortest(column: TableColumn, natural: int) -> int:
    return min(natural, max(column.shortest, min(cells(column.title), _TITLE_WIDTH))) if column.shortest else natural


def _lines(table: Table, places: Sequence[int], room: int, style: Style) -> tuple[list[str], int]:
    """Return the lines of the head and the rows, and their width; where space is short names are cut, widest first."""
    widths = [_natural(table, place) for place in places]
    least = [_shortest(table.columns[place], width) for place, width in zip(places, widths, strict=True)]
    while _used(widths, 1) > room:
        givers = [at for at, width in enumerate(widths) if width > least[at]]
        names = [at for at, place in enumerate(places) if table.columns[place].shortest]
        widths[max(givers or names, key=lambda at: widths[at])] -= 1
    narrow, wide = _used(widths, 1), _used(widths, 2)
    has_bars_only_if_narrow = table.bars and narrow + 2 + _BAR_WIDTH <= room < wide + 2 + _BAR_WIDTH
    gap = 1 if wide > room or has_bars_only_if_narrow else 2
    lines = []
    for row in ([column.title for column in table.columns], *table.rows):
        written = []
        for place, width in zip(places, widths, strict=True):
            text = style.name(row[place], width) if shown_width(row[place]) > width else row[place]
            written.append(_padded(text, width, left=table.columns[place].left))
        line = (" " * gap).join(written).rstrip()
        for state in STATES:
            line = style.state(line, state) if state in row else line
        lines.append(line)
    return lines, _used(widths, gap)


def _padded(text: str, width: int, *, left: bool) -> str:
    blank = " " * (width - shown_width(text))
    return text + blank if left else blank + text


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
