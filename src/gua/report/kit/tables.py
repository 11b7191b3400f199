"""What a section says (sentences, headings, tables), and its lines in a terminal: in columns, or a block a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gua.core.plaintext import cells, pad
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.style import Style
from gua.report.kit.words import NAME_WIDTH, card_name, index
from gua.report.model import Report
from gua.report.states import STATES, States


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """One column of a table.

    ``left``: flush left, as names are. ``shortest``: a name that may be cut to so many columns where room is short,
    0 if it is never cut. ``leaves``: where there still is no room those of the largest leave first; 0 stays.
    """

    title: str
    left: bool = False
    shortest: int = 0
    leaves: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of text of one column each; the first ``heads`` columns say what a row is about.

    ``bars`` show each row's split again where there is room; rows after the last bar have none.
    ``notes`` explain columns by their titles, where they are shown.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    heads: int = 1
    bars: Sequence[States] = ()
    notes: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a part of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line that is already drawn, by a section that has a form of its own where there is room."""

    line: str


Part = str | Table | Heading | Drawn
Body = Callable[[Report, Style, HourFormat], Iterator[Part]]


STACKED_BELOW: Final = 60
"""Below this width a table that does not fit whole is written row by row, so that nothing is left out [columns]."""

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
    """Return whether a table is drawn as one, and not row by row."""
    return _fitting(table, style) is not None


def lay(table: Table, style: Style) -> tuple[list[str], int]:
    """Return a table's head and rows on a line each, and how wide their bars are, 0 where there is no room for any.

    Columns that leave come in turn while the name, the column with a ``shortest``, keeps that; a left one while all of
    it is kept.
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
        turn = max(table.columns[place].leaves for place in places)
        if not turn:
            return None
        # Together, as they come: of amounts in two currencies one alone would look like all.
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


def shown_width(line: str) -> int:
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


MOST_CARDS: Final = 24
_HOST: Final = TableColumn(title="host", left=True, shortest=8)
_CARD: Final = (TableColumn(title="gpu"), TableColumn(title="name", left=True, shortest=8))


class SomeCard(Protocol):
    """What names a card."""

    @property
    def host(self) -> str:
        """The host that it is in."""
        ...

    @property
    def gpu(self) -> str:
        """Its UUID."""
        ...

    @property
    def index(self) -> int | None:
        """Its index on the host."""
        ...

    @property
    def model(self) -> str | None:
        """What the driver calls it."""
        ...


def card_table(
    report: Report,
    style: Style,
    section: str,
    columns: Sequence[TableColumn],
    cards: Sequence[tuple[SomeCard, Sequence[str]]],
) -> Iterator[Part]:
    """Yield the first of the cards, with their host where there are several, and where the others of ``section`` are.

    ``columns`` and the cells of each card are what follows its name.
    """
    several = len(report.hosts) > 1
    shown = cards[: MOST_CARDS * style.times]
    yield Table(
        columns=[*([_HOST] if several else []), *_CARD, *columns],
        rows=[
            [
                *([style.name(card.host, NAME_WIDTH)] if several else []),
                index(card.index, card.gpu, style),
                card_name(card.model, card.gpu, style),
                *cells,
            ]
            for card, cells in shown
        ],
        heads=2 + several,
    )
    if len(cards) > len(shown):
        yield f"and {plural(len(cards) - len(shown), 'more card')}: --csv {section} has every one."
