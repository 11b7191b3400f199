"""Who held the cards that were not truly-idle, by owner and program, and by whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from gua.core.plaintext import cells as width_of
from gua.core.plaintext import pad
from gua.report.asking import Asking, Finish
from gua.report.costs import added, wasted, with_currencies
from gua.report.hours import parts
from gua.report.kit.amounts import AMOUNT_WIDTH, WASTED, WASTED_NOTE, Amounts
from gua.report.kit.basis import at
from gua.report.kit.fields import Cells, cells
from gua.report.kit.figures import NONE, HourFormat, percents, plural, span
from gua.report.kit.style import Style, table
from gua.report.kit.tables import STACKED_BELOW, Drawn, Heading, Part, Table, TableColumn
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED
from gua.report.model import Card, Headline, Report
from gua.report.prices import CostsRow, Prices, of_cards
from gua.report.section import Csv, Section
from gua.report.sections.usage_rows import (
    OWNER_AND_PROGRAM,
    OwnerUsage,
    Usage,
    UsageRow,
    Whole,
    ask_by_parts,
    ask_usage,
    owners_of,
    owners_of_parts,
    usage_of,
)
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN, observed_ms
from gua.report.window import BY_CONTAINER, BY_HOST, BY_JOB, BY_MODEL, BY_POD, BY_SERVED_MODEL

MOST_OWNERS: Final = 10
MOST_ROWS: Final = 20
NONE_OF_IT: Final = "(none)"
UNLISTED: Final = "(unlisted)"
_STREAKS_FROM: Final = 110
_HAVE_NONE: Final = frozenset({BY_CONTAINER, BY_POD, BY_JOB, BY_SERVED_MODEL})
_STATES: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
_PROCESS_HOURS_FROM: Final = 80
_NAME_WIDTH: Final = 32
_SHORTEST_NAME: Final = 9


_NAMES: Final = (
    TableColumn(title="owner", left=True, shortest=_SHORTEST_NAME),
    TableColumn(title="program", left=True, shortest=_SHORTEST_NAME),
)
_STREAKS: Final = ("longest idle", "sessions")
_LEAVES: Final = {"process-h": 1, "longest idle": 2, "sessions": 3, UNKNOWN: 4}
_HOURS: Final = (
    TableColumn(title="GPU-hours"),
    TableColumn(title="share %", leaves=5),
    *(TableColumn(title=state, leaves=7 if state == UNKNOWN else 0) for state in _STATES),
)
_ROWS: Final = (
    TableColumn(title="process-h", leaves=4),
    TableColumn(title="longest idle", leaves=2),
    TableColumn(title="sessions", leaves=3),
    TableColumn(title="first seen", leaves=8),
    TableColumn(title="last seen", leaves=6),
)


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the ten largest owners' programs and the rest as one line, then whatever else was asked for."""
    if report[Usage].owners:
        yield from _owners_as_table(report, style, hours)
    else:
        yield _nobody(report)
    yield from usage_by(report, style, hours)


