"""Section usage: time on cards that were not truly-idle, by owner and program and by other requested keys."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple, Self

from gua.core.parameters import PRICED, READ_DAYS
from gua.core.view import Count, Moment, View
from gua.report.context import Finish, ReportContext
from gua.report.costs import CostByState, added, wasted, with_currencies
from gua.report.kit.amounts import WASTED, WASTED_NOTE, Amounts
from gua.report.kit.basis import at
from gua.report.kit.fields import (
    HOURS,
    SECONDS,
    ByState,
    Cells,
    FirstSeen,
    Hours,
    LastSeen,
    Ratio,
    cells,
    filled,
    grouped,
    of_card,
)
from gua.report.kit.figures import HourFormat, count, percents, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table
from gua.report.kit.words import NOT_KNOWN, known
from gua.report.model import Card, Headline, Report
from gua.report.prices import CostsRow, PricedState, PricedUs, Prices, by_price_and_state, of_states
from gua.report.section import Csv, Section
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, StateTime, observed_ms
from gua.report.window import BY_CONTAINER, BY_HOST, BY_JOB, BY_MODEL, BY_POD, BY_SERVED_MODEL

LongestIdle = Annotated[int | None, replace(SECONDS, column="longest_idle_hours", cell=HOURS.cell)]
ProcessHours = Annotated[float, HOURS.named("process_hours")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerUsage:
    """An owner's program, or (kind ``unlisted``) time of cards that were not truly-idle without a listed process.

    ``gpu_ms`` is the GPU time attributed to it, ``process_ms`` the time of its processes on cards. ``states`` are those
    of the cards, ``costs`` the cost of its part by state. The other fields are those of a :class:`UsageRow`; ``None``
    in kind ``unlisted``.
    """

    kind: str
    owner: str | None
    program: str | None
    gpu_ms: Hours[float]
    process_ms: ProcessHours
    longest_idle_ms: LongestIdle = None
    sessions: int | None = None
    first_ms: FirstSeen[int | None] = None
    last_ms: LastSeen[int | None] = None
    states: ByState
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRow:
    """The processes of one name by a key (program, container, …); times in ms, moments in Unix ms.

    ``kind`` is ``listed``, or ``unlisted`` for time of cards that were not truly-idle without a listed process: one
    row, or one per host or model with that key. ``name`` is ``None`` where unknown or absent. GPU times are attributed
    by docs/rules.md; all rows add up to the active, idle-held and unknown time of cards. ``share`` is the part of that
    sum, 0 to 1. ``process_ms`` adds up each process's time on those cards. ``longest_idle_ms`` is the longest idle
    streak of a process that last had this name, ``None`` where all its states are unknown. A session is one process on
    any number of cards. ``first_ms`` and ``last_ms`` bound its time on a card in the window. ``sessions`` is ``None``
    where single processes are no longer stored.
    """

    kind: str
    name: str | None
    gpu_ms: Hours[float]
    share: Ratio[float | None]
    process_ms: ProcessHours
    longest_idle_ms: LongestIdle = None
    sessions: int | None = None
    first_ms: FirstSeen[int | None] = None
    last_ms: LastSeen[int | None] = None
    states: ByState
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageBy:
    """All rows by one key of ``USAGE_BY``, largest GPU time first."""

    by: str
    rows: tuple[UsageRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Owners with their programs, largest GPU time first, and the rows of each requested key."""

    owners: tuple[OwnerUsage, ...]
    usage_by: tuple[UsageBy, ...] = ()


OWNER_AND_PROGRAM = "identity"
_HELD: Final = (ACTIVE, IDLE_HELD, UNKNOWN)
LEAST_US: Final = 1000
"""Smallest unlisted time [us]: ticks are whole milliseconds, less is a rounding error of cut ticks."""


