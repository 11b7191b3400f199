"""The declaration of a report section: made once in its module, listed once in ``gua.report.sections``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gua.report.context import Collect
from gua.report.kit.fields import Cells, Json, cells, to_json
from gua.report.kit.figures import HourFormat
from gua.report.kit.html import Markup
from gua.report.kit.tables import Body
from gua.report.model import Report

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Csv(Generic[M]):
    """A section as CSV: its columns, and its model's rows as cells by column; a missing column is an empty cell."""

    columns: tuple[str, ...]
    rows: Callable[[M, Report], Iterable[Cells]]


def cells_by_state(rows: Iterable[Any]) -> Iterator[Cells]:
    """Yield a CSV row for each state of models with ``states``."""
    for row in rows:
        for state, part in row.states.items():
            yield {**cells(row), "state": state, **cells(part)}


Html = Callable[[Report, HourFormat], Markup | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section(Generic[M]):
    """One section: its name, the queries behind it, and its output in every format.

    ``model`` is the class that :meth:`~gua.report.model.Report.get` returns, or ``Report`` itself. ``drawn`` is a
    longer text for terminals only; ``text`` is also used in Markdown. ``html`` replaces the text on a page. ``json``
    converts the model; its result is stored under the section's name, or with ``spread`` in the report's own object.
    Above ``most_card_hours`` the section is made only if it is requested by name. ``has`` overrides the check for
    content.
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
        """Return whether the section was requested and has content."""
        if self.name not in report.sections:
            return False
        return bool(self._found(report)) if self.has is None else self.has(report)

    def to_json(self, report: Report) -> Json:
        """Return the section's JSON keys: ``null``, or an empty list for a model of rows, where it has no model."""
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
    """Return a heading that names the report's time zone."""
    return lambda report: f"{title} ({report.window.timezone})"
