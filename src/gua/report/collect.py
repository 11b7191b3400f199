"""Asks a store's report views and makes one typed report of their rows; counts nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gua.core.ports import ViewReader
from gua.report import fleet
from gua.report.allocation_sources import ask_sources, sources_of
from gua.report.asking import Asking, Finish
from gua.report.days import DailyReader, are_many, with_days
from gua.report.filters import Selection, filters
from gua.report.hours import HOURS, Hour, HourRow, hours_of, read_of, ticks_an_hour
from gua.report.model import Card, Coverage, Extent, Headline, IdleSeconds, MostIdle, Overlap, Report, UnknownReason
from gua.report.parts import Parts, parts_of
from gua.report.prices import PRICES, CostsRow, Prices, by_price_and_state, of_cards
from gua.report.questions import ask
from gua.report.rows import EXTENT, OVERVIEW, RULES, OverviewRow, ReasonTotal, StateTotal
from gua.report.section_list import default_sections, section_names, sections_of
from gua.report.sections.groups import check_by, needs_labels
from gua.report.states import STATES, StateTime
from gua.report.streak_limit import (
    MOST_CARD_HOURS_OF_A_PART,
    MOST_CARD_HOURS_OF_NOW_AT_ONCE,
    are_made_of_cards,
    are_made_of_processes,
    are_made_of_runs,
    are_read_as_ticks,
    holders_are_told_apart,
    hours_of_now,
    sessions_are_told_apart,
    skipped,
    too_many_uncounted,
)
from gua.report.window import ReportRequest, choose_extents, choose_window, no_data

_RULES: Final = ("active_utilization", "held_memory_bytes", "held_memory_ratio")
_REASONS: Final = ("lost", "utilization", "pid_namespace", "processes", "memory")


def collect(reader: ViewReader, request: ReportRequest, *, count: Callable[[], None] | None = None) -> Report:
    """Return the report of the window and hosts asked for.

    ``count`` counts hours of a store that nobody else counts for it, as after an upgrade; it is called where streaks
    could not be made of the ticks of those that are not counted.

    Raises UsageError for a host, moment or zone that means nothing, UnavailableError where there is no data.
    """
    hosts = list(request.hosts)
    known = sorted(EXTENT.rows(reader, {"hosts": []}), key=lambda e: (e.host, e.source))
    selection = Selection.of(request.clusters, request.where)
    labels = fleet.labels(reader) if selection or needs_labels(request.groups_by) else {}
    extents = choose_extents(known, hosts)
    if selection:
        chosen = selection.choose({extent.host for extent in extents}, labels)
        extents = choose_extents(extents, chosen)
        # All of them are none in particular: a list of thousands takes the server longer than it is worth.
        hosts = [] if {extent.host for extent in known} == set(chosen) else list(chosen)
    check_by(request.groups_by, {extent.host for extent in extents}, labels)
    window = choose_window(extents, request)
    bounds = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": hosts}
    # Nothing else can be asked before it is known which hours are read from ticks: it is asked for first.
    reads_days = not request.from_ticks and are_many(extents, window)
    hour_rows = None if reads_days else ask(reader, HOURS, bounds)
    price_rows = ask(reader, PRICES, {})
    prices = Prices.within(price_rows(), since_ms=window.since_ms, until_ms=window.until_ms)

    def read_from(rows: Iterable[HourRow] | None) -> tuple[ViewReader, list[Hour], frozenset[int]]:
        if rows is None:
            starts = (row.valid_from_ms for row in prices.rows)
            return with_days(reader, bounds, price_starts=starts, timezone=window.timezone)
        most = ticks_an_hour(extents)
        return reader, hours_of(reader, bounds, rows, from_ticks=request.from_ticks, most_an_hour=most), frozenset()

    daily, hours, days = read_from(None if hour_rows is None else hour_rows())
    if count is not None and not request.from_ticks and too_many_uncounted(hours):
        count()
        daily, hours, days = read_from(None if reads_days else HOURS.rows(reader, bounds))
    reader = daily
    read = read_of(bounds, hours)
    wanted = frozenset(default_sections()) if request.sections is None else request.sections
    card_hours = skipped(hours, extents, _need_streaks(request, wanted))
    as_of_ms = min(window.until_ms, request.now_ms)
    reader, tells_now, tells_holders_apart = _telling_of_now(
        reader, as_of_ms, hours, extents, is_asked=card_hours is None
    )
    tells_processes = (
        card_hours is None or (tells_now and not tells_holders_apart) or sessions_are_told_apart(hours, extents, days)
    )
    left_out = frozenset() if card_hours is None else _left_out(wanted & request.if_cheap, hours, extents)
    asking = Asking(
        reader=reader,
        request=request,
        window=window,
        extents=extents,
        labels=labels,
        hours=hours,
        bounds=bounds,
        read=read,
        prices=prices,
        parts=parts_of(extents, len(hours), MOST_CARD_HOURS_OF_A_PART),
        parts_of_now=_parts_of_now(reader, hours, extents),
        tells_now=tells_now,
        tells_holders_apart=tells_holders_apart,
        splits_idle=tells_now or are_made_of_cards(hours, extents, days),
        tells_processes=tells_processes,
    )
    # The longest first; what nothing else waits for last.
    overview_rows = ask(reader, OVERVIEW, read)
    costs, allocation_sources = asking.costs(), asking.once(ask_sources)
    finishing = _ask(asking, wanted - left_out)
    # Hosts are silent by the window's end, or by now if that is earlier.
    fleet_rows = ask(reader, fleet.FLEET, {**bounds, "until_ms": min(window.until_ms, request.now_ms)})
    claim_rows = ask(reader, fleet.CLAIMS, bounds)
    rule_rows = ask(reader, RULES, {})
    # Of many cards the answers take much memory: each goes once the last that is made of it is there.
    told = _from_overview(overview_rows(), prices, costs())
    del overview_rows
    if not told.headline.card_ticks:
        raise no_data(window, extents)
    reported = {card.host for card in told.cards}
    silent, skewed = fleet.troubles(fleet_rows())
    asking.asked.clear()
    return Report(
        window=window,
        hosts=tuple(sorted(reported)),
        extents=tuple(extent for extent in extents if extent.host in reported),
        rules=tuple(sorted(rule_rows(), key=lambda s: _place(s.key, _RULES))),
        coverage=told.coverage,
        unknown=told.unknown,
        headline=told.headline,
        cards=told.cards,
        overlaps=told.overlaps,
        filters=filters(request.hosts, selection, known={extent.host for extent in known}),
        silent=silent,
        skewed=skewed,
        claimed=fleet.claims(claim_rows()),
        allocation_sources=sources_of(allocation_sources()),
        sections=tuple(name for name in section_names() if name in wanted),
        streaks_skipped=None if tells_now and tells_processes and not left_out else card_hours,
        uncounted_card_ticks=too_many_uncounted(hours),
        asked_ms=request.now_ms,
        groups_by=request.groups_by,
        models={type(model): model for model in _finished(finishing, told)},
    )


def _telling_of_now(
    reader: ViewReader, as_of_ms: int, hours: Sequence[Hour], extents: Sequence[Extent], *, is_asked: bool
) -> tuple[ViewReader, bool, bool]:
    """Return the reader to ask, whether it is told who holds cards, and whether that is a question besides usage."""
    if not isinstance(reader, DailyReader):
        return reader, is_asked, False
    interval_ms = max(extent.interval_ms or 0 for extent in extents)
    of_now = reader.telling_of_now(as_of_ms, interval_ms, sum(extent.cards for extent in extents))
    before_now = of_now.days_before_now
    are_few = are_made_of_processes(hours, extents, before_now)
    if not (is_asked or are_few or (before_now and holders_are_told_apart(hours, extents, before_now))):
        return reader, False, False
    is_apart = bool(before_now) and not are_few
    return replace(of_now, tells_holders_apart=is_apart), True, is_apart


def _parts_of_now(reader: ViewReader, hours: Sequence[Hour], extents: Sequence[Extent]) -> Parts:
    """Return the hosts of each question where who holds cards is one of its own."""
    before_now = reader.days_before_now if isinstance(reader, DailyReader) else frozenset()
    return parts_of(extents, hours_of_now(hours, before_now), MOST_CARD_HOURS_OF_NOW_AT_ONCE)


def _need_streaks(request: ReportRequest, wanted: frozenset[str]) -> list[str]:
    """Return what was asked for by name that is made of streaks."""
    named = sections_of(wanted - request.if_cheap)
    # Hosts and models are told by their cards, too: nobody is refused for them.
    by = [key for key in request.usage_by if key not in request.groups_by]
    needed = sorted(section.name for section in named if section.streaks == "needed") or by
    made = [section.name for section in named if section.streaks == "wanted"]
    if needed or not made or {section.name for section in named} >= {*default_sections()}:
        return needed
    return made


def _left_out(wanted: frozenset[str], hours: Sequence[Hour], extents: Sequence[Extent]) -> frozenset[str]:
    """Return of sections that nobody named those of runs or ticks, which no day keeps, where these are too many."""
    return frozenset(
        section.name
        for section in sections_of(wanted)
        if section.most_card_hours
        and not (are_made_of_runs if section.streaks == "needed" else are_read_as_ticks)(
            hours, extents, section.most_card_hours
        )
    )


def _ask(asking: Asking, wanted: frozenset[str]) -> list[Finish]:
    """Ask for every section."""
    collecting = (section.collect for section in sections_of(wanted))
    asked = (collect(asking) for collect in collecting if collect is not None)
    return [finish for finish in asked if finish is not None]


class _FromOverview(NamedTuple):
    """What the overview tells: of each card, and of all of them together."""

    headline: Headline
    cards: tuple[Card, ...]
    coverage: Coverage
    unknown: tuple[UnknownReason, ...]
    overlaps: tuple[Overlap, ...]


def _from_overview(overview: Sequence[OverviewRow], prices: Prices, costs: Sequence[CostsRow]) -> _FromOverview:
    total = next(row for row in overview if row.is_total)
    by_card = of_cards(costs)
    cards = (_card(row, prices, by_card.get((row.host, row.gpu), ())) for row in overview if not row.is_total)
    return _FromOverview(
        headline=replace(_headline(total.states, prices, costs), idle_seconds=_idle_seconds(total, overview)),
        cards=tuple(sorted(cards, key=_card_order)),
        coverage=total.coverage,
        unknown=tuple(sorted(map(_reason, total.reasons), key=lambda r: _place(r.reason, _REASONS))),
        overlaps=_overlaps(row for row in overview if not row.is_total),
    )


def _finished(finishing: list[Finish], told: _FromOverview) -> Iterator[object]:
    """Make each section's model, and keep nothing of what it was made of; ``finishing`` is empty then."""
    finishing.reverse()
    while finishing:
        yield finishing.pop()(told.headline, told.cards)


