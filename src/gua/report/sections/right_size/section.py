"""Right size: programs that would have fitted less memory than their cards have."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.costs import with_currencies
from gua.report.kit.fields import Cells, cells, columns
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.right_size import text
from gua.report.sections.right_size.model import ProgramOnCard, RightSize
from gua.report.sections.right_size.query import right_size
from gua.report.size_limit import MOST_CARD_HOURS_OF_TICKS


def _rows(found: RightSize, _report: Report) -> Iterator[Cells]:
    for one in found.workloads:
        yield from with_currencies(cells(one), one.cost, _WHOSE)


_WHOSE = ("host", "gpu", "owner", "program", "job")
RIGHT_SIZE = Section(
    name="right-size",
    title="What would have fitted less memory",
    model=RightSize,
    collect=right_size,
    most_card_hours=MOST_CARD_HOURS_OF_TICKS,
    text=text.right_size,
    csv=Csv(columns(ProgramOnCard), _rows),
)
