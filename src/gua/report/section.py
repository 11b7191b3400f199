"""What a section of a report is: declared once in its module, listed once in ``gua.report.sections``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gua.report.asking import Collect
from gua.report.kit.fields import Cells, Json, to_json
from gua.report.kit.figures import HourFormat
from gua.report.kit.html import Markup
from gua.report.kit.tables import Body
from gua.report.model import Report

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Csv(Generic[M]):
    """A section as CSV: its columns, and its model's rows by column; a column that a row lacks is empty."""

    columns: tuple[str, ...]
    rows: Callable[[M, Report], Iterable[Cells]]


Html = Callable[[Report, HourFormat], Markup | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section(Generic[M]):
    """One section: its name, what it asks for, and what it says in every form.

    ``model``: the class of what :meth:`~gua.report.model.Report.get` returns of it, ``Report`` where the report itself
    has it. ``drawn``: its text where that is more than ``text``, which Markdown has, too; ``html``: what a page has
    where that is more. ``json`` is made of the model where nothing else is said, below the section's name; ``spread``:
    the model's keys stand in the report's own object. Of more than ``most_card_hours`` it is made only where it is
    asked for by name.
    """

    name: str
    title: str | Callable[[Report], str]
    model: type[M]
    text: Body
    csv: Csv[M]
    html: Html | None = None
    collect: Collect | None = None
    drawn: Body | None = None
    json: Callable[[M], object] = to_json
    spread: bool = False
    has: Callable[[Report], bool] | None = None
    most_card_hours: int = 0

    def titled(self, report: Report) -> str:
        """Return the heading."""
        return self.title if isinstance(self.title, str) else self.title(report)

    def is_shown(self, report: Report) -> bool:
        """Return whether the section was asked for and there is anything to say."""
        if self.name not in report.sections:
            return False
        return bool(self._found(report)) if self.has is None else self.has(report)

    def to_json(self, report: Report) -> Json:
        """Return the section's keys: ``null``, or an empty list of rows, where nothing can be told."""
        found = self._found(report)
        made = self.json(found) if found is not None else [] if issubclass(self.model, tuple) else None
        return made if self.spread and isinstance(made, dict) else {self.name.replace("-", "_"): made}

    def cells(self, report: Report) -> Iterable[Cells]:
        """Return the rows of the CSV."""
        found = self._found(report)
        return () if found is None else self.csv.rows(found, report)

    def _found(self, report: Report) -> M | None:
        return report if isinstance(report, self.model) else report.get(self.model)


AnySection = Section[Any]


def zoned(title: str) -> Callable[[Report], str]:
    """Return a heading that names the zone of its hours."""
    return lambda report: f"{title} ({report.window.timezone})"
