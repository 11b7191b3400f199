"""Tables that everybody can read: a caption, heads with a scope, a box of their own to scroll in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gua.report.kit.bars import swatch
from gua.report.kit.markup import Markup, join, tag

TEXT: Final = None
NUMBER: Final = "n"
BAR: Final = "b"


@dataclass(frozen=True, slots=True)
class HtmlColumn:
    """A column's head, what is in it (text, number, bar), and the fill that stands beside its name.

    ``leaves``: it is left out where the page is narrow.
    """

    label: str
    kind: str | None = TEXT
    fill: str | None = None
    title: str | None = None
    leaves: bool = False

    @property
    def class_(self) -> str | None:
        """Return the class of its cells."""
        return " ".join(filter(None, (self.kind, "l" if self.leaves else None))) or None


def table(
    caption: str,
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[str]],
    *,
    note: str | None = None,
    is_named_above: bool = False,
) -> Markup:
    """Return a table whose rows' first cells are their heads; ``note`` below it says what is left out.

    ``is_named_above``: a heading just above has the words of the caption, which only screen readers need again.
    """
    body = tag(
        "table",
        tag("caption", caption, class_="unseen") if is_named_above else caption_of(caption),
        tag("thead", tag("tr", *(_head(column) for column in columns))),
        tag("tbody", *(_row(columns, row) for row in rows)),
    )
    # What scrolls must be reachable by keyboard.
    return join([tag("div", body, class_="scroll", role="region", aria_label=caption, tabindex=0), paragraph(note)])


def caption_of(words: str) -> Markup:
    """Return the caption of a table, which stays in sight where the table is scrolled."""
    return tag("caption", tag("span", words))


def paragraph(words: str | None, class_: str = "note") -> Markup | None:
    """Return a small paragraph, nothing of nothing."""
    return tag("p", words, class_=class_) if words else None


def two_lines(first: str, second: str | None) -> Markup:
    """Return a cell's main words and quieter ones below them."""
    return join([first, tag("span", second, class_="sub") if second else None])


def _head(column: HtmlColumn) -> Markup:
    return tag(
        "th",
        swatch(column.fill) if column.fill else None,
        column.label,
        scope="col",
        class_=column.class_,
        title=column.title,
    )


def _row(columns: Sequence[HtmlColumn], row: Sequence[str]) -> Markup:
    cells = [
        tag("td" if place else "th", cell, class_=column.class_, scope=None if place else "row")
        for place, (column, cell) in enumerate(zip(columns, row, strict=True))
    ]
    return tag("tr", *cells)
