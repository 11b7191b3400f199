"""Allocation: GPU-hours by what became of the promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.allocation_sources import ask_sources, sources_of
from gua.report.asking import Asking, Finish
from gua.report.costs import COST_COLUMNS, with_currencies
from gua.report.kit.fields import Cells, Json, cells, columns, json_of
from gua.report.model import Card, Headline, Report, ReportedSource
from gua.report.promises import ask_promised_work
from gua.report.section import Csv, Section
from gua.report.sections.allocation import text
from gua.report.sections.allocation.model import Allocated, PromisedHours
from gua.report.sections.allocation.query import allocation
from gua.report.states import MS_PER_HOUR
from gua.report.uses import USES, share
from gua.report.waits import ask_reservations
from gua.report.window import BY_KIND, BY_SERVED_MODEL

WORK_BY: Final = frozenset({BY_KIND, BY_SERVED_MODEL})
"""The keys by which promised time can be added up: what it is for."""


def _collect(asking: Asking) -> Finish:
    rows, sources = asking.promises(), asking.once(ask_sources)
    counts = asking.once(ask_reservations, sources)
    work = {by: asking.once(ask_promised_work, by, sources) for by in asking.request.usage_by if by in WORK_BY}

    def finish(headline: Headline, _cards: Sequence[Card]) -> PromisedHours:
        of_work = {by: answer() for by, answer in work.items()}
        return allocation(rows(), sources_of(sources()), headline, asking.prices, counts(), work=of_work)

    return finish


def _json(found: PromisedHours) -> Json:
    return {"looked_at": found.looked_at, **json_of(found)}


def _rows(found: PromisedHours, _report: Report) -> Iterator[Cells]:
    if not found.looked_at:
        return
    for use in USES:
        gpu_ms = found.uses.get(use, 0)
        row: Cells = {"kind": "use", "use": use, "gpu_hours": gpu_ms / MS_PER_HOUR, "share": share(found.uses, use)}
        yield from with_currencies(row, None if found.costs is None else found.costs[use], ("kind", "use"))
    for kind, allocated in (("source", found.promised), ("owner", found.owners)):
        for one in allocated:
            yield from with_currencies({"kind": kind, **cells(one)}, one.unused_cost, ("kind", "source", "owner"))
    for work in found.work_by:
        for each in work.rows:
            yield {"kind": work.by, **cells(each)}
    for health in found.sources:
        yield {"kind": "health", **cells(health)}


_OF_ALL = ("use", "gpu_hours", "share")
_OF_HEALTH = tuple(column for column in columns(ReportedSource) if column != "source")
ALLOCATION = Section(
    name="allocation",
    title="Allocation: what became of promised cards",
    model=PromisedHours,
    collect=_collect,
    text=text.allocation,
    json=_json,
    csv=Csv(("kind", *columns(Allocated), *_OF_ALL, *COST_COLUMNS, *_OF_HEALTH, "name"), _rows),
    has=lambda report: (found := report.get(PromisedHours)) is not None and found.looked_at,
)
