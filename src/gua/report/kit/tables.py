"""What a section says, before it is laid out: sentences, headings and tables; text and Markdown draw the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gua.report.kit.figures import HourFormat
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.states import States


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
