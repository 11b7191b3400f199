"""Collect one typed report from the views of a store. Views classify and count; sums over all cards are made here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from gua.core.fields import IMPORT_BASIS
from gua.core.ports import ViewReader
from gua.core.words import Source
from gua.report import fleet
from gua.report.allocations import sources_of
from gua.report.context import Finish, ReportContext
from gua.report.costs import Costs
from gua.report.filters import choose_hosts, filters, parse_conditions
from gua.report.hours import (
    HOURS,
    MOST_UNROLLED_TICKS,
    card_hours,
    hours_of,
    most_of_a_part,
    parts_of,
    read_of,
    ticks_an_hour,
)
from gua.report.kit.fields import filled, grouped, of_card
from gua.report.model import Card, Coverage, Headline, IdleSeconds, MostIdle, Overlap, Report, WithoutProcess
from gua.report.prices import PRICES, CostsRow, Prices, by_price_and_state
from gua.report.questions import ask
from gua.report.rows import EXTENT, OVERVIEW, RULES, OverviewRow, coverage_of, reasons_of, states_of, total_of
from gua.report.section_list import default_sections, section_names, sections_of
from gua.report.sections.groups import check_by, needs_labels
from gua.report.states import ACTIVE, STATES, States, share
from gua.report.window import ReportRequest, choose_extents, choose_window, no_data

_RULES: Final = ("active_utilization", "held_memory_bytes", "held_memory_ratio")
_REASONS: Final = ("lost", "utilization", "pid_namespace", "processes", "memory")


def collect(reader: ViewReader, request: ReportRequest, *, count: Callable[[], None] | None = None) -> Report:
    """Return the report of the requested window and hosts.

    ``count`` rolls up missing hours of a store without a rollup job; it is called where many card ticks lack one.

    Raises UsageError for an invalid host, moment or time zone, UnavailableError where there is no data.
    """
    hosts = list(request.hosts)
    known = sorted(EXTENT.rows(reader, {"hosts": []}), key=lambda e: (e.host, e.source))
    conditions = parse_conditions(request.clusters, request.where)
    is_imported = any(extent.source == Source.IMPORT for extent in known)
    labels = fleet.labels(reader) if conditions or is_imported or needs_labels(request.groups_by) else {}
    extents = choose_extents(known, hosts)
    if conditions:
        chosen = choose_hosts(conditions, {extent.host for extent in extents}, labels)
        extents = choose_extents(extents, chosen)
        # An empty list selects all hosts: the server takes long to parse a list of thousands.
        hosts = [] if {extent.host for extent in known} == set(chosen) else chosen
    check_by(request.groups_by, {extent.host for extent in extents}, labels)
    window = choose_window(extents, request)
    bounds = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": hosts}
    hour_rows = ask(reader, HOURS, bounds)
    prices = Prices.within(ask(reader, PRICES, {})(), since_ms=window.since_ms, until_ms=window.until_ms)
    most_an_hour = ticks_an_hour(extents)
    hours_from = partial(hours_of, reader, bounds, from_ticks=request.from_ticks, most_an_hour=most_an_hour)
    hours = hours_from(hour_rows())
    if (
        count is not None
        and not request.from_ticks
        and (sum(hour.card_ticks for hour in hours if not hour.is_counted) > MOST_UNROLLED_TICKS)
    ):
        count()
        hours = hours_from(HOURS.rows(reader, bounds))
    read = read_of(bounds, hours, price_starts_ms=[row.valid_from_ms for row in prices.rows])
    wanted = frozenset(default_sections()) if request.sections is None else request.sections
    size = card_hours(hours, extents)
    left_out = frozenset(
        section.name
        for section in sections_of(wanted & request.if_cheap)
        if section.most_card_hours and size > section.most_card_hours
    )
    context = ReportContext(
        reader=reader,
        request=request,
        window=window,
        extents=extents,
        labels=labels,
        hours=hours,
        bounds=bounds,
        read=read,
        prices=prices,
        parts=parts_of(extents, len(hours), most_of_a_part(reader)),
    )
    # Start the slowest queries first; those that no other query waits for start last.
    overview_rows = context.rows(OVERVIEW, batched=True)
    costs, allocation_sources = context.costs(), context.sources()
    collecting = [section.collect for section in sections_of(wanted - left_out) if section.collect is not None]
    finishing = [finish for finish in [each(context) for each in collecting] if finish is not None]
    # A host is silent as of the window's end, or as of now if that is earlier.
    fleet_rows = ask(reader, fleet.FLEET, {**bounds, "until_ms": min(window.until_ms, request.now_ms)})
    claim_rows = ask(reader, fleet.CLAIMS, bounds)
    rule_rows = ask(reader, RULES, {})
    # Results of large fleets take much memory: each is released after its last use.
    totals = _from_overview(overview_rows(), prices, costs())
    del overview_rows
    headline, cards = totals["headline"], totals["cards"]
    if not headline.card_ticks:
        raise no_data(window, extents)
    reported = {card.host for card in cards}
    of_hosts = [labels.get(host, {}) for host in reported]
    silent, skewed = fleet.troubles(fleet_rows())
    context.results.clear()
    return Report(
        window=window,
        hosts=tuple(sorted(reported)),
        extents=tuple(extent for extent in extents if extent.host in reported),
        rules=tuple(sorted(rule_rows(), key=lambda s: _place(s.key, _RULES))),
        **totals,
        imported=tuple(sorted({one[IMPORT_BASIS] for one in of_hosts if IMPORT_BASIS in one})),
        filters=filters(request.hosts, conditions, known={extent.host for extent in known}),
        silent=silent,
        skewed=skewed,
        claimed=fleet.claims(claim_rows()),
        allocation_sources=sources_of(allocation_sources()),
        sections=tuple(name for name in section_names() if name in wanted),
        streaks_skipped=size if left_out else None,
        requested_at_ms=request.now_ms,
        groups_by=request.groups_by,
        models={type(model): model for model in _finished(finishing, headline, cards)},
    )


def _from_overview(rows: Sequence[OverviewRow], prices: Prices, costs: Sequence[CostsRow]) -> dict[str, Any]:
    """Return the fields of a report that come from the overview: totals, each card, coverage and overlaps."""
    by_card = grouped(costs, of_card)

    def costs_of(states: States, rows: Iterable[CostsRow]) -> Costs | None:
        return prices.costs({state: time.gpu_ms * 1000 for state, time in states.items()}, by_price_and_state(rows))

    cards = (
        filled(Card, row, states=row.state_times, costs=costs_of(row.state_times, by_card.get(of_card(row), ())))
        for row in rows
    )
    coverage, states = coverage_of(rows), states_of(rows)
    shares = {state: share(states, state) for state in STATES}
    active_ms, known_ms = states[ACTIVE].gpu_ms, total_of(rows, "active_listed_gpu_ms")
    without_process_ms = total_of(rows, "without_process_gpu_ms")
    return {
        "headline": Headline(
            states=states,
            shares=shares,
            equivalent_gpus={state: _equivalent_gpus(part, coverage) for state, part in shares.items()},
            costs=costs_of(states, costs),
            idle_seconds=_idle_seconds(rows),
            active_without_process=WithoutProcess(
                gpu_ms=without_process_ms if known_ms else None,
                known_gpu_ms=known_ms,
                share=without_process_ms / active_ms if known_ms else None,
            ),
        ),
        "cards": tuple(sorted(cards, key=lambda card: (*card.place()[:3], bool(card.parent), card.gpu))),
        "coverage": coverage,
        "unknown": tuple(sorted(reasons_of(rows), key=lambda reason: _place(reason.reason, _REASONS))),
        "overlaps": _overlaps(rows),
    }


def _equivalent_gpus(share_of_state: float | None, coverage: Coverage) -> float | None:
    """Return a state's share times the expected GPUs: expected GPU time / time from the first expected moment."""
    if share_of_state is None or coverage.effective_since_ms is None or coverage.effective_until_ms is None:
        return None
    return share_of_state * coverage.expected_gpu_ms / (coverage.effective_until_ms - coverage.effective_since_ms)