class OwnerSpanRow(NamedTuple):
    """Processes of one name: GPU time [us] by the card's state, and their times on cards."""

    name: str | None
    program: str | None
    active_us: Count
    idle_held_us: Count
    unknown_us: Count
    process_ms: Count
    sessions: Count
    first_ms: Moment | None
    last_ms: Moment | None
    longest_idle_ms: Count | None
    priced: tuple[PricedState, ...]

    @property
    def gpu_us(self) -> tuple[int, int, int]:
        """Return the GPU time on active, idle-held and unknown cards [us]."""
        return (self.active_us, self.idle_held_us, self.unknown_us)


USAGE_VIEW: Final = View("usage", OwnerSpanRow, (*READ_DAYS, "by", *PRICED))
_ADDED: Final = ("active_us", "idle_held_us", "unknown_us", "process_ms", "sessions")


def merged(rows: Iterable[OwnerSpanRow]) -> list[OwnerSpanRow]:
    """Return the rows of batches of hosts, those of one name added up: no process is on two hosts."""
    return [
        same[0]._replace(
            **{name: sum(getattr(one, name) for one in same) for name in _ADDED},
            first_ms=min((one.first_ms for one in same if one.first_ms is not None), default=None),
            last_ms=max((one.last_ms for one in same if one.last_ms is not None), default=None),
            longest_idle_ms=max((one.longest_idle_ms for one in same if one.longest_idle_ms is not None), default=None),
            priced=tuple(
                PricedState(*key, sum(part.gpu_us for part in parts))
                for key, parts in grouped((part for one in same for part in one.priced), lambda part: part[:2]).items()
            ),
        )
        for same in grouped(rows, lambda row: (row.name, row.program)).values()
    ]


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The expected total of all rows: GPU time of cards by state [us], and priced time by price and state [us]."""

    gpu_us: Mapping[str, int]
    prices: Prices
    priced: PricedUs

    @classmethod
    def of(cls, every: Iterable[Mapping[str, StateTime]], prices: Prices, costs: Iterable[CostsRow]) -> Self:
        """Return the total of several cards, each with its time by state; ``costs`` are the rows of their prices."""
        times = list(every)
        gpu_us = {state: sum(round(time[state].gpu_ms * 1000) for time in times) for state in STATES}
        return cls(gpu_us=gpu_us, prices=prices, priced=by_price_and_state(costs))


def owners_of(rows: Sequence[OwnerSpanRow], whole: Whole) -> tuple[OwnerUsage, ...]:
    """Return owners and programs, largest GPU time first; with kind ``unlisted`` they add up to the headline."""
    listed = (row for row in rows if sum(row.gpu_us) > 0)
    found = [filled(OwnerUsage, row, owner=row.name, **_listed(row, whole.prices)) for row in listed]
    if rest := _unlisted(rows, whole):
        found.append(OwnerUsage(owner=None, program=None, **rest))
    return tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.owner or "", one.program or "")))


def usage_of(
    by: str, rows: Sequence[OwnerSpanRow], whole: Whole, groups: Mapping[str | None, Whole] | None = None
) -> UsageBy:
    """Return the rows by one key, largest GPU time first, with rows of kind ``unlisted`` where such time exists.

    ``groups``: the expected total of each name, for keys of cards (host, model).
    """
    found = [filled(UsageRow, row, share=None, **_listed(row, whole.prices)) for row in rows if sum(row.gpu_us)]
    for name, of_name in ({None: whole} if groups is None else groups).items():
        listed = rows if groups is None else [row for row in rows if row.name == name]
        if rest := _unlisted(listed, of_name):
            found.append(UsageRow(name=name, share=None, **rest))
    total = sum(whole.gpu_us[state] for state in _HELD) / 1000
    found = [replace(one, share=one.gpu_ms / total if total else None) for one in found]
    return UsageBy(by=by, rows=tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.kind, one.name or ""))))


def _listed(row: OwnerSpanRow, prices: Prices) -> dict[str, Any]:
    """Return the fields of a listed row of :class:`OwnerUsage` and :class:`UsageRow`."""
    times = _times(row.gpu_us, of_states(row.priced), prices)
    return {"kind": "listed", "sessions": row.sessions or None, **times}


def _unlisted(rows: Sequence[OwnerSpanRow], whole: Whole) -> dict[str, Any] | None:
    """Return the fields of the unlisted row; ``None`` where listed processes account for all the time."""
    listed = [sum(us) for us in zip((0, 0, 0), *(row.gpu_us for row in rows), strict=True)]
    rests = [whole.gpu_us[state] - us for state, us in zip(_HELD, listed, strict=True)]
    rests = [rest if rest >= LEAST_US else 0 for rest in rests]
    if not sum(rests):
        return None
    # The priced time of cards that were not truly-idle, less that of listed processes.
    priced = Counter({key: us for key, us in whole.priced.items() if key[1] != TRULY_IDLE})
    for row in rows:
        priced.subtract(of_states(row.priced))
    return {"kind": "unlisted", **_times(rests, +priced, whole.prices), "process_ms": sum(rests) / 1000}


def _times(us: Sequence[int], priced: PricedUs, prices: Prices) -> dict[str, Any]:
    """Return fields from GPU time [us] on active, idle-held and unknown cards: total, by state, and cost."""
    by_state = dict(zip(_HELD, us, strict=True))
    return {
        "gpu_ms": sum(us) / 1000,
        "states": {state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES},
        "costs": prices.costs(by_state, priced),
    }


MOST_OWNERS: Final = 10
MOST_ROWS: Final = 20
NONE_OF_IT: Final = "(none)"
UNLISTED: Final = "(unlisted)"
_HAVE_NONE: Final = frozenset({BY_CONTAINER, BY_POD, BY_JOB, BY_SERVED_MODEL})
_Line = tuple[tuple[str, str], Sequence[OwnerUsage], tuple[str, str]]
_NAME_WIDTH: Final = 32
_SHORTEST_NAME: Final = 9


def _owners(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the largest owners, and the rest as one line; they add up to the time that was not truly-idle."""
    if not report[Usage].owners:
        observed = observed_ms(report.headline.states)
        yield f"nobody: {'every card was truly-idle for all that was observed' if observed else 'nothing was observed'}"
        return
    yield "GPU-hours of cards that were active, idle-held or unknown, split among those on them"
    most, amounts = MOST_OWNERS * style.times, Amounts.of_report(report)
    top, rest = report[Usage].owners[:most], report[Usage].owners[most:]
    # Each row: its names, its owners, its longest idle streak and sessions.
    lines = [(_owner(one, style), [one], (span(one.longest_idle_ms), count(one.sessions))) for one in top]
    rows = Rows([*lines, ((plural(len(rest), "other"), ""), rest, ("", ""))] if rest else lines)

    def states(line: _Line) -> list[str]:
        return hours.parts([sum(one.states[state].gpu_ms for one in line[1]) for state in _HELD])

    rows.add(("owner", "program"), lambda line: line[0], left=True, shortest=12, is_head=True)
    rows.add("GPU-hours", lambda line: hours.of(sum(one.gpu_ms for one in line[1])))
    rows.add(_HELD[:-1], lambda line: states(line)[:-1])
    rows.add(UNKNOWN, lambda line: states(line)[-1], leaves=1)
    titles = amounts.titles(WASTED, style.name)
    rows.add(titles, lambda line: amounts.cells(added(wasted(one.costs) for one in line[1])))
    rows.add("process-h", lambda line: hours.of(sum(one.process_ms for one in line[1])), leaves=2)
    rows.add(("longest idle", "sessions"), lambda line: line[2], leaves=3)
    notes = {"process-h": _NOTES["process-h"], **dict.fromkeys(titles, WASTED_NOTE)}
    yield rows.table([one.states for one in top], notes)


