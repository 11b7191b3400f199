"""One section of a report as CSV (RFC 4180): a header row with units, numbers in full precision, unknown as nothing.

Text that a spreadsheet would take for a formula gets a ``'`` before it, as OWASP has it: names come from processes and
hosts, and a program may call itself ``=HYPERLINK(...)``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gua.core.plaintext import safe
from gua.report import section_names
from gua.report.forms import csv_more
from gua.report.kit.csv_values import Cell, Section, hours_of, of_states, state_columns
from gua.report.kit.json_values import time
from gua.report.model import Report
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, share

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Report, section: str) -> str:
    """Return a section as CSV with a header row; no row where the report has nothing of it."""
    header, rows = _SECTIONS[section]
    written = io.StringIO()
    writer = csv.writer(written)  # its default is RFC 4180: commas, CRLF, quotes where needed
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows(report))
    return written.getvalue()


def _cell(value: Cell) -> str | float:
    """Return what is written: numbers as they are, text harmless for a terminal and for a spreadsheet."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = safe(value)
    return f"'{text}" if value.startswith(_FORMULA) or text.startswith(_FORMULA) else text


def _headline(report: Report) -> Iterator[Sequence[Cell]]:
    split = report.idle_split
    for state in STATES:
        part = report.headline.states[state]
        held = split if state == IDLE_HELD else None
        yield (
            state,
            hours_of(part.gpu_ms),
            report.headline.shares[state],
            part.card_ticks,
            hours_of(held.never_used_gpu_ms if held else None),
            hours_of(held.low_gpu_ms if held else None),
            hours_of(held.unknown_gpu_ms if held else None),
            hours_of(held.long_gpu_ms if held else None),
        )


def _idle_capacity(report: Report) -> Iterator[Sequence[Cell]]:
    for state in (IDLE_HELD, TRULY_IDLE):
        yield (
            state,
            hours_of(report.headline.states[state].gpu_ms),
            report.headline.equivalent_gpus[state],
        )


def _groups(report: Report) -> Iterator[Sequence[Cell]]:
    for rollup in report.rollups:
        for group in rollup.groups:
            yield (
                rollup.by,
                group.name,
                group.hosts,
                group.cards,
                hours_of(group.expected_gpu_ms),
                hours_of(group.observed_gpu_ms),
                hours_of(group.unobserved_gpu_ms),
                group.ratio,
                group.gaps,
                *of_states(group.states),
            )


def _cards(report: Report) -> Iterator[Sequence[Cell]]:
    for card in report.cards:
        yield (
            card.host,
            card.gpu,
            card.index,
            card.name,
            card.model,
            card.mig,
            card.parent,
            hours_of(card.expected_gpu_ms),
            hours_of(card.observed_gpu_ms),
            hours_of(card.unobserved_gpu_ms),
            card.gaps,
            *of_states(card.states),
        )


def _who(report: Report) -> Iterator[Sequence[Cell]]:
    for one in report.identities:
        yield (
            "user and program",
            one.kind,
            None,
            one.owner,
            one.program,
            hours_of(one.gpu_ms),
            None,
            *(hours_of(one.states[state].gpu_ms) for state in (ACTIVE, IDLE_HELD, UNKNOWN)),
            hours_of(one.unsplit_ms),
            hours_of(one.longest_idle_ms),
            one.sessions,
            time(one.first_ms),
            time(one.last_ms),
        )
    for parties in report.parties:
        for row in parties.rows:
            yield (
                parties.by,
                row.kind,
                row.name,
                None,
                None,
                hours_of(row.gpu_ms),
                row.share,
                hours_of(row.active_gpu_ms),
                hours_of(row.idle_held_gpu_ms),
                hours_of(row.unknown_gpu_ms),
                hours_of(row.unsplit_ms),
                hours_of(row.longest_idle_ms),
                row.sessions,
                time(row.first_ms),
                time(row.last_ms),
            )


def _time_of_day(report: Report) -> Iterator[Sequence[Cell]]:
    for hour, states in enumerate(report.time_of_day):
        yield (hour, *of_states(states), *(share(states, state) for state in STATES))


_GROUP_HOURS: Final = ("expected_gpu_hours", "observed_gpu_hours", "unobserved_gpu_hours")
_SECTIONS: Final[Mapping[str, Section]] = {
    section_names.HEADLINE: (
        (
            "state",
            "gpu_hours",
            "share",
            "card_ticks",
            "never_used_gpu_hours",
            "low_gpu_hours",
            "not_told_gpu_hours",
            "in_long_streaks_gpu_hours",
        ),
        _headline,
    ),
    section_names.IDLE_CAPACITY: (("state", "gpu_hours", "equivalent_gpus"), _idle_capacity),
    section_names.GROUPS: (
        ("by", "group", "hosts", "cards", *_GROUP_HOURS, "observed_ratio", "gaps", *state_columns("gpu_hours")),
        _groups,
    ),
    section_names.CARDS: (
        (
            "host",
            "gpu",
            "index",
            "name",
            "model",
            "mig",
            "parent",
            *_GROUP_HOURS,
            "gaps",
            *state_columns("gpu_hours"),
        ),
        _cards,
    ),
    section_names.WHO: (
        (
            "by",
            "kind",
            "name",
            "owner",
            "program",
            "gpu_hours",
            "share",
            "active_gpu_hours",
            "idle_held_gpu_hours",
            "unknown_gpu_hours",
            "unsplit_hours",
            "longest_idle_hours",
            "sessions",
            "first_seen",
            "last_seen",
        ),
        _who,
    ),
    section_names.TIME_OF_DAY: (
        ("hour", *state_columns("gpu_hours"), *state_columns("share")),
        _time_of_day,
    ),
    **csv_more.SECTIONS,
}
