"""Who held the cards: owners and their programs, then containers, pods or whatever else was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.report.kit.bars import CLASSES, stacked
from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural, span
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table, two_lines
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED
from gua.report.model import Report
from gua.report.sections.usage.model import OwnerUsage, Usage, UsageBy, UsageRow
from gua.report.sections.usage.text import NONE_OF_IT
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

MOST_OWNERS: Final = 25
MOST_ROWS: Final = 25
_STATES: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
_CAPTION: Final = "GPU-hours of cards that were active, idle-held or unknown, split among those on them"
_PROCESS_HOURS: Final = (
    "Process hours: the hours of each process on its cards, whoever shared them. A session is one process."
)


def usage(report: Report, hours: HourFormat) -> Markup:
    """Return the tables; one sentence where nobody was on any card."""
    if not report[Usage].owners and not any(by.rows for by in report[Usage].usage_by):
        return tag("p", "Nobody: every card was truly-idle for all that was observed.")
    tables = [_owners(report, hours)] if report[Usage].owners else []
    tables += [join([tag("h3", f"Per {by.by}"), _by(by, report, hours)]) for by in report[Usage].usage_by if by.rows]
    return join([*tables, tag("p", _PROCESS_HOURS, class_="note")])


def _owners(report: Report, hours: HourFormat) -> Markup:
    shown, rest = report[Usage].owners[:MOST_OWNERS], report[Usage].owners[MOST_OWNERS:]
    largest = max(one.gpu_ms for one in shown)
    with_sessions = any(one.sessions is not None for one in shown)
    total = sum(one.gpu_ms for one in report[Usage].owners)

    columns = [*_columns("owner, program"), *(_session_columns() if with_sessions else [])]
    rows = [
        [
            two_lines(*_names(one)),
            *_figures([one], hours, largest, total),
            *(_sessions(one, report) if with_sessions else []),
        ]
        for one in shown
    ]
    if rest:
        blank = [NONE] * len(_session_columns()) if with_sessions else []
        rows.append([plural(len(rest), "other"), *_figures(rest, hours, largest, total), *blank])
    return table(_CAPTION, columns, rows)


def _by(by: UsageBy, report: Report, hours: HourFormat) -> Markup:
    shown, rest = by.rows[:MOST_ROWS], by.rows[MOST_ROWS:]
    largest = max(row.gpu_ms for row in shown)
    total = sum(row.gpu_ms for row in by.rows)

    rows = [[_row(row), *_figures([row], hours, largest, total), *_sessions(row, report)] for row in shown]
    if rest:
        rows.append(
            [plural(len(rest), "other"), *_figures(rest, hours, largest, total), *([NONE] * len(_session_columns()))]
        )
    return table(f"{_CAPTION}, by {by.by}", [*_columns(by.by), *_session_columns()], rows)


def _figures(
    rows: Sequence[OwnerUsage] | Sequence[UsageRow], hours: HourFormat, largest: float, total: float
) -> list[str]:
    """Return the figures of rows together, ``largest`` and ``total`` in ms of GPU time."""
    spent = sum(row.gpu_ms for row in rows)
    states = [sum(row.states[state].gpu_ms for row in rows) for state in _STATES]
    return [
        _bar(states, hours, largest),
        hours.of(spent),
        percent(spent / total if total else None),
        *hours.parts(states),
        hours.of(sum(row.process_ms for row in rows)),
    ]


def _columns(head: str) -> list[HtmlColumn]:
    return [
        HtmlColumn(head),
        HtmlColumn("", BAR),
        HtmlColumn("GPU-hours", NUMBER),
        HtmlColumn("share %", NUMBER),
        *state_columns(_STATES),
        HtmlColumn("process hours", NUMBER),
    ]


def _session_columns() -> list[HtmlColumn]:
    return [HtmlColumn("longest idle", NUMBER), HtmlColumn("sessions", NUMBER), HtmlColumn("first and last seen")]


def _sessions(row: OwnerUsage | UsageRow, report: Report) -> list[str]:
    seen = NONE
    if row.first_ms is not None and row.last_ms is not None:
        zone = report.window.timezone
        seen = two_lines(tag("span", moment(row.first_ms, zone), class_="line"), moment(row.last_ms, zone))
    return [
        NONE if not row.sessions or row.longest_idle_ms is None else span(row.longest_idle_ms),
        f"{row.sessions:,}" if row.sessions else NONE,
        seen,
    ]


def _bar(values: Sequence[float], hours: HourFormat, largest: float) -> Markup:
    label = ", ".join(
        f"{state} {written} GPU-hours ({part} %)"
        for state, written, part in zip(_STATES, hours.parts(values), percents(values), strict=True)
    )
    return stacked(
        [(CLASSES[state], "", value) for state, value in zip(_STATES, values, strict=True)], label, of=largest
    )


def _names(one: OwnerUsage) -> tuple[str, str]:
    if one.kind != "listed":
        return NOT_LISTED, ""
    owner = NOT_KNOWN if one.owner is None else name(one.owner, 32)
    return owner, NOT_KNOWN if one.program is None else name(one.program, 32)


def _row(row: UsageRow) -> str:
    if row.kind != "listed":
        return NOT_LISTED
    return NONE_OF_IT if row.name is None else name(row.name, 32)
