"""What a section of a report is: declared once in its folder, listed once in ``gua.report.sections``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gua.report.asking import Collect
from gua.report.kit.fields import Cells, Json, cells, columns, to_json
from gua.report.kit.figures import HourFormat
from gua.report.kit.markup import Markup
from gua.report.kit.tables import Body
from gua.report.model import Report


@dataclass(frozen=True, slots=True)
class Csv:
    """A section as CSV: its columns, and its rows by column; a column that a row lacks is empty."""

    columns: tuple[str, ...]
    rows: Callable[[Report], Iterable[Cells]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section: its name, what it asks for, and what it says in every form.

    ``model``: the class of what :meth:`~gua.report.model.Report.get` returns of it, ``None`` where the report itself
    has all of it. ``drawn``: its text where that is more than ``text``, which Markdown has, too. ``json`` is
    made of the model where nothing else is said. ``streaks``: ``needed`` where it cannot be had without them,
    ``wanted`` where they are made for it as soon as it is chosen. ``part_of``: the section under whose number it
    stands where both are shown.
    """

    name: str
    title: str | Callable[[Report], str]
    text: Body
    html: Callable[[Report, HourFormat], Markup | None]
    csv: Csv
    model: type | None = None
    collect: Collect | None = None
    drawn: Body | None = None
    json: Callable[[Report], Json] | None = None
    has: Callable[[Report], bool] | None = None
    is_default: bool = False
    streaks: Literal["needed", "wanted"] | None = None
    part_of: str | None = None

    def titled(self, report: Report) -> str:
        """Return the heading."""
        return self.title if isinstance(self.title, str) else self.title(report)

    def is_shown(self, report: Report) -> bool:
        """Return whether the section was asked for and there is anything to say."""
        if self.name not in report.sections:
            return False
        if self.has is not None:
            return self.has(report)
        return self.model is None or bool(report.get(self.model))

    def to_json(self, report: Report) -> Json:
        """Return the section's keys: ``null``, or an empty list of rows, where nothing can be told."""
        if self.json is not None:
            return self.json(report)
        empty = () if self.model is not None and issubclass(self.model, tuple) else None
        found = None if self.model is None else report.get(self.model)
        return {self.name.replace("-", "_"): to_json(empty if found is None else found)}


def csv_of(kind: type, rows: Callable[[Report], Iterable[object]]) -> Csv:
    """Return the CSV of rows of one class."""
    return Csv(columns(kind), lambda report: map(cells, rows(report)))


def zoned(title: str) -> Callable[[Report], str]:
    """Return a heading that names the zone of its hours."""
    return lambda report: f"{title} ({report.window.timezone})"
