"""Who held the cards: users and their programs, then owners, pods or whatever else was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.report.kit.bars import CLASSES, stacked
from gua.report.kit.basis import moment
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural, span
from gua.report.kit.html_tables import BAR, NUMBER, Column, state_columns, table, two_lines
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED
from gua.report.model import Identity, Report
from gua.report.sections.usage.model import Parties, Party
from gua.report.sections.usage.text import NONE_OF_IT
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

MOST_IDENTITIES: Final = 25
MOST_PARTIES: Final = 25
_STATES: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
_CAPTION: Final = "GPU-hours of cards that were active, idle-held or unknown, split among those on them"
_UNSPLIT: Final = "unsplit: the hours of each process on its cards, whoever shared them. A session is one process."


def who(report: Report, hours: HourFormat) -> Markup:
    """Return the tables of who; one sentence where nobody was on any card."""
    if not report.identities and not any(parties.rows for parties in report.parties):
        return tag("p", "Nobody: every card was truly-idle for all that was observed.")
    tables = [_identities(report, hours)] if report.identities else []
    tables += [
        join([tag("h3", f"Per {parties.by}"), _parties(parties, report, hours)])
        for parties in report.parties
        if parties.rows
    ]
    return join([*tables, tag("p", _UNSPLIT, class_="note")])


def _identities(report: Report, hours: HourFormat) -> Markup:
    shown, rest = report.identities[:MOST_IDENTITIES], report.identities[MOST_IDENTITIES:]
    largest = max(identity.gpu_ms for identity in shown)
    with_sessions = any(identity.sessions is not None for identity in shown)
    total = sum(identity.gpu_ms for identity in report.identities)

    def figures(group: Sequence[Identity]) -> list[str]:
        spent = sum(identity.gpu_ms for identity in group)
        states = [sum(identity.states[state].gpu_ms for identity in group) for state in _STATES]
        return [
            _bar(states, hours, largest),
            hours.of(spent),
            percent(spent / total if total else None),
            *hours.parts(states),
            hours.of(sum(identity.unsplit_ms for identity in group)),
        ]

    columns = [*_columns("user, program"), *(_session_columns() if with_sessions else [])]
    rows = [
        [
            two_lines(*_names(identity)),
            *figures([identity]),
            *(_sessions(identity, report) if with_sessions else []),
        ]
        for identity in shown
    ]
    if rest:
        blank = [NONE] * len(_session_columns()) if with_sessions else []
        rows.append([plural(len(rest), "other"), *figures(rest), *blank])
    return table(_CAPTION, columns, rows)


def _parties(parties: Parties, report: Report, hours: HourFormat) -> Markup:
    shown, rest = parties.rows[:MOST_PARTIES], parties.rows[MOST_PARTIES:]
    largest = max(party.gpu_ms for party in shown)
    total = sum(party.gpu_ms for party in parties.rows)

    def figures(group: Sequence[Party]) -> list[str]:
        spent = sum(party.gpu_ms for party in group)
        states = [
            sum(party.active_gpu_ms for party in group),
            sum(party.idle_held_gpu_ms for party in group),
            sum(party.unknown_gpu_ms for party in group),
        ]
        return [
            _bar(states, hours, largest),
            hours.of(spent),
            percent(spent / total if total else None),
            *hours.parts(states),
            hours.of(sum(party.unsplit_ms for party in group)),
        ]

    rows = [[_party(party), *figures([party]), *_sessions(party, report)] for party in shown]
    if rest:
        rows.append([plural(len(rest), "other"), *figures(rest), *([NONE] * len(_session_columns()))])
    return table(f"{_CAPTION}, by {parties.by}", [*_columns(parties.by), *_session_columns()], rows)


def _columns(head: str) -> list[Column]:
    return [
        Column(head),
        Column("", BAR),
        Column("GPU-hours", NUMBER),
        Column("share %", NUMBER),
        *state_columns(_STATES),
        Column("unsplit", NUMBER),
    ]


def _session_columns() -> list[Column]:
    return [Column("longest idle", NUMBER), Column("sessions", NUMBER), Column("first and last seen")]


def _sessions(row: Identity | Party, report: Report) -> list[str]:
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


def _names(identity: Identity) -> tuple[str, str]:
    if identity.kind != "listed":
        return NOT_LISTED, ""
    owner = NOT_KNOWN if identity.owner is None else name(identity.owner, 32)
    return owner, NOT_KNOWN if identity.program is None else name(identity.program, 32)


def _party(party: Party) -> str:
    if party.kind != "listed":
        return NOT_LISTED
    return NONE_OF_IT if party.name is None else name(party.name, 32)
