"""Section 4: who held the cards that were not truly idle, by user and program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpu_usage_audit.core.plaintext import cells, pad
from gpu_usage_audit.report.figures import HourFormat, plural
from gpu_usage_audit.report.model import ACTIVE, IDLE_HELD, UNKNOWN, Identity, Report
from gpu_usage_audit.report.style import Style, table

MOST_IDENTITIES: Final = 10
NOT_LISTED: Final = "(no listed process)"
NOT_KNOWN: Final = "(unknown)"
_STATES: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
_UNSPLIT_FROM: Final = 80
_NAME_WIDTH: Final = 32
_SHORTEST_NAME: Final = 9


def identities(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the ten largest and the rest as one line, so that they add up to the time that was not truly-idle."""
    yield style.title("4. Top identities")
    if not report.identities:
        yield from style.wrap("nobody: every card was truly-idle for all that was observed")
        return
    yield from style.wrap("GPU-hours of cards that were active, idle-held or unknown, split among those on them")
    top, rest = report.identities[:MOST_IDENTITIES], report.identities[MOST_IDENTITIES:]
    with_unsplit = style.width >= _UNSPLIT_FROM
    header = ["GPU-hours", *_STATES, *(["unsplit"] if with_unsplit else [])]
    figures = [
        header,
        *(_figures([identity], hours, with_unsplit=with_unsplit) for identity in top),
        *([_figures(rest, hours, with_unsplit=with_unsplit)] if rest else []),
    ]
    lines = table(figures, left=0, indent=2, gap=1 if style.width < _UNSPLIT_FROM else 2)
    room = style.width - max(map(len, lines)) - 4
    owner_width, program_width = _name_widths(top, style, room)
    names = [
        ("user", "program"),
        *((_owner(identity, style), _program(identity, style)) for identity in top),
        *([(f"{plural(len(rest), 'other')}", "")] if rest else []),
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
        yield shown
    if with_unsplit:
        yield from style.wrap("unsplit: the hours of each process on its cards, whoever shared them")


def _figures(group: Sequence[Identity], hours: HourFormat, *, with_unsplit: bool) -> list[str]:
    states = [sum(identity.states[state].gpu_ms for identity in group) for state in _STATES]
    return [
        hours.of(sum(identity.gpu_ms for identity in group)),
        *hours.parts(states),
        *([hours.of(sum(identity.unsplit_ms for identity in group))] if with_unsplit else []),
    ]


def _owner(identity: Identity, style: Style) -> str:
    if identity.kind != "listed":
        return NOT_LISTED
    return NOT_KNOWN if identity.owner is None else style.name(identity.owner, _NAME_WIDTH)


def _program(identity: Identity, style: Style) -> str:
    if identity.kind != "listed":
        return ""
    return NOT_KNOWN if identity.program is None else style.name(identity.program, _NAME_WIDTH)


def _name_widths(top: Sequence[Identity], style: Style, room: int) -> tuple[int, int]:
    """Return the columns of user and program: as wide as needed, the wider one gives way where room is short."""
    listed = [identity for identity in top if identity.kind == "listed"]
    owner = max([_SHORTEST_NAME, *(cells(_owner(identity, style)) for identity in listed)])
    program = max([_SHORTEST_NAME, *(cells(_program(identity, style)) for identity in listed)])
    while owner + program > room and max(owner, program) > _SHORTEST_NAME:
        if owner >= program:
            owner -= 1
        else:
            program -= 1
    if len(listed) < len(top):  # the words for no process take both columns
        program = max(program, min(len(NOT_LISTED) - owner - 2, room - owner))
    return owner, program
