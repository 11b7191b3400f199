"""Usage: GPU time of owners and their programs, and of whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.hours import parts
from gua.report.kit.fields import Cells, cells
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.usage import html, text
from gua.report.sections.usage.by_parts import ask_by_parts, owners_of_parts
from gua.report.sections.usage.model import Usage
from gua.report.sections.usage.query import OWNER_AND_PROGRAM, ask_usage, owners_of, usage_of


def _collect(asking: Asking) -> Finish:
    if not asking.makes_streaks:
        answers = ask_by_parts(asking.reader, asking.read, parts(asking.hours))
        return lambda _headline, _cards: Usage(owners=owners_of_parts(answers))
    processes = asking.once(ask_usage, OWNER_AND_PROGRAM)
    by = {key: asking.once(ask_usage, key) for key in asking.request.usage_by}
    return lambda headline, _cards: Usage(
        owners=owners_of(list(processes()), headline),
        usage_by=tuple(usage_of(key, list(answer()), headline) for key, answer in by.items()),
    )


def _rows(usage: Usage, _report: Report) -> Iterator[Cells]:
    for owner in usage.owners:
        yield {"by": "owner and program", **cells(owner)}
    for by in usage.usage_by:
        yield from ({"by": by.by, **cells(row)} for row in by.rows)


_WHOSE = ("by", "kind", "name", "owner", "program")
_STATES = ("active_gpu_hours", "idle_held_gpu_hours", "unknown_gpu_hours")
_PROCESSES = ("process_hours", "longest_idle_hours", "sessions", "first_seen", "last_seen")
USAGE = Section(
    name="usage",
    title="Top owners",
    model=Usage,
    collect=_collect,
    text=text.usage,
    drawn=text.drawn,
    html=html.usage,
    spread=True,
    csv=Csv((*_WHOSE, "gpu_hours", "share", *_STATES, *_PROCESSES), _rows),
    is_default=True,
)
