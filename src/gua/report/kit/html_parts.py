"""What a section says, on a page: its sentences and tables as text has them, states with their fills and bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from gua.report.kit.bars import CLASSES, of_state, states_bar
from gua.report.kit.figures import NONE
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, table
from gua.report.kit.markup import Markup, join, tag
from gua.report.kit.tables import Drawn, Heading, Part, Table
from gua.report.states import STATES, observed_ms


def draw_parts(parts: Iterable[Part], title: str) -> Markup:
    """Return a section's parts; a sentence just above a table is its caption, else the heading above is."""
    return join(_drawn(parts, title))


def has_figures(drawn: Table) -> bool:
    """Return whether a table tells anything beside what its rows are about, in a column that always stays."""
    stay = [place for place, column in enumerate(drawn.columns) if place >= drawn.heads and not column.leaves]
    return any(row[place] not in {"", NONE} for row in drawn.rows for place in stay)


def _drawn(parts: Iterable[Part], title: str) -> Iterator[Markup]:
    sentence: str | None = None
    for part in parts:
        if isinstance(part, Table):
            if part.rows:
                yield _table(part, sentence or title, is_named_above=sentence is None)
                sentence = None
            continue
        if sentence is not None:
            yield tag("p", sentence)
        sentence = None
        match part:
            case str():
                sentence = part
            case Heading():
                title = part.text
                yield tag("h3", title)
            case Drawn():
                sentence = part.line
    if sentence is not None:
        yield tag("p", sentence)


def _table(drawn: Table, caption: str, *, is_named_above: bool) -> Markup:
    columns = [
        HtmlColumn(column.title, None if column.left else NUMBER, CLASSES.get(column.title), leaves=column.leaves > 0)
        for column in drawn.columns
    ]
    rows = [
        [_cell(text) if column.left else text for column, text in zip(drawn.columns, row, strict=True)]
        for row in drawn.rows
    ]
    if drawn.bars:
        columns.insert(drawn.heads, HtmlColumn("", BAR))
        longest = max(map(observed_ms, drawn.bars))
        for row, states in zip_longest(rows, drawn.bars):
            row.insert(drawn.heads, states_bar(states, of=longest) if states else "")
    notes = "; ".join(f"{title}: {note}" for title, note in drawn.notes)
    return table(caption, columns, rows, note=notes, is_named_above=is_named_above)


def _cell(text: str) -> Markup:
    """Return a name, isolated, so that right-to-left letters do not move what stands beside it."""
    return of_state(text) if text in STATES else tag("bdi", text)
