"""Who held the cards that were not truly-idle, by owner and program, and by whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.core.plaintext import cells, pad
from gua.report.kit.basis import moment
from gua.report.kit.draw import STACKED_BELOW
from gua.report.kit.figures import NONE, HourFormat, percent, plural, span
from gua.report.kit.style import Style, table
from gua.report.kit.tables import Drawn, Heading, Part, Table, TableColumn
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED
from gua.report.model import Report
from gua.report.sections.usage.model import BY_CONTAINER, BY_JOB, BY_POD, OwnerUsage, Usage, UsageRow
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN, observed_ms

MOST_OWNERS: Final = 10
MOST_ROWS: Final = 20
NONE_OF_IT: Final = "(none)"
UNLISTED: Final = "(unlisted)"
_STREAKS_FROM: Final = 110
_HAVE_NONE: Final = frozenset({BY_CONTAINER, BY_POD, BY_JOB})
_STATES: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
_PROCESS_HOURS_FROM: Final = 80
_NAME_WIDTH: Final = 32
_SHORTEST_NAME: Final = 9


_OWNERS: Final = (
    TableColumn(title="owner", left=True, shortest=_SHORTEST_NAME),
    TableColumn(title="program", left=True, shortest=_SHORTEST_NAME),
    TableColumn(title="GPU-hours"),
    *(TableColumn(title=state) for state in _STATES),
    TableColumn(title="process-h"),
    TableColumn(title="longest idle"),
    TableColumn(title="sessions"),
)
_ROWS: Final = (
    TableColumn(title="GPU-hours"),
    TableColumn(title="share %", leaves=5),
    *(TableColumn(title=state, leaves=7 if state == UNKNOWN else 0) for state in _STATES),
    TableColumn(title="process-h", leaves=4),
    TableColumn(title="longest idle", leaves=2),
    TableColumn(title="sessions", leaves=3),
    TableColumn(title="first seen", leaves=8),
    TableColumn(title="last seen", leaves=6),
)


def usage(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the ten largest owners' programs and the rest as one line, then whatever else was asked for."""
    if report[Usage].owners:
        yield _SAYS
        top, rest = report[Usage].owners[:MOST_OWNERS], report[Usage].owners[MOST_OWNERS:]
        yield Table(
            columns=_OWNERS,
            rows=[
                *(
                    [
                        _owner(one, style),
                        _program(one, style),
                        *_figures([one], hours, with_process_hours=True),
                        *_streaks(one),
                    ]
                    for one in top
                ),
                *([[_others(rest), "", *_figures(rest, hours, with_process_hours=True), "", ""]] if rest else []),
            ],
            heads=2,
        )
        yield _PROCESS_HOURS
    else:
        yield _nobody(report)
    yield from _by(report, style, hours)


_SAYS: Final = "GPU-hours of cards that were active, idle-held or unknown, split among those on them"
_PROCESS_HOURS: Final = "process-h: the hours of each process on its cards, whoever shared them"


def drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, with as many columns as fit."""
    if style.width < STACKED_BELOW:
        yield from usage(report, style, hours)
        return
    if report[Usage].owners:
        yield from _owners(report, style, hours)
    else:
        yield _nobody(report)
    yield from _by(report, style, hours)


def _nobody(report: Report) -> str:
    if not observed_ms(report.headline.states):
        return "nobody: nothing was observed"
    return "nobody: every card was truly-idle for all that was observed"


def _streaks(one: OwnerUsage) -> list[str]:
    return [span(one.longest_idle_ms), NONE if one.sessions is None else f"{one.sessions:,}"]


def _others(rest: Sequence[OwnerUsage]) -> str:
    return plural(len(rest), "other")


def _by(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    for by in report[Usage].usage_by:
        yield Heading(f"Per {style.name(by.by, _NAME_WIDTH)}")
        shown, rest = by.rows[:MOST_ROWS], by.rows[MOST_ROWS:]
        yield Table(
            columns=[TableColumn(title=by.by, left=True, shortest=_SHORTEST_NAME), *_ROWS],
            rows=[_row(one, by.by, report, style, hours) for one in shown],
            notes=_NOTES if by is report[Usage].usage_by[-1] else (),
        )
        if rest:
            yield (
                f"and {plural(len(rest), 'other')} with {hours.of(sum(one.gpu_ms for one in rest))} GPU-hours "
                "together: --csv usage and --json have every one."
            )


_NOTES: Final = (
    ("share %", "of all these GPU-hours"),
    ("process-h", "the hours of each process on its cards, whoever shared them"),
    ("longest idle", "the longest idle streak of one process"),
    ("sessions", "processes, each counted once however many cards it was on"),
)


def _row(one: UsageRow, by: str, report: Report, style: Style, hours: HourFormat) -> list[str]:
    zone = report.window.timezone
    return [
        _row_name(one, by, style),
        hours.of(one.gpu_ms),
        percent(one.share),
        *hours.parts([one.states[state].gpu_ms for state in _STATES]),
        hours.of(one.process_ms),
        span(one.longest_idle_ms),
        NONE if one.sessions is None else f"{one.sessions:,}",
        NONE if one.first_ms is None else moment(one.first_ms, zone),
        NONE if one.last_ms is None else moment(one.last_ms, zone),
    ]


def _row_name(one: UsageRow, by: str, style: Style) -> str:
    if one.kind != "listed":
        return UNLISTED
    if one.name is None:
        return NONE_OF_IT if by in _HAVE_NONE else NOT_KNOWN
    return style.name(one.name, _NAME_WIDTH) or '""'


def _owners(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the ten largest and the rest as one line, so that they add up to the time that was not truly-idle."""
    yield _SAYS
    top, rest = report[Usage].owners[:MOST_OWNERS], report[Usage].owners[MOST_OWNERS:]
    with_process_hours = style.width >= _PROCESS_HOURS_FROM
    with_streaks = style.width >= _STREAKS_FROM and any(one.sessions is not None for one in top)
    header = ["GPU-hours", *_STATES, *(["process-h"] if with_process_hours else [])]
    others = _figures(rest, hours, with_process_hours=with_process_hours)
    figures = [
        [*header, *(["longest idle", "sessions"] if with_streaks else [])],
        *(
            [
                *_figures([one], hours, with_process_hours=with_process_hours),
                *(_streaks(one) if with_streaks else []),
            ]
            for one in top
        ),
        *([[*others, *(["", ""] if with_streaks else [])]] if rest else []),
    ]
    lines = table(figures, left=0, indent=2, gap=1 if style.width < _PROCESS_HOURS_FROM else 2)
    room = style.width - max(map(len, lines)) - 4
    owner_width, program_width = _name_widths(top, style, room)
    names = [
        ("owner", "program"),
        *((_owner(one, style), _program(one, style)) for one in top),
        *([(_others(rest), "")] if rest else []),
    ]
    for place, ((owner, program), line) in enumerate(zip(names, lines, strict=True)):
        if program or place == 0:
            label = f"{pad(style.name(owner, owner_width), owner_width)}  "
            label += pad(style.name(program, program_width), program_width)
        else:
            label = pad(style.name(owner, owner_width + 2 + program_width), owner_width + 2 + program_width)
        shown = f"  {label}{line}".rstrip()
        if place == 0:
            for state in _STATES:
                shown = style.state(shown, state)
        yield Drawn(shown)
    if with_process_hours:
        yield _PROCESS_HOURS


def _figures(group: Sequence[OwnerUsage], hours: HourFormat, *, with_process_hours: bool) -> list[str]:
    states = [sum(one.states[state].gpu_ms for one in group) for state in _STATES]
    return [
        hours.of(sum(one.gpu_ms for one in group)),
        *hours.parts(states),
        *([hours.of(sum(one.process_ms for one in group))] if with_process_hours else []),
    ]


def _owner(one: OwnerUsage, style: Style) -> str:
    if one.kind != "listed":
        return NOT_LISTED
    return NOT_KNOWN if one.owner is None else style.name(one.owner, _NAME_WIDTH)


def _program(one: OwnerUsage, style: Style) -> str:
    if one.kind != "listed":
        return ""
    return NOT_KNOWN if one.program is None else style.name(one.program, _NAME_WIDTH)


def _name_widths(top: Sequence[OwnerUsage], style: Style, room: int) -> tuple[int, int]:
    """Return the columns of owner and program: as wide as needed, the wider one gives way where room is short."""
    listed = [one for one in top if one.kind == "listed"]
    owner = max([_SHORTEST_NAME, *(cells(_owner(one, style)) for one in listed)])
    program = max([_SHORTEST_NAME, *(cells(_program(one, style)) for one in listed)])
    while owner + program > room and max(owner, program) > _SHORTEST_NAME:
        if owner >= program:
            owner -= 1
        else:
            program -= 1
    if len(listed) < len(top):  # the words for no process take both columns
        program = max(program, min(len(NOT_LISTED) - owner - 2, room - owner))
    return owner, program
