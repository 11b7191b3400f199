"""The queries of a report's sections: what two sections need alike is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar, cast

from gua.core.ports import ViewReader
from gua.core.view import View
from gua.report.allocation_sources import SOURCES, SourceRow
from gua.report.filters import Labels
from gua.report.hours import Hour
from gua.report.model import Card, Extent, Headline, Window
from gua.report.parts import Parts, in_parts, parts_of_ticks
from gua.report.prices import COSTS, CostsRow, Prices
from gua.report.promises import PROMISES, PromiseRow
from gua.report.questions import Answer, ask
from gua.report.window import ReportRequest

R = TypeVar("R")
Finish = Callable[[Headline, Sequence[Card]], object]
"""Makes a section's model of what the store answers, for a report with this headline and these cards."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """One report's queries: ``bounds`` and ``read`` are parameters of the views.

    ``prices`` are those that count in the window. ``parts`` are the hosts of each query whose rows are made of
    intervals, where those of all hosts are too many for the memory of one.
    """

    reader: ViewReader
    request: ReportRequest
    window: Window
    extents: Sequence[Extent]
    labels: Labels
    hours: Sequence[Hour]
    bounds: Mapping[str, object]
    read: Mapping[str, object]
    prices: Prices
    parts: Parts
    asked: dict[tuple[str, str], Answer[object]] = field(default_factory=dict)

    def rows(self, view: View[R], *, only_if: Callable[[], object] | None = None, **more: object) -> Answer[R]:
        """Query a view once, where the answer of ``only_if`` is not empty; return what gives its rows.

        ``more`` are parameters besides those of the window, its hours, prices and zone.
        """
        return self._once(self.reader, view, only_if, more)

    def rows_in_parts(self, view: View[R], *, only_if: Callable[[], object] | None = None, **more: object) -> Answer[R]:
        """Query the same in the parts of a large fleet; the rows are those of one part after the other."""
        return self._once(in_parts(self.reader, self.parts), view, only_if, more)

    def rows_of_ticks(
        self, view: View[R], hours: Iterable[Hour], *, only_if: Callable[[], object] | None = None, **more: object
    ) -> Answer[R]:
        """Query a view that reads the ticks of ``hours``, of as many hosts at once as a query takes."""
        parts = parts_of_ticks(self.extents, hours) or (self.bounds["hosts"],)
        answers = [self.rows(view, only_if=only_if, hosts=list(cast("list[str]", part)), **more) for part in parts]
        return lambda: [row for answer in answers for row in answer()]

    def _once(
        self, reader: ViewReader, view: View[R], only_if: Callable[[], object] | None, more: Mapping[str, object]
    ) -> Answer[R]:
        key = (view.name, str(more))
        if key not in self.asked:
            every = {**self.read, **self.prices.parameters, "timezone": self.window.timezone, **more}
            parameters = {name: every[name] for name in view.parameters}
            self.asked[key] = cache(ask(reader, view, parameters, only_if))
        return cast("Answer[R]", self.asked[key])

    def sources(self) -> Answer[SourceRow]:
        """Query which sources tell to whom cards are promised, and whether they could be read."""
        return self.rows(SOURCES)

    def promises(self) -> Answer[PromiseRow]:
        """Query to whom cards are promised, where any source tells: of most stores none does."""
        return self.rows(PROMISES, only_if=self.sources())

    def costs(self) -> Answer[CostsRow]:
        """Query the GPU time of each card by state and price, where there are prices."""
        return self.rows(COSTS, only_if=lambda: self.prices)


Collect = Callable[[Asking], Finish | None]
"""Queries what a section is made of; ``None`` where it cannot be made."""


def model_of(view: View[R], made: Callable[[Sequence[R], Window], object]) -> Collect:
    """Return what queries one view, and makes a section's model of its rows."""

    def collect(asking: Asking) -> Finish:
        rows = asking.rows(view)
        return lambda _headline, _cards: made(rows(), asking.window)

    return collect