def usage_by(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table for each key that processes are added up by; the last one has the notes of all."""
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

    def states(one: UsageRow) -> list[str]:
        return hours.parts([one.states[state].gpu_ms for state in _HELD])

    rows.add(by.by, lambda one: _row_name(one[0], by.by, style), left=True, shortest=_SHORTEST_NAME)
    rows.add("GPU-hours", lambda one: hours.of(one[0].gpu_ms))
    rows.add("share %", lambda one: one[1], leaves=5)
    rows.add(_HELD[:-1], lambda one: states(one[0])[:-1])
    rows.add(UNKNOWN, lambda one: states(one[0])[-1], leaves=7)
    wasted_titles = amounts.titles(WASTED, style.name)
    rows.add(wasted_titles, lambda one: amounts.cells(wasted(one[0].costs)))
    rows.add("process-h", lambda one: hours.of(one[0].process_ms), leaves=4)
    rows.add("longest idle", lambda one: span(one[0].longest_idle_ms), leaves=2)
    rows.add("sessions", lambda one: count(one[0].sessions), leaves=3)
    rows.add("first seen", lambda one: at(one[0].first_ms, report.window), leaves=8)
    rows.add("last seen", lambda one: at(one[0].last_ms, report.window), leaves=6)
    return rows.table(notes={**_NOTES, **dict.fromkeys(wasted_titles, WASTED_NOTE)})


_NOTES: Final = {
    "share %": "of all these GPU-hours",
    "process-h": "the hours of each process on its cards, also on shared ones",
    "longest idle": "the longest idle streak of one process",
    "sessions": "processes, each counted once however many cards it was on",
}


def _row_name(one: UsageRow, by: str, style: Style) -> str:
    if one.kind != "listed":
        return UNLISTED if one.name is None else f"{style.name(one.name, _NAME_WIDTH)} {UNLISTED}"
    if one.name is None:
        return NONE_OF_IT if by in _HAVE_NONE else NOT_KNOWN
    return style.name(one.name, _NAME_WIDTH) or '""'


def _owner(one: OwnerUsage, style: Style) -> tuple[str, str]:
    """Return the owner and the program."""
    return (known(one.owner, style), known(one.program, style)) if one.kind == "listed" else (UNLISTED, "")


def _collect(context: ReportContext) -> Finish:
    prices = context.prices
    processes = context.rows(USAGE_VIEW, by=OWNER_AND_PROGRAM, batched=True)
    by = {key: context.rows(USAGE_VIEW, by=key, batched=True) for key in context.request.usage_by}
    costs = context.costs()

    def finish(headline: Headline, cards: Sequence[Card]) -> Usage:
        whole = Whole.of([headline.states], prices, costs())
        return Usage(
            owners=owners_of(merged(processes()), whole),
            usage_by=tuple(
                usage_of(key, merged(answer()), whole, _groups(key, cards, prices, costs()))
                for key, answer in by.items()
            ),
        )

    return finish


def _groups(
    by: str, cards: Iterable[Card], prices: Prices, costs: Iterable[CostsRow]
) -> Mapping[str | None, Whole] | None:
    """Return the expected total of each host or model; ``None`` for any other key."""
    if by not in {BY_HOST, BY_MODEL}:
        return None
    named = grouped(cards, lambda card: card.host if by == BY_HOST else card.model or card.name)
    rows = grouped(costs, of_card)
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
            yield from with_currencies({"by": by.by, **cells(row)}, row.costs, ("by", "kind", "name"))


_OWNER = ("by", "kind", "owner", "program")
_WHOSE = ("by", "kind", "name", "owner", "program")
_STATE_COLUMNS = ("active_gpu_hours", "idle_held_gpu_hours", "unknown_gpu_hours")
_PROCESSES = ("process_hours", "longest_idle_hours", "sessions", "first_seen", "last_seen")
_COSTS = ("currency", "active_cost", "idle_held_cost", "unknown_cost", "unpriced_gpu_hours")
USAGE_SECTION = Section(
    name="usage",
    title="Top owners",
    model=Usage,
    collect=_collect,
    text=lambda *report: chain(_owners(*report), usage_by(*report)),
    spread=True,
    csv=Csv((*_WHOSE, "gpu_hours", "share", *_STATE_COLUMNS, *_PROCESSES, *_COSTS), _rows),
)
