"""Groups: cards added up by host, cluster, model or a label."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.groups import text
from gua.report.sections.groups.model import Group, Groupings
from gua.report.sections.groups.query import rollups


def _collect(asking: Asking) -> Finish:
    return lambda _headline, cards: Groupings(rollups(cards, asking.request.groups_by, asking.labels))


def _rows(groupings: Groupings, _report: Report) -> Iterator[Cells]:
    for grouping in groupings:
        for group in grouping.groups:
            yield from with_currencies({"by": grouping.by, **cells(group)}, group.costs, ("by", "group"))


GROUPS = Section(
    name="groups",
    title=text.title,
    model=Groupings,
    collect=_collect,
    text=text.groups,
    drawn=text.drawn,
    csv=Csv(("by", *columns(Group)), _rows),
)
