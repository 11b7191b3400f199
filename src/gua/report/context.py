"""Queries of the views that a report's sections are made of; each view is queried once per parameter set."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar, cast

from gua.core.ports import ViewReader
from gua.core.view import View
from gua.report.allocations import ALLOCATIONS, SOURCES, AllocationUseRow, SourceRow
from gua.report.filters import Labels
from gua.report.hours import Hour, Parts, parts_of_ticks
from gua.report.model import Card, Extent, Headline, Window
from gua.report.prices import COSTS, CostsRow, Prices
from gua.report.questions import Answer, start
from gua.report.window import ReportRequest

R = TypeVar("R")
Finish = Callable[[Headline, Sequence[Card]], object]
"""Builds a section's model from the query results, for a report with this headline and these cards."""


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """The queries of one report; ``bounds`` and ``read`` are parameters of the views.

    ``prices`` are the prices valid in the window. ``parts`` are batches of hosts for queries that read intervals, used
    where one query for all hosts would exceed its memory limit. ``results`` caches the results by view and parameters.
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
    results: dict[tuple[str, str], Answer[object]] = field(default_factory=dict)

    def rows(
        self, view: View[R], *, only_if: Callable[[], object] | None = None, batched: bool = False, **more: object
    ) -> Answer[R]:
        """Query a view once and return a callable for its rows; no rows where ``only_if`` returns an empty value.

        ``batched``: query it once per batch of hosts (``parts``), and return its rows batch after batch. ``more`` are
        parameters besides those of the window, its hours, prices and time zone.
        """
        key = (view.name, str(more))
        if key not in self.results:
            parameters = {**self.read, **self.prices.parameters, "timezone": self.window.timezone, **more}
            batches = [{"hosts": list(hosts)} for hosts in self.parts] if batched else []

            def rows() -> Sequence[R]:
                if only_if is not None and not only_if():
                    return ()
                return [row for batch in batches or [{}] for row in view.rows(self.reader, {**parameters, **batch})]

            self.results[key] = cache(start(self.reader, rows))
        return cast("Answer[R]", self.results[key])

    def rows_of_ticks(
        self, view: View[R], hours: Iterable[Hour], *, only_if: Callable[[], object] | None = None, **more: object
    ) -> Answer[R]:
        """Query a view that reads the ticks of ``hours``, in batches of hosts of a bounded number of card ticks."""
        parts = parts_of_ticks(self.extents, hours) or (self.bounds["hosts"],)
        hosts = (list(cast("list[str]", part)) for part in parts)
        answers = [self.rows(view, only_if=only_if, batched=False, hosts=each, **more) for each in hosts]
        return lambda: [row for answer in answers for row in answer()]

    def sources(self) -> Answer[SourceRow]:
        """Query the allocation sources and how long each was readable."""
        return self.rows(SOURCES)

    def allocations(self) -> Answer[AllocationUseRow]:
        """Query the allocations of cards; no rows where no allocation source is configured."""
        return self.rows(ALLOCATIONS, only_if=self.sources())

    def costs(self) -> Answer[CostsRow]:
        """Query the GPU time of each card by state and price; no rows without prices."""
        return self.rows(COSTS, only_if=lambda: self.prices)


Collect = Callable[[ReportContext], Finish | None]
"""Queries the views of a section; returns ``None`` where the section cannot be made."""


def model_of(view: View[R], made: Callable[[Sequence[R], Window], object]) -> Collect:
    """Return a function that queries one view and builds a section's model from its rows."""

    def collect(context: ReportContext) -> Finish:
        rows = context.rows(view)
        return lambda _headline, _cards: made(rows(), context.window)

    return collect
