"""Who held the cards that were not truly-idle, by owner and program, and by whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from gua.report.kit.tables import STACKED_BELOW, Drawn, Heading, Part, Rows, Table, TableColumn
from gua.report.kit.words import NOT_KNOWN, NOT_LISTED
from gua.report.model import Card, Headline, Report
from gua.report.prices import CostsRow, Prices, of_cards
from gua.report.section import Csv, Section
from gua.report.sections.usage_rows import (
    OWNER_AND_PROGRAM,
    OwnerUsage,
    Usage,
    UsageBy,
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
    """Yield a table for each key by which processes are added up; the last one explains the columns of all."""
    for by in report[Usage].usage_by:
        yield Heading(f"Per {style.name(by.by, _NAME_WIDTH)}")
        table = _usage_by_table(by, report, style, hours)
        yield table if by is report[Usage].usage_by[-1] else replace(table, notes=())
        if rest := by.rows[MOST_ROWS * style.times :]:
            yield (
                f"and {plural(len(rest), 'other')} with {hours.of(sum(one.gpu_ms for one in rest))} GPU-hours "
                "together: --csv usage and --json have every one."
            )


def _usage_by_table(by: UsageBy, report: Report, style: Style, hours: HourFormat) -> Table:
    amounts = Amounts.of_report(report)
    shares = percents([one.gpu_ms for one in by.rows])
    rows = Rows([*zip(by.rows, shares, strict=True)], MOST_ROWS * style.times)

    def seen(unix_ms: int | None) -> str:
        return NONE if unix_ms is None else at(unix_ms, report.window)

    def states(one: UsageRow) -> list[str]:
        return hours.parts([one.states[state].gpu_ms for state in _STATES])

    rows.add(by.by, lambda one: _row_name(one[0], by.by, style), left=True, shortest=_SHORTEST_NAME)
    rows.add("GPU-hours", lambda one: hours.of(one[0].gpu_ms))
    rows.add("share %", lambda one: one[1], leaves=5, note="of all these GPU-hours")
    rows.add(_STATES[:-1], lambda one: states(one[0])[:-1])
    rows.add(UNKNOWN, lambda one: states(one[0])[-1], leaves=7)
    wasted_titles = amounts.titles(WASTED, style.name)
    rows.add(wasted_titles, lambda one: amounts.cells(wasted(one[0].costs)))
    rows.add("process-h", lambda one: hours.of(one[0].process_ms), leaves=4, note=_OF_PROCESSES)
    rows.add(
        "longest idle",
        lambda one: span(one[0].longest_idle_ms),
        leaves=2,
        note="the longest idle streak of one process",
    )
    rows.add(
        "sessions",
        lambda one: NONE if one[0].sessions is None else f"{one[0].sessions:,}",
        leaves=3,
        note="processes, each counted once however many cards it was on",
    )
    rows.add("first seen", lambda one: seen(one[0].first_ms), leaves=8)
    rows.add("last seen", lambda one: seen(one[0].last_ms), leaves=6)
    rows.explain(wasted_titles, WASTED_NOTE)
    return rows.table()


_OF_PROCESSES: Final = "the hours of each process on its cards, whoever shared them"


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
            yield f"process-h: {_OF_PROCESSES}"


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
