"""Each card's states over time, and who was on it."""

from __future__ import annotations

from collections.abc import Iterator

from gua.core.durations import to_rfc3339
from gua.report.asking import Asking, Finish
from gua.report.kit.fields import Cells, Json, state_columns, to_json
from gua.report.model import Report
from gua.report.section import Csv, Section, zoned
from gua.report.sections.streaks.query import ask_timeline, timeline
from gua.report.sections.timeline import html, text
from gua.report.sections.timeline.model import Timeline
from gua.report.states import STATES

_SECONDS = state_columns("seconds")


def _collect(asking: Asking) -> Finish:
    answers = ask_timeline(asking.reader, asking.read, asking.window)
    return lambda _headline, cards: timeline(answers, asking.window, cards)


def _json(report: Report) -> Json:
    found = report.get(Timeline)
    if found is None:
        return {"timeline": None}
    return {
        "timeline": {
            "since": to_rfc3339(found.since_ms),
            "until": to_rfc3339(found.until_ms),
            "cell_seconds": found.cell_ms / 1000,
            "states": list(STATES),
            "cards": to_json(found.cards),
        }
    }


def _rows(report: Report) -> Iterator[Cells]:
    found = report.get(Timeline)
    for card in found.cards if found else ():
        for place, cell in enumerate(card.cells):
            begin = to_rfc3339(found.since_ms + place * found.cell_ms) if found else None
            seconds = (part / 1000 for part in cell)
            whose: dict[str, str | float | None] = {"host": card.host, "gpu": card.gpu, "index": card.index}
            yield {**whose, "cell_begin": begin, **dict(zip(_SECONDS, seconds, strict=True))}


TIMELINE = Section(
    name="timeline",
    title=zoned("Timeline"),
    model=Timeline,
    collect=_collect,
    text=text.timeline,
    drawn=text.drawn,
    html=html.timeline,
    json=_json,
    csv=Csv(("host", "gpu", "index", "cell_begin", *_SECONDS), _rows),
    streaks="needed",
)