def _owners_as_table(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    yield _SAYS
    most = MOST_OWNERS * style.times
    top, rest = report[Usage].owners[:most], report[Usage].owners[most:]
    figures = _Figures(Amounts.of_report(report), style, hours, with_process_hours=True)
    yield Table(
        columns=[
            *_NAMES,
            *(TableColumn(title=title, leaves=_LEAVES.get(title, 0)) for title in (*figures.titles(), *_STREAKS)),
        ],
        rows=[
            *([_owner(one, style), _program(one, style), *figures.of([one]), *_streaks(one)] for one in top),
            *([[_others(rest), "", *figures.of(rest), "", ""]] if rest else []),
        ],
        heads=2,
        bars=[one.states for one in top],
    )
    yield from figures.notes()


_SAYS: Final = "GPU-hours of cards that were active, idle-held or unknown, split among those on them"
_PROCESS_HOURS: Final = "process-h: the hours of each process on its cards, whoever shared them"


def _drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the same, with as many columns as fit."""
    if style.width < STACKED_BELOW:
        yield from _text(report, style, hours)
        return
    if report[Usage].owners:
        yield from _owners(report, style, hours)
    else:
        yield _nobody(report)
    yield from usage_by(report, style, hours)


def _nobody(report: Report) -> str:
    if not observed_ms(report.headline.states):
        return "nobody: nothing was observed"
    return "nobody: every card was truly-idle for all that was observed"


def _streaks(one: OwnerUsage) -> list[str]:
    return [span(one.longest_idle_ms), NONE if one.sessions is None else f"{one.sessions:,}"]


def _others(rest: Sequence[OwnerUsage]) -> str:
    return plural(len(rest), "other")


def usage_by(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table for each key by which processes are added up."""
    amounts = Amounts.of_report(report)
    wasted_titles = amounts.titles(WASTED, style.name)
    notes = [*_NOTES, *((title, WASTED_NOTE) for title in wasted_titles)]
    for by in report[Usage].usage_by:
        yield Heading(f"Per {style.name(by.by, _NAME_WIDTH)}")
        most = MOST_ROWS * style.times
        shown, rest = by.rows[:most], by.rows[most:]
        yield Table(
            columns=[
                TableColumn(title=by.by, left=True, shortest=_SHORTEST_NAME),
                *_HOURS,
                *(TableColumn(title=title) for title in wasted_titles),
                *_ROWS,
            ],
            rows=[
                _row(one, by.by, share, report, style, hours, amounts.cells(wasted(one.costs)))
                for one, share in zip(shown, percents([one.gpu_ms for one in by.rows]), strict=False)
            ],
            notes=notes if by is report[Usage].usage_by[-1] else (),
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


def _row(  # noqa: PLR0913, PLR0917 - a row, and how its figures are written
    one: UsageRow, by: str, share: str, report: Report, style: Style, hours: HourFormat, amounts: Sequence[str]
) -> list[str]:
    return [
        _row_name(one, by, style),
        hours.of(one.gpu_ms),
        share,
        *hours.parts([one.states[state].gpu_ms for state in _STATES]),
        *amounts,
        hours.of(one.process_ms),
        span(one.longest_idle_ms),
        NONE if one.sessions is None else f"{one.sessions:,}",
        NONE if one.first_ms is None else at(one.first_ms, report.window),
        NONE if one.last_ms is None else at(one.last_ms, report.window),
    ]


def _row_name(one: UsageRow, by: str, style: Style) -> str:
    if one.kind != "listed":
        return UNLISTED if one.name is None else f"{style.name(one.name, _NAME_WIDTH)} {UNLISTED}"
    if one.name is None:
        return NONE_OF_IT if by in _HAVE_NONE else NOT_KNOWN
    return style.name(one.name, _NAME_WIDTH) or '""'


def _owners(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the ten largest and the rest as one line, so that they add up to the time that was not truly-idle."""
    top, rest = report[Usage].owners[:MOST_OWNERS], report[Usage].owners[MOST_OWNERS:]
    amounts = Amounts.of_report(report)
    room = style.width - AMOUNT_WIDTH * len(amounts.currencies)
    if room < STACKED_BELOW:
        yield from _owners_as_table(report, style, hours)
        return
    yield _SAYS
    with_streaks = room >= _STREAKS_FROM and any(one.sessions is not None for one in top)
    figures = _Figures(amounts, style, hours, with_process_hours=room >= _PROCESS_HOURS_FROM)
    written = [
        [*figures.titles(), *(_STREAKS if with_streaks else [])],
        *([*figures.of([one]), *(_streaks(one) if with_streaks else [])] for one in top),
        *([[*figures.of(rest), *(["", ""] if with_streaks else [])]] if rest else []),
    ]
    lines = table(written, left=0, indent=2, gap=1 if style.width < _PROCESS_HOURS_FROM else 2)
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
    yield from figures.notes()


class _Figures:
    """The columns of owners: hours, what was wasted where prices match, and process hours where there is room."""

    def __init__(self, amounts: Amounts, style: Style, hours: HourFormat, *, with_process_hours: bool) -> None:
        self._amounts = amounts
        self._name = style.name
        self._hours = hours
        self._with_process_hours = with_process_hours

    def titles(self) -> list[str]:
        """Return the columns' titles."""
        process_hours = ["process-h"] if self._with_process_hours else []
        return ["GPU-hours", *_STATES, *self._amounts.titles(WASTED, self._name), *process_hours]

    def of(self, group: Sequence[OwnerUsage]) -> list[str]:
        """Return the figures of some owners together."""
        states = [sum(one.states[state].gpu_ms for one in group) for state in _STATES]
        return [
            self._hours.of(sum(one.gpu_ms for one in group)),
            *self._hours.parts(states),
            *self._amounts.cells(added(wasted(one.costs) for one in group)),
            *([self._hours.of(sum(one.process_ms for one in group))] if self._with_process_hours else []),
        ]

    def notes(self) -> Iterator[str]:
        """Yield what the columns mean."""
        if self._amounts.currencies:
            yield f"{WASTED}: {WASTED_NOTE}"
        if self._with_process_hours:
            yield _PROCESS_HOURS


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
    owner = max([_SHORTEST_NAME, *(width_of(_owner(one, style)) for one in listed)])
    program = max([_SHORTEST_NAME, *(width_of(_program(one, style)) for one in listed)])
    while owner + program > room and max(owner, program) > _SHORTEST_NAME:
        if owner >= program:
            owner -= 1
        else:
            program -= 1
    if len(listed) < len(top):  # the words for no process take both columns
        program = max(program, min(len(NOT_LISTED) - owner - 2, room - owner))
    return owner, program


def _collect(asking: Asking) -> Finish:
    prices = asking.prices
    if not asking.tells_processes:
        answers = ask_by_parts(asking.reader, asking.read, parts(asking.hours), prices)
        return lambda _headline, _cards: Usage(owners=owners_of_parts(answers, prices))
    processes = asking.once(ask_usage, OWNER_AND_PROGRAM, prices)
    by = {key: asking.once(ask_usage, key, prices) for key in asking.request.usage_by}
    costs = asking.costs()

    def finish(headline: Headline, cards: Sequence[Card]) -> Usage:
        whole = Whole.of([headline.states], prices, costs())
        return Usage(
            owners=owners_of(list(processes()), whole),
            usage_by=tuple(
                usage_of(key, list(answer()), whole, _groups(key, cards, prices, costs())) for key, answer in by.items()
            ),
        )

    return finish


def _groups(
    by: str, cards: Iterable[Card], prices: Prices, costs: Iterable[CostsRow]
) -> Mapping[str | None, Whole] | None:
    """Return what the rows of each host, or model, must come to; ``None`` for a key that is none of cards."""
    if by not in {BY_HOST, BY_MODEL}:
        return None
    named: dict[str | None, list[Card]] = {}
    for card in cards:
        named.setdefault(card.host if by == BY_HOST else card.model or card.name, []).append(card)
    rows = of_cards(costs)
    return {
        name: Whole.of(
            (card.states for card in of_name),
            prices,
            chain.from_iterable(rows.get((card.host, card.gpu), ()) for card in of_name),
        )
        for name, of_name in named.items()
    }


def _rows(usage: Usage, _report: Report) -> Iterator[Cells]:
    for owner in usage.owners:
        yield from with_currencies({"by": "owner and program", **cells(owner)}, owner.costs, _OWNER)
    for by in usage.usage_by:
        for row in by.rows:
            yield from with_currencies({"by": by.by, **cells(row)}, row.costs, _NAMED)


_OWNER = ("by", "kind", "owner", "program")
_NAMED = ("by", "kind", "name")
_WHOSE = ("by", "kind", "name", "owner", "program")
_STATE_COLUMNS = ("active_gpu_hours", "idle_held_gpu_hours", "unknown_gpu_hours")
_PROCESSES = ("process_hours", "longest_idle_hours", "sessions", "first_seen", "last_seen")
_COSTS = ("currency", "active_cost", "idle_held_cost", "unknown_cost", "unpriced_gpu_hours")
USAGE_SECTION = Section(
    name="usage",
    title="Top owners",
    model=Usage,
    collect=_collect,
    text=_text,
    drawn=_drawn,
    spread=True,
    csv=Csv((*_WHOSE, "gpu_hours", "share", *_STATE_COLUMNS, *_PROCESSES, *_COSTS), _rows),
)
