"""Section allocation: allocated time by owner and source, and its use."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gua.core.words import Use
from gua.report.allocations import (
    ALLOCATED_WORK,
    COUNTED,
    RESERVATIONS,
    TICKS_DELETED,
    AllocatedWorkRow,
    AllocationUseRow,
    ReservationsRow,
    sources_of,
)
from gua.report.context import Finish, ReportContext
from gua.report.costs import COST_COLUMNS, Cost, added, with_currencies
from gua.report.kit.amounts import Amounts
from gua.report.kit.basis import at
from gua.report.kit.fields import Cells, Hours, cells, columns, grouped, json_of
from gua.report.kit.figures import NONE, HourFormat, at_least, count, percents, span
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, Table, more, placed_rows
from gua.report.kit.words import COMMANDS, GUA, NAME_WIDTH, known, named
from gua.report.model import Card, Headline, Report, ReportedSource
from gua.report.prices import Prices
from gua.report.section import Csv, Section
from gua.report.sections.now_rows import AllocatedCard, Now
from gua.report.states import MS_PER_HOUR, observed_ms
from gua.report.uses import ALLOCATED, UNUSED, USES, ByAllocatedUse, ByUse, CostByUse, CostsByUse, Uses, share, total
from gua.report.window import BY_KIND, BY_SERVED_MODEL


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocated:
    """GPU time allocated by a source [ms]: in total, or (``owner``) of one owner.

    ``shared_gpu_ms``: the part with processes of both the owner and others. ``costs`` is ``None`` without prices. For
    source gua, ``runs`` and ``manuals`` count an owner's reservations with a tick in the window, by command and by
    hand; ``None`` where their ticks are no longer stored.
    """

    source: str
    owner: str | None
    allocated_gpu_ms: Hours[float]
    shared_gpu_ms: Hours[float]
    uses: ByAllocatedUse
    costs: CostByUse = None
    runs: int | None = None
    manuals: int | None = None

    @property
    def unused_cost(self) -> Cost | None:
        """Return the cost of the unused time, ``None`` without prices."""
        return None if self.costs is None else added(self.costs[use] for use in UNUSED)


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocatedWork:
    """GPU time allocated for one kind of work or one served model [ms]; ``name`` is ``None`` where unknown."""

    name: str | None
    allocated_gpu_ms: Hours[float]
    uses: ByAllocatedUse


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocatedWorkBy:
    """Allocated GPU time by kind of work (``kind``) or by served model (``served-model``), largest first."""

    by: str
    rows: tuple[AllocatedWork, ...]


@dataclass(frozen=True, kw_only=True)
class AllocatedHours:
    """GPU time [ms] by use, of the time in which an allocation source was configured.

    The seven ``uses`` add up to ``with_source_gpu_ms``; with ``without_source_gpu_ms`` that is the observed time.
    ``owners`` are ordered by unused time (held, used by others or empty), most first. ``allocated`` is the same by
    source; ``work_by`` by kind of work or served model, where requested.
    """

    with_source_gpu_ms: Hours[float]
    without_source_gpu_ms: Hours[float]
    uses: ByUse
    costs: CostByUse = None
    owners: tuple[Allocated, ...] = ()
    allocated: tuple[Allocated, ...] = ()
    sources: tuple[ReportedSource, ...] = ()
    work_by: tuple[AllocatedWorkBy, ...] = ()

    @property
    def has_source(self) -> bool:
        """Return whether any allocation source was configured."""
        return bool(self.sources) or self.with_source_gpu_ms > 0


_NOISE_MS: Final = 1  # tolerance [ms] for sums of ticks cut at the window's bounds


def allocation(  # noqa: PLR0913 - one argument per query of the section
    rows: Iterable[AllocationUseRow],
    sources: Sequence[ReportedSource],
    headline: Headline,
    prices: Prices,
    reservations: Sequence[ReservationsRow] = (),
    *,
    work: Mapping[str, Sequence[AllocatedWorkRow]] = MappingProxyType({}),
) -> AllocatedHours:
    """Return the allocated time by use: in total, per owner, per source and per requested key."""
    counts = Counter({(row.source, row.owner, row.kind): row.reservations for row in reservations})
    totals = [row for row in rows if row.is_total]
    allocated = [row for row in totals if row.source]
    owners = grouped(allocated, lambda row: (row.source, row.owner))
    by_source = grouped(allocated, lambda row: row.source)
    uses = _uses_of(totals)
    rest_ms = observed_ms(headline.states) - total(uses)
    return AllocatedHours(
        with_source_gpu_ms=total(uses),
        without_source_gpu_ms=rest_ms if rest_ms >= _NOISE_MS else 0,
        uses=uses,
        costs=_costs(totals, prices),
        owners=worst_first((_allocated(*whose, of, prices, counts) for whose, of in owners.items()), prices),
        allocated=worst_first((_allocated(source, None, of, prices) for source, of in by_source.items()), prices),
        sources=tuple(sources),
        work_by=tuple(AllocatedWorkBy(by=by, rows=_work(found)) for by, found in work.items()),
    )


def _work(rows: Iterable[AllocatedWorkRow]) -> tuple[AllocatedWork, ...]:
    uses: dict[str | None, dict[Use, float]] = {}
    for row in rows:
        uses.setdefault(row.name, {})[Use(row.use)] = row.gpu_us / 1000
    found = (AllocatedWork(name=name, allocated_gpu_ms=total(of), uses=of) for name, of in uses.items())
    return tuple(sorted(found, key=lambda one: (-one.allocated_gpu_ms, one.name or "")))


def worst_first(every: Iterable[Allocated], prices: Prices) -> tuple[Allocated, ...]:
    """Return them by unused time, most first: by its cost if all is priced in one currency, else by GPU time."""
    found = list(every)
    costs = [one.unused_cost for one in found]
    is_priced = len({row.currency for row in prices.rows}) == 1 and not any(
        cost is None or cost.unpriced_gpu_ms for cost in costs
    )

    def order(one: Allocated) -> tuple[float, float, str, str]:
        cost = one.unused_cost
        amount = sum(cost.amounts.values()) if is_priced and cost is not None else 0
        return (-amount, -total(one.uses, UNUSED), one.source, one.owner or "")

    return tuple(sorted(found, key=order))


def _uses_of(rows: Iterable[AllocationUseRow]) -> Uses:
    us: Counter[str] = Counter()
    for row in rows:
        us[row.use] += row.gpu_us
    return {use: us[use] / 1000 for use in USES}


def _costs(rows: Iterable[AllocationUseRow], prices: Prices) -> CostsByUse | None:
    us: dict[str, Counter[int]] = {use: Counter() for use in USES}
    for row in rows:
        us[row.use][row.price] += row.gpu_us
    costs = {use: prices.cost(us[use].total(), [one for one in us[use].items() if one[0]]) for use in USES}
    return {use: cost for use, cost in costs.items() if cost is not None} or None


def _allocated(
    source: str,
    owner: str | None,
    rows: Sequence[AllocationUseRow],
    prices: Prices,
    counts: Counter[tuple[str, str | None, str]] | None = None,
) -> Allocated:
    uses = _uses_of(rows)
    is_counted = counts is not None and source in COUNTED and not counts[source, owner, TICKS_DELETED]
    return Allocated(
        source=source,
        owner=owner,
        allocated_gpu_ms=total(uses),
        shared_gpu_ms=sum(row.gpu_us for row in rows if row.is_shared) / 1000,
        uses=uses,
        costs=_costs(rows, prices),
        runs=counts[source, owner, "run"] if counts and is_counted else None,
        manuals=counts[source, owner, "manual"] if counts and is_counted else None,
    )


MOST_OWNERS: Final = 10
MOST_EMPTY: Final = 10
MOST_SOURCES: Final = 20
MEANINGS: Final[Mapping[Use, str]] = {
    Use.USED: "allocated, its owner active",
    Use.HELD: "allocated, its owner idle",
    Use.USED_BY_OTHERS: "allocated, only others there",
    Use.EMPTY: "allocated, no process",
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


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the uses, the sources, the owners by unused time, empty allocations, and sources that failed."""
    found = report[AllocatedHours]
    yield from _uses(found, report, style, hours)
    if len(found.allocated) > 1:
        yield Heading("By source")
        yield _allocated_table(found.allocated, report, style, hours, by_source=True)
    yield Heading("Owners, the worst first: by what was held, used by others or empty")
    if found.owners:
        most = MOST_OWNERS * style.times
        yield _allocated_table(found.owners[:most], report, style, hours, by_source=False)
        yield from more(len(found.owners) - most, "owner", _EVERY)
        yield "by others: allocated to this owner, and only others were there."
        if Amounts.of_report(report).currencies:
            yield "Amounts: what held, by others and empty cost together, estimated."
    else:
        yield "No card was allocated."
    yield from allocated_work(report, style, hours)
    yield from _empty_now(report, style)
    yield from _health(found.sources, style)


