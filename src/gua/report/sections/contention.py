"""Section contention: time in which no card was free while some were held without being used."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from gua.core.parameters import PRICED, READ
from gua.core.view import Count, Named, View
from gua.report.allocations import WAITS, SourceRow, WaitsRow
from gua.report.context import Finish, ReportContext
from gua.report.costs import OneCost, with_currencies
from gua.report.hours import MOST_CARD_HOURS_AT_ONCE
from gua.report.kit.amounts import Amounts
from gua.report.kit.fields import RATIO, Cells, Hours, cells, columns, filled
from gua.report.kit.figures import HourFormat, percent, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Rows
from gua.report.kit.words import NAME_WIDTH
from gua.report.model import Report
from gua.report.prices import PricedTime, Prices
from gua.report.section import Csv, Section


@dataclass(frozen=True, kw_only=True, slots=True)
class Contention:
    """The availability of cards over time, in ms of the effective window of a host (``None``: all cards).

    ``free_ms``: some card was truly-idle and, with an allocation source, unallocated. ``contended_ms``: all cards were
    observed and known, none was free, and at least one was idle-held, or truly-idle and allocated: avoidable waiting.
    ``busy_ms``: all were active. ``unknown_ms``: no card was known to be free, and some state or allocation was unknown
    or unobserved. ``contended_gpu_ms`` is the idle-held GPU time in ``contended_ms``, ``cost`` its cost;
    ``contended_allocated_gpu_ms`` that of cards truly-idle and allocated. ``share`` is the contended part of all this
    time, 0 to 1. Partitioned GPUs are left out.

    With a source that reports its queue: ``most_waiting`` is the maximum queue length, ``wait_ms`` the wait of all
    requests together, ``waited_ms`` the time with any. The ``waited_…_gpu_ms`` are the GPU time in ``waited_ms`` by
    use; ``None`` without a queue. ``waits_unknown_ms`` is the time in which gua managed cards, without a stored queue;
    ``None`` where it managed none.
    """

    host: str | None
    cards: int
    share: Annotated[float | None, replace(RATIO, column="contended_share")]
    contended_ms: Hours[int]
    free_ms: Hours[int]
    busy_ms: Hours[int]
    unknown_ms: Hours[int]
    contended_gpu_ms: Annotated[Hours[float], Named("contended_us")]
    contended_allocated_gpu_ms: Annotated[Hours[float], Named("contended_allocated_us")] = 0
    cost: OneCost = None
    most_waiting: int | None = None
    wait_ms: Hours[int | None] = None
    waited_ms: Hours[int | None] = None
    waited_empty_gpu_ms: Hours[float | None] = None
    waited_held_gpu_ms: Hours[float | None] = None
    waited_others_gpu_ms: Hours[float | None] = None
    waited_free_gpu_ms: Hours[float | None] = None
    waits_unknown_ms: Hours[int | None] = None


class Contentions(tuple[Contention, ...]):
    """All cards together first, then each host if there are several."""

    __slots__ = ()


class ContentionRow(NamedTuple):
    """The availability of cards on a host, or on all hosts (``is_total``)."""

    is_total: bool
    host: str
    cards: Count
    free_ms: Count
    contended_ms: Count
    busy_ms: Count
    unknown_ms: Count
    contended_us: Count
    contended_allocated_us: Count
    contended_priced: tuple[PricedTime, ...]


CONTENTION: Final = View("contention", ContentionRow, (*READ, *PRICED))


def contention(
    rows: Iterable[ContentionRow], prices: Prices, waits: Sequence[WaitsRow] = (), sources: Sequence[SourceRow] = ()
) -> tuple[Contention, ...]:
    """Return all cards together first, then each host if there are several."""
    queued = {row.host for row in waits}
    unqueued = {
        row.host: row.ok_ms + row.failed_ms for row in sources if row.source == "gua" and row.host not in queued
    }
    found = [
        filled(
            Contention,
            row,
            host=None if row.is_total else row.host,
            share=row.contended_ms / whole_ms if (whole_ms := sum(_times(row))) else None,
            cost=prices.cost(row.contended_us, row.contended_priced),
            **_waited(
                [each for each in waits if row.is_total or each.host == row.host],
                sum(ms for host, ms in unqueued.items() if row.is_total or host == row.host),
            ),
        )
        for row in rows
    ]
    hosts = sorted((one for one in found if one.host is not None), key=lambda one: one.host or "")
    return tuple(hosts) if len(hosts) == 1 else (*(one for one in found if one.host is None), *hosts)


def _waited(of: Sequence[WaitsRow], unqueued_ms: int) -> dict[str, Any]:
    """Return the wait fields of some hosts; ``most_waiting`` is the largest of a single host.

    ``unknown_ms``: time in which gua managed cards of hosts without any stored queue.
    """
    if not of:
        return {"waits_unknown_ms": unqueued_ms} if unqueued_ms else {}
    return {
        "most_waiting": max(row.waiting for row in of),
        "wait_ms": sum(row.wait_ms for row in of),
        "waited_ms": sum(row.waited_ms for row in of),
        "waited_empty_gpu_ms": sum(row.empty_us for row in of) / 1000,
        "waited_held_gpu_ms": sum(row.held_us for row in of) / 1000,
        "waited_others_gpu_ms": sum(row.used_by_others_us for row in of) / 1000,
        "waited_free_gpu_ms": sum(row.free_us for row in of) / 1000,
        "waits_unknown_ms": sum(row.unknown_ms for row in of) + unqueued_ms,
    }


MOST_HOSTS: Final = 20


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row for all cards and one per host, the most contended first."""
    every = [one for one in report[Contentions] if one.host is None]
    hosts = sorted((one for one in report[Contentions] if one.host is not None), key=lambda one: -one.contended_ms)
    has_source = report.allocation_sources
    held = "idle-held or allocated ones" if has_source else "idle-held ones"
    for one in every or hosts[:1]:
        yield (
            f"No card was free while {held} existed for {percent(one.share)} % of the time "
            f"({hours.of(one.contended_ms)} hours): whoever waited then need not have."
        )
        yield from _waits(one, hours)
    most = MOST_HOSTS * style.times
    rows = Rows([*every, *(hosts[:most] if len(hosts) > 1 or not every else [])])
    rows.add(
        "host",
        lambda one: "(all GPUs)" if one.host is None else style.name(one.host, NAME_WIDTH),
        left=True,
        shortest=8,
    )
    rows.add("GPUs", lambda one: f"{one.cards:,}", leaves=1)
    rows.add("contended %", lambda one: percents(_times(one))[0])
    rows.add("hours", lambda one: hours.of(one.contended_ms), leaves=2)
    rows.add(("some free %", "all active %", "not known %"), lambda one: percents(_times(one))[1:])
    rows.add("idle-held GPU-h", lambda one: hours.of(one.contended_gpu_ms), leaves=4)
    if has_source:
        rows.add("allocated GPU-h", lambda one: hours.of(one.contended_allocated_gpu_ms), leaves=3)
    amounts = Amounts.of_report(report)
    rows.add(amounts.titles("", style.name), lambda one: amounts.cells(one.cost), leaves=5)
    yield rows.table(notes=_NOTES)
    if len(hosts) > most:
        yield f"and {len(hosts) - most:,} hosts with less of it: --csv contention has every one."


