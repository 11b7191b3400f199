"""Usage: GPU time of owners and their programs, and of whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking, Finish
from gua.report.hours import parts
from gua.report.kit.fields import Cells, Json, cells, columns, json_of, state_columns, states_json, to_json
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.sections.usage import html, text
from gua.report.sections.usage.by_parts import ask_by_parts, owners_of_parts
from gua.report.sections.usage.model import Usage, UsageRow
from gua.report.sections.usage.query import IDENTITY, ask_who, identities, parties
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, StateTime


def _collect(asking: Asking) -> Finish:
    if not asking.makes_streaks:
        answers = ask_by_parts(asking.reader, asking.read, parts(asking.hours))
        return lambda _headline, _cards: Usage(owners=owners_of_parts(answers))
    processes = asking.once(ask_who, IDENTITY)
    by = {key: asking.once(ask_who, key) for key in asking.request.parties_by}
    return lambda headline, _cards: Usage(
        owners=identities(list(processes()), headline),
        by=tuple(parties(key, list(answer()), headline) for key, answer in by.items()),
    )


def _json(report: Report) -> Json:
    usage = report.get(Usage)
    return {
        "owners": to_json(usage.owners if usage else ()),
        "usage_by": [{"by": by.by, "rows": [_row(row) for row in by.rows]} for by in (usage.by if usage else ())],
    }


def _row(row: UsageRow) -> Json:
    by_state = {ACTIVE: row.active_gpu_ms, IDLE_HELD: row.idle_held_gpu_ms, UNKNOWN: row.unknown_gpu_ms}
    states = {state: StateTime(gpu_ms=by_state.get(state, 0)) for state in STATES}
    whole = {key: value for key, value in json_of(row).items() if key not in state_columns("gpu_hours")}
    return {**whole, "states": states_json(states)}


def _rows(report: Report) -> Iterator[Cells]:
    usage = report.get(Usage)
    for owner in usage.owners if usage else ():
        yield {"by": "owner and program", **cells(owner)}
    for by in usage.by if usage else ():
        yield from ({"by": by.by, **cells(row)} for row in by.rows)


USAGE = Section(
    name="usage",
    title="Top owners",
    collect=_collect,
    text=text.usage,
    drawn=text.drawn,
    html=html.usage,
    json=_json,
    csv=Csv(("by", "kind", "name", "owner", "program", *columns(UsageRow)[2:]), _rows),
    is_default=True,
)