def _finished(finishing: list[Finish], headline: Headline, cards: Sequence[Card]) -> Iterator[object]:
    """Yield each section's model and release its query results; empties ``finishing``."""
    finishing.reverse()
    while finishing:
        yield finishing.pop()(headline, cards)


def _place(key: str, order: tuple[str, ...]) -> tuple[int, str]:
    return (order.index(key) if key in order else len(order), key)


def _idle_seconds(rows: Sequence[OverviewRow]) -> IdleSeconds | None:
    """Return the idle seconds of active time, ``None`` where nothing was sampled; ties go to the first card."""
    sampled_ms, idle_ms = total_of(rows, "active_sampled_gpu_ms"), total_of(rows, "active_idle_gpu_ms")
    if not sampled_ms:
        return None
    cards = (row for row in rows if row.active_idle_gpu_ms)
    worst = min(cards, key=lambda row: (-row.active_idle_gpu_ms, row.host, row.gpu_index or 0, row.gpu), default=None)
    return IdleSeconds(
        sampled_gpu_ms=sampled_ms,
        idle_gpu_ms=idle_ms,
        idle_share=idle_ms / sampled_ms,
        most_idle=None if worst is None else filled(MostIdle, worst),
    )


def _overlaps(cards: Iterable[OverviewRow]) -> tuple[Overlap, ...]:
    """Return hosts with a card whose observed time exceeds the elapsed time by 1 s or more.

    Landing tables with whole-second timestamps truncate tick times, so ticks may overlap by less than 1 s.
    """
    hosts: dict[str, tuple[int, int]] = {}
    for row in cards:
        if row.observed_ms >= row.elapsed_ms + 1000:
            observed_ms, elapsed_ms = hosts.get(row.host, (0, 0))
            hosts[row.host] = (max(observed_ms, row.observed_ms), max(elapsed_ms, row.elapsed_ms))
    return tuple(
        Overlap(host=host, observed_ms=observed_ms, elapsed_ms=elapsed_ms)
        for host, (observed_ms, elapsed_ms) in sorted(hosts.items())
    )