_NOTES: Final = {
    "GPUs": "those that are not partitioned, the most at a time; a MIG instance is no GPU for who wants one",
    "idle-held GPU-h": "what the idle-held cards were worth in the contended hours",
    "allocated GPU-h": "the same of allocated cards that nothing held",
}


def _times(one: Contention | ContentionRow) -> list[int]:
    return [one.contended_ms, one.free_ms, one.busy_ms, one.unknown_ms]


def _waits(one: Contention, hours: HourFormat) -> Iterator[str]:
    """Yield sentences on the queue: how long requests waited, and the use of cards meanwhile."""
    if one.waits_unknown_ms:
        yield f"The queue of {hours.of(one.waits_unknown_ms)} hours is unknown: none is stored."
    if one.wait_ms is None or one.waited_ms is None:
        return
    if not one.wait_ms:
        when = " in the others" if one.waits_unknown_ms else ""
        yield f"Nobody waited in the queue of gua run and gua reserve{when}."
        return
    most = one.most_waiting or 1
    yield (
        f"In the queue of gua run and gua reserve requests waited {hours.of(one.wait_ms)} hours together, up to {most} "
        f"at a tick. In the {hours.of(one.waited_ms)} hours in which anybody waited, "
        f"{hours.of(one.waited_empty_gpu_ms or 0)} GPU-hours were reserved and empty, "
        f"{hours.of(one.waited_held_gpu_ms or 0)} held, {hours.of(one.waited_others_gpu_ms or 0)} used by others, and "
        f"{hours.of(one.waited_free_gpu_ms or 0)} free, and could not be given to the first of them."
    )


def _collect(context: ReportContext) -> Finish:
    sources, answer = context.sources(), context.rows(CONTENTION)
    waits = context.rows(WAITS, only_if=lambda: any(row.source == "gua" for row in sources()))
    return lambda _headline, _cards: Contentions(contention(answer(), context.prices, waits(), sources()))


def _rows(found: Contentions, _report: Report) -> Iterator[Cells]:
    for row in found:
        cells_of_row = {"of": "all cards" if row.host is None else "host", **cells(row)}
        yield from with_currencies(cells_of_row, row.cost, ("of", "host"))


CONTENTION_SECTION = Section(
    name="contention",
    title="Contention",
    model=Contentions,
    collect=_collect,
    text=_text,
    csv=Csv(("of", *columns(Contention)), _rows),
    most_card_hours=MOST_CARD_HOURS_AT_ONCE,
)
