"""Allocation: GPU-hours by what became of the promise, by owner and source, and who has been promised cards in vain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gua.core.words import Use
from gua.report.kit.amounts import Amounts
from gua.report.kit.basis import at
from gua.report.kit.figures import NONE, HourFormat, at_least, percents, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Table, TableColumn
from gua.report.kit.words import COMMANDS, GUA, NAME_WIDTH, index, known
from gua.report.model import Report, ReportedSource
from gua.report.sections.allocation.model import Allocated, PromisedHours, PromisedWork
from gua.report.sections.now.model import Now, PromisedCard
from gua.report.uses import PROMISED, USES

NONE_KNOWN: Final = "(not told)"
MOST_OWNERS: Final = 10
MOST_EMPTY: Final = 10
MOST_SOURCES: Final = 20
MEANINGS: Final[Mapping[Use, str]] = {
    Use.USED: "allocated, its owner active",
    Use.HELD: "allocated, its owner idle",
    Use.USED_BY_OTHERS: "allocated, only others there",
    Use.EMPTY: "allocated, nobody there",
    Use.UNALLOCATED_USE: "not allocated, not free",
    Use.FREE: "not allocated, nothing there",
    Use.UNKNOWN: "whose, or who there, unknown",
}
_SHORT: Final[Mapping[Use, str]] = {
    Use.USED: "used",
    Use.HELD: "held",
    Use.USED_BY_OTHERS: "by others",
    Use.EMPTY: "empty",
    Use.UNKNOWN: "unknown",
}
_USES: Final = (
    TableColumn(title="use", left=True),
    TableColumn(title="GPU-hours"),
    TableColumn(title="share %"),
)
_MEANS: Final = TableColumn(title="that is", left=True, leaves=1)
_HOURS: Final = (
    TableColumn(title="allocated"),
    *(TableColumn(title=_SHORT[use], leaves=2 if use is Use.UNKNOWN else 0) for use in PROMISED),
)
_COUNTS: Final = (TableColumn(title="runs", leaves=3), TableColumn(title="by hand", leaves=4))
_NOW: Final = (
    TableColumn(title="gpu"),
    TableColumn(title="owner", left=True, shortest=8),
    TableColumn(title="allocation", left=True, shortest=16),
    TableColumn(title="since", left=True),
    TableColumn(title="nobody there for"),
    TableColumn(title="until", left=True, leaves=1),
    TableColumn(title="name", left=True, shortest=6, leaves=2),
)
_HEALTH: Final = (
    TableColumn(title="host", left=True, shortest=8),
    TableColumn(title="source", left=True, shortest=6),
    TableColumn(title="at the end", left=True),
    TableColumn(title="failed for"),
    TableColumn(title="why", left=True, shortest=10),
)
_HOST: Final = TableColumn(title="host", left=True, shortest=8)


def allocation(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the uses, what each source promised, the owners worst first, what is empty now, and sources that failed."""
    found = report[PromisedHours]
    yield from _uses(found, report, style, hours)
    if len(found.promised) > 1:
        yield Heading("By source")
        yield _allocated(found.promised, report, style, hours, by_source=True)
    yield Heading("Owners, the worst first: by what was held, used by others or empty")
    if found.owners:
        most = MOST_OWNERS * style.times
        yield _allocated(found.owners[:most], report, style, hours, by_source=False)
        yield from _more(len(found.owners) - most, "owner")
        yield "by others: allocated to this owner, and only others were there."
        if Amounts.of_report(report).currencies:
            yield "Amounts: what held, by others and empty cost together, estimated."
    else:
        yield "No card was promised to anybody."
    yield from promised_work(report, style, hours)
    yield from _empty_now(report, style)
    yield from _health(found.sources, style)


def use_units(report: Report, hours: HourFormat) -> dict[Use, int]:
    """Return how many of the last decimal the section writes of each use, none where nobody looked."""
    found = report.get(PromisedHours)
    if found is None:
        return {}
    return dict(zip(USES, hours.units([found.uses.get(use, 0) for use in USES]), strict=True))


def use_share(report: Report, use: Use) -> str:
    """Return the share of a use in percent as the section writes it."""
    found = report.get(PromisedHours)
    values = [found.uses.get(one, 0) for one in USES] if found else []
    return dict(zip(USES, percents(values), strict=False)).get(use, NONE)