_EVERY: Final = "--csv allocation and --json have all of them"


def use_units(report: Report, hours: HourFormat) -> dict[Use, int]:
    """Return each use's hours in units of the last decimal, as the section writes them; empty without its model."""
    found = report.get(AllocatedHours)
    if found is None:
        return {}
    return dict(zip(USES, hours.units([found.uses.get(use, 0) for use in USES]), strict=True))


def use_share(report: Report, use: Use) -> str:
    """Return the share of a use in percent as the section writes it, ``-`` if unknown."""
    found = report.get(AllocatedHours)
    values = [found.uses.get(one, 0) for one in USES] if found else []
    return dict(zip(USES, percents(values), strict=False)).get(use, NONE)


def _uses(found: AllocatedHours, report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    values = [found.uses.get(use, 0) for use in USES]
    money = Amounts.of_report(report)
    rows = Rows([*zip(USES, hours.parts(values), percents(values), strict=True)])
    rows.add("use", lambda one: one[0], left=True)
    rows.add(("GPU-hours", "share %"), lambda one: one[1:])
    costs = found.costs or {}
    rows.add(money.titles("", style.name), lambda one: money.cells(costs.get(one[0])), leaves=2)
    rows.add("that is", lambda one: MEANINGS[one[0]], left=True, leaves=1)
    yield rows.table()
    if found.without_source_gpu_ms:
        yield (
            f"Of {hours.of(found.without_source_gpu_ms)} GPU-hours more nobody looked at allocation: they are in none "
            "of these."
        )


def _allocated_table(
    every: Sequence[Allocated], report: Report, style: Style, hours: HourFormat, *, by_source: bool
) -> Table:
    rows = Rows(every)
    if not by_source:
        rows.add("owner", lambda one: known(one.owner, style), left=True, shortest=10, is_head=True)
    if by_source or len({one.source for one in every}) > 1:
        rows.add("source", lambda one: style.name(one.source, NAME_WIDTH), left=True, shortest=6, is_head=True)
    _add_hours(rows, hours)
    if any(one.runs is not None for one in every):
        rows.add("runs", lambda one: count(one.runs), leaves=3)
        rows.add("by hand", lambda one: count(one.manuals), leaves=4)
    money = Amounts.of_report(report)
    rows.add(money.titles("", style.name), lambda one: money.cells(one.unused_cost), leaves=1)
    return rows.table()


def _add_hours(rows: Rows[Allocated] | Rows[AllocatedWork], hours: HourFormat) -> None:
    """Add the columns of allocated time and its uses; the unknown column is dropped first on narrow terminals."""

    def parts(one: Allocated | AllocatedWork) -> list[float]:
        return [one.uses.get(use, 0) for use in ALLOCATED]

    rows.add("allocated", lambda one: hours.of(sum(parts(one))))
    *titles, unknown = (_SHORT[use] for use in ALLOCATED)
    rows.add(titles, lambda one: hours.parts(parts(one))[:-1])
    rows.add(unknown, lambda one: hours.parts(parts(one))[-1], leaves=2)


def allocated_work(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table of allocated time for each requested key: kind of work, served model."""
    found = report.get(AllocatedHours)
    for work in () if found is None else found.work_by:
        if not work.rows:
            continue
        yield Heading(f"Allocated per {work.by}")
        rows = Rows(work.rows, MOST_OWNERS * style.times)
        rows.add(work.by, lambda one: known(one.name, style), left=True, shortest=9)
        _add_hours(rows, hours)
        yield rows.table()
        yield from more(rows.rest, "row", _EVERY)


def _empty_now(report: Report, style: Style) -> Iterator[Part]:
    now = report.get(Now)
    if now is None:
        return
    yield Heading("Allocated without a process, longest first")
    if not now.empty:
        yield "none"
        return
    rows = placed_rows(report, style, now.empty, MOST_EMPTY * style.times)
    rows.add("owner", lambda one: known(one.owner, style), left=True, shortest=8, is_head=True)
    rows.add("allocation", lambda one: allocation_name(one, style), left=True, shortest=16)
    rows.add("since", lambda one: at(one.allocated_since_ms, report.window), left=True)
    rows.add("no process for", lambda one: at_least(one.in_use_ms, is_lower_bound=one.is_lower_bound))
    rows.add("until", lambda one: at(one.allocated_until_ms, report.window), left=True, leaves=1)
    rows.add("name", lambda one: named(one.job_name, style), left=True, shortest=6, leaves=2)
    yield rows.table()
    yield from more(rows.rest, "allocation", _EVERY)


def allocation_name(one: AllocatedCard, style: Style, width: int = NAME_WIDTH) -> str:
    """Return an allocation's name: source and id (``slurm 1234``), or a reservation's command (``gua run, 4f0e…``)."""
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
    rows = Rows(failed, MOST_SOURCES * style.times)
    rows.add("host", lambda one: style.name(one.host, NAME_WIDTH), left=True, shortest=8, is_head=True)
    rows.add("source", lambda one: style.name(one.source, NAME_WIDTH), left=True, shortest=6, is_head=True)
    rows.add("at the end", lambda one: "ok" if one.ok else "failed", left=True)
    rows.add("failed for", lambda one: span(one.failed_ms))
    rows.add("why", lambda one: named(one.reason, style, 2 * NAME_WIDTH), left=True, shortest=10)
    yield rows.table()
    yield from more(rows.rest, "source", _EVERY)
    yield "While a source is unreadable, cards it might cover are unknown, never free."


WORK_BY: Final = frozenset({BY_KIND, BY_SERVED_MODEL})
"""The keys that allocated time can be added up by."""


def _collect(context: ReportContext) -> Finish:
    rows, sources = context.allocations(), context.sources()
    counts = context.rows(RESERVATIONS, only_if=lambda: any(row.source in COUNTED for row in sources()))
    work = {
        by: context.rows(ALLOCATED_WORK, only_if=sources, by=by) for by in context.request.usage_by if by in WORK_BY
    }

    def finish(headline: Headline, _cards: Sequence[Card]) -> AllocatedHours:
        of_work = {by: answer() for by, answer in work.items()}
        return allocation(rows(), sources_of(sources()), headline, context.prices, counts(), work=of_work)

    return finish


def _rows(found: AllocatedHours, _report: Report) -> Iterator[Cells]:
    if not found.has_source:
        return
    for use in USES:
        gpu_ms = found.uses.get(use, 0)
        row: Cells = {"kind": "use", "use": use, "gpu_hours": gpu_ms / MS_PER_HOUR, "share": share(found.uses, use)}
        yield from with_currencies(row, None if found.costs is None else found.costs[use], ("kind", "use"))
    for kind, allocated in (("source", found.allocated), ("owner", found.owners)):
        for one in allocated:
            yield from with_currencies({"kind": kind, **cells(one)}, one.unused_cost, ("kind", "source", "owner"))
    for work in found.work_by:
        for each in work.rows:
            yield {"kind": work.by, **cells(each)}
    for health in found.sources:
        yield {"kind": "health", **cells(health)}


_OF_HEALTH = tuple(column for column in columns(ReportedSource) if column != "source")
ALLOCATION_SECTION = Section(
    name="allocation",
    title="Allocation: use of allocated cards",
    model=AllocatedHours,
    collect=_collect,
    text=_text,
    json=lambda found: {"has_source": found.has_source, **json_of(found)},
    csv=Csv(("kind", *columns(Allocated), "use", "gpu_hours", "share", *COST_COLUMNS, *_OF_HEALTH, "name"), _rows),
    has=lambda report: (found := report.get(AllocatedHours)) is not None and found.has_source,
)