def _place(key: str, order: tuple[str, ...]) -> tuple[int, str]:
    return (order.index(key) if key in order else len(order), key)


def _reason(total: ReasonTotal) -> UnknownReason:
    return UnknownReason(reason=total.reason, gpu_ms=total.gpu_ms, card_ticks=total.card_ticks)


def _headline(states: Iterable[StateTotal], prices: Prices, costs: Iterable[CostsRow]) -> Headline:
    by_state = {total.state: total for total in states}
    gpu_us = {total.state: total.gpu_ms * 1000 for total in by_state.values()}
    return Headline(
        states={
            state: StateTime(card_ticks=by_state[state].card_ticks, gpu_ms=by_state[state].gpu_ms) for state in STATES
        },
        shares={state: by_state[state].share for state in STATES},
        equivalent_gpus={state: by_state[state].equivalent_gpus for state in STATES},
        costs=prices.costs(gpu_us, by_price_and_state(costs)),
    )


def _idle_seconds(total: OverviewRow, rows: Iterable[OverviewRow]) -> IdleSeconds | None:
    """Return the idle seconds of active time; the first in order of several cards that have the most."""
    if not total.active_sampled_gpu_ms:
        return None
    cards = (row for row in rows if not row.is_total and row.active_idle_gpu_ms)
    worst = min(cards, key=lambda row: (-row.active_idle_gpu_ms, row.host, row.gpu_index or 0, row.gpu), default=None)
    return IdleSeconds(
        sampled_gpu_ms=total.active_sampled_gpu_ms,
        idle_gpu_ms=total.active_idle_gpu_ms,
        idle_share=total.active_idle_gpu_ms / total.active_sampled_gpu_ms,
        most_idle=None
        if worst is None
        else MostIdle(host=worst.host, gpu=worst.gpu, index=worst.gpu_index, idle_gpu_ms=worst.active_idle_gpu_ms),
    )


def _card(row: OverviewRow, prices: Prices, costs: Iterable[CostsRow]) -> Card:
    gpu_us = {state: time.gpu_ms * 1000 for state, time in row.state_times.items()}
    return Card(
        host=row.host,
        gpu=row.gpu,
        index=row.gpu_index,
        name=row.name,
        model=row.model,
        mig=row.mig,
        parent=row.parent,
        expected_gpu_ms=row.expected_gpu_ms,
        observed_gpu_ms=row.observed_gpu_ms,
        unobserved_gpu_ms=row.unobserved_gpu_ms,
        gaps=row.gaps,
        states=row.state_times,
        costs=prices.costs(gpu_us, by_price_and_state(costs)),
    )


def _card_order(card: Card) -> tuple[str, bool, int, bool, str]:
    """Order cards as a person walks along them: by host and index, a partitioned card before its instances."""
    return (card.host, card.index is None, card.index or 0, bool(card.parent), card.gpu)


def _overlaps(cards: Iterable[OverviewRow]) -> tuple[Overlap, ...]:
    """Return the hosts with a card that was observed for longer than time went by, by a second or more.

    Landing tables of whole seconds cut the times of ticks, so a tick may reach less than a second into another.
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