def _uses(found: PromisedHours, report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    values = [found.uses.get(use, 0) for use in USES]
    money = Amounts.of_report(report)
    yield Table(
        columns=[*_USES, *(TableColumn(title=title, leaves=2) for title in money.titles("", style.name)), _MEANS],
        rows=[
            [use, written, share, *money.cells(found.costs[use] if found.costs else None), MEANINGS[use]]
            for use, written, share in zip(USES, hours.parts(values), percents(values), strict=True)
        ],
    )
    if found.not_looked_at_gpu_ms:
        yield (
            f"Of {hours.of(found.not_looked_at_gpu_ms)} GPU-hours more nobody looked at allocation: they are in none "
            "of these."
        )


def _allocated(rows: Sequence[Allocated], report: Report, style: Style, hours: HourFormat, *, by_source: bool) -> Table:
    money = Amounts.of_report(report)
    several = len({one.source for one in rows}) > 1
    is_counted = any(one.runs is not None for one in rows)
    source = [TableColumn(title="source", left=True, shortest=6)]
    owner = [TableColumn(title="owner", left=True, shortest=10), *(source if several else [])]
    return Table(
        columns=[
            *(source if by_source else owner),
            *_HOURS,
            *(_COUNTS if is_counted else []),
            *(TableColumn(title=title, leaves=1) for title in money.titles("", style.name)),
        ],
        rows=[
            [
                *([] if by_source else [known(one.owner, style)]),
                *([style.name(one.source, NAME_WIDTH)] if by_source or several else []),
                *_hours(one, hours),
                *(_counts(one) if is_counted else []),
                *money.cells(one.unused_cost),
            ]
            for one in rows
        ],
        heads=1 if by_source else 1 + several,
    )


def promised_work(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield what promised time was for, by each key that was asked for."""
    found = report.get(PromisedHours)
    for work in () if found is None else found.work_by:
        if not work.rows:
            continue
        yield Heading(f"Allocated per {work.by}")
        most = MOST_OWNERS * style.times
        yield Table(
            columns=[TableColumn(title=work.by, left=True, shortest=9), *_HOURS],
            rows=[
                [NONE_KNOWN if one.name is None else style.name(one.name, NAME_WIDTH), *_hours(one, hours)]
                for one in work.rows[:most]
            ],
        )
        yield from _more(len(work.rows) - most, "row")


def _hours(one: Allocated | PromisedWork, hours: HourFormat) -> list[str]:
    values = [one.uses.get(use, 0) for use in PROMISED]
    return [hours.of(sum(values)), *hours.parts(values)]


def _counts(one: Allocated) -> list[str]:
    return [NONE if count is None else f"{count:,}" for count in (one.runs, one.manuals)]


def _empty_now(report: Report, style: Style) -> Iterator[Part]:
    now = report.get(Now)
    if now is None:
        return
    empty = now.empty
    yield Heading("Allocated, and nobody there, the longest first")
    if not empty:
        yield "none"
        return
    most = MOST_EMPTY * style.times
    several = len(report.hosts) > 1
    yield Table(
        columns=[*([_HOST] if several else []), *_NOW],
        rows=[
            [*([style.name(one.host, NAME_WIDTH)] if several else []), *_empty(one, report, style)]
            for one in empty[:most]
        ],
        heads=2 + several,
    )
    yield from _more(len(empty) - most, "allocation")


def _empty(one: PromisedCard, report: Report, style: Style) -> list[str]:
    return [
        index(one.index, one.gpu, style),
        known(one.owner, style),
        allocation_name(one, style),
        NONE if one.promised_since_ms is None else at(one.promised_since_ms, report.window),
        at_least(one.in_use_ms, is_lower_bound=one.is_lower_bound),
        NONE if one.promised_until_ms is None else at(one.promised_until_ms, report.window),
        NONE if one.job_name is None else style.name(one.job_name, NAME_WIDTH),
    ]


def allocation_name(one: PromisedCard, style: Style, width: int = NAME_WIDTH) -> str:
    """Return an allocation by its source and id: ``slurm 1234``; a reservation by its command: ``gua run, 4f0e…``."""
    command = COMMANDS.get(one.allocation_kind or "") if one.source == GUA else None
    if command is not None:
        return f"{command}, {style.name(one.allocation_id, width)}"
    return f"{style.name(one.source, width)} {style.name(one.allocation_id, width)}"


def _health(sources: Sequence[ReportedSource], style: Style) -> Iterator[Part]:
    failed = sorted((one for one in sources if not one.ok or one.failed_ms), key=lambda one: (one.ok, -one.failed_ms))
    yield Heading("Sources of allocations")
    names = ", ".join(dict.fromkeys(style.name(one.source, NAME_WIDTH) for one in sources))
    if not failed:
        yield f"{names or 'none'}: read at every tick."
        return
    most = MOST_SOURCES * style.times
    yield Table(
        columns=_HEALTH,
        rows=[
            [
                style.name(one.host, NAME_WIDTH),
                style.name(one.source, NAME_WIDTH),
                "ok" if one.ok else "failed",
                span(one.failed_ms),
                NONE if one.reason is None else style.name(one.reason, 2 * NAME_WIDTH),
            ]
            for one in failed[:most]
        ],
        heads=2,
    )
    yield from _more(len(failed) - most, "source")
    yield "While a source could not be read, no card counts as free: cards of which no other one tells are unknown."


def _more(rest: int, what: str) -> Iterator[str]:
    if rest > 0:
        yield f"and {plural(rest, f'more {what}')}: --csv allocation and --json have all of them."
