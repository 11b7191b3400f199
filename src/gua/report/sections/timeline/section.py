"""Each card's states over time, and who was on it."""

from __future__ import annotations

from collections.abc import Iterator

from gua.core.durations import to_rfc3339
from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Cells, cells, state_columns
from gua.report.model import Report
from gua.report.parts import in_parts
from gua.report.section import Csv, Section, on_page, zoned
from gua.report.sections.timeline import text
from gua.report.sections.timeline.model import Timeline
from gua.report.sections.timeline.query import ask_timeline, timeline
from gua.report.size_limit import MOST_CARD_HOURS_IN_PARTS

_SECONDS = state_columns("seconds")


def _collect(asking: Asking) -> Finish:
    answers = ask_timeline(in_parts(asking.reader, asking.parts), asking.read, asking.window)
    return lambda _headline, cards: timeline(answers, asking.window, cards)


def _rows(found: Timeline, _report: Report) -> Iterator[Cells]:
    for card in found.cards:
        whose = cells(card)
        for place, cell in enumerate(card.cells):
            seconds = dict(zip(_SECONDS, (part / 1000 for part in cell), strict=True))
            yield {**whose, "cell_begin": to_rfc3339(found.since_ms + place * found.cell_ms), **seconds}


TIMELINE = Section(
    name="timeline",
    title=zoned("Timeline"),
    model=Timeline,
    collect=_collect,
    text=text.timeline,
    drawn=text.drawn,
    html=on_page(__package__, "timeline"),
    csv=Csv(("host", "gpu", "index", "cell_begin", *_SECONDS), _rows),
    most_card_hours=MOST_CARD_HOURS_IN_PARTS,
)
