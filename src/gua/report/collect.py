"""Asks a store's report views and makes one typed report of their rows; counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gua.core.ports import ViewReader
from gua.report import fleet
from gua.report.filters import Conditions, filters
from gua.report.hours import HOURS, hours_of, parts, tick_hours
from gua.report.model import Card, Headline, Identity, Overlap, Report, UnknownReason
from gua.report.optional_sections import Asked
from gua.report.questions import Answer, ask
from gua.report.rows import (
    EXTENT,
    IDENTITIES,
    OVERVIEW,
    RULES,
    TIME_OF_DAY,
    IdentityRow,
    OverviewRow,
    ReasonTotal,
    StateTotal,
    TimeOfDayRow,
)
from gua.report.section_names import WHO
from gua.report.sections.groups.query import check_by, needs_labels, rollups
from gua.report.states import ACTIVE, IDLE_HELD, STATES, UNKNOWN, States, StateTime
from gua.report.window import ReportRequest, choose_extents, choose_window, no_data

_HOURS_OF_DAY: Final = 24
_RULES: Final = ("active_utilization", "held_memory_bytes", "held_memory_ratio")
_REASONS: Final = ("lost", "utilization", "pid_namespace", "processes", "memory")


def collect(reader: ViewReader, request: ReportRequest) -> Report:
    """Return the report of the window and hosts asked for.

    Raises UsageError for a host, moment or zone that means nothing, UnavailableError where there is no data.
    """
    hosts = list(request.hosts)
    known = sorted(EXTENT.rows(reader, {"hosts": []}), key=lambda e: (e.host, e.source))
    conditions = Conditions.of(request.clusters, request.where)
    labels = fleet.labels(reader) if conditions or needs_labels(request.groups_by) else {}
    extents = choose_extents(known, hosts)
    if conditions:
        chosen = conditions.choose({extent.host for extent in extents}, labels)
        extents = choose_extents(extents, chosen)
        # All of them are none in particular: a list of thousands takes the server longer than it is worth.
        hosts = [] if {extent.host for extent in known} == set(chosen) else list(chosen)
    check_by(request.groups_by, {extent.host for extent in extents}, labels)
    window = choose_window(extents, request)
    bounds = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": hosts}
    # Nothing else can be asked before it is known which hours are read from ticks: it is asked for first.
    hour_rows = ask(reader, HOURS, bounds)
    # Hosts are silent by the window's end, or by now if that is earlier.
    fleet_rows = ask(reader, fleet.FLEET, {**bounds, "until_ms": min(window.until_ms, request.now_ms)})
    claim_rows = ask(reader, fleet.CLAIMS, bounds)
    rule_rows = ask(reader, RULES, {})
    hours = hours_of(hour_rows(), from_ticks=request.from_ticks)
    read = {**bounds, "ticked": tick_hours(hours), "stored": int(not request.from_ticks)}
    asked = Asked(reader, request, window, extents, hours, bounds, read)
    overview_rows = ask(reader, OVERVIEW, read)
    time_of_day_rows = ask(reader, TIME_OF_DAY, {**read, "timezone": window.timezone})
    overview = overview_rows()
    total = next(row for row in overview if row.is_total)
    headline = _headline(total.states)
    if not headline.card_ticks:
        raise no_data(window, extents)
    cards = sorted((_card(row) for row in overview if not row.is_total), key=_card_order)
    reported = {card.host for card in cards}
    silent, skewed = fleet.troubles(fleet_rows())
    made = asked.told(headline, cards)
    wanted_parts = parts(hours) if WHO in request.sections else ()
    return Report(
        window=window,
        hosts=tuple(sorted(reported)),
        extents=tuple(extent for extent in extents if extent.host in reported),
        rules=tuple(sorted(rule_rows(), key=lambda s: _place(s.key, _RULES))),
        coverage=total.coverage,
        unknown=tuple(sorted(map(_reason, total.reasons), key=lambda r: _place(r.reason, _REASONS))),
        headline=headline,
        cards=tuple(cards),
        identities=_identities(_one_by_one(reader, read, wanted_parts)) if made.identities is None else made.identities,
        time_of_day=_time_of_day(time_of_day_rows()),
        overlaps=_overlaps(row for row in overview if not row.is_total),
        filters=filters(request.hosts, conditions, known={extent.host for extent in known}),
        rollups=rollups(cards, request.groups_by, labels),
        silent=silent,
        skewed=skewed,
        claimed=fleet.claims(claim_rows()),
        sections=request.sections,
        streaks_skipped=made.streaks_skipped,
        idle_split=made.idle_split,
        now=made.now,
        parties=made.parties,
        streaks=made.streaks,
        contention=made.contention,
        money=made.money,
        energy=made.energy,
        week=made.calendar[0],
        days=made.calendar[1],
        before=made.before,
        timeline=made.timeline,
    )


def _place(key: str, order: tuple[str, ...]) -> tuple[int, str]:
    return (order.index(key) if key in order else len(order), key)


def _reason(total: ReasonTotal) -> UnknownReason:
    return UnknownReason(reason=total.reason, gpu_ms=total.gpu_ms, card_ticks=total.card_ticks)


def _headline(states: Iterable[StateTotal]) -> Headline:
    by_state = {total.state: total for total in states}
    return Headline(
        states={
            state: StateTime(card_ticks=by_state[state].card_ticks, gpu_ms=by_state[state].gpu_ms) for state in STATES
        },
        shares={state: by_state[state].share for state in STATES},
        equivalent_gpus={state: by_state[state].equivalent_gpus for state in STATES},
    )


def _card(row: OverviewRow) -> Card:
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


def _one_by_one(
    reader: ViewReader, read: Mapping[str, object], others: Iterable[list[int]]
) -> Iterator[Answer[IdentityRow]]:
    """Ask for the identities of parts of the hours, one by one, so that memory does not grow with the window."""
    for place, part in enumerate(others):
        yield ask(reader, IDENTITIES, {**read, "part": part, **({"stored": 0} if place else {})})


def _identities(answers: Iterable[Answer[IdentityRow]]) -> tuple[Identity, ...]:
    """Add up the answers for parts of the hours."""
    sums: dict[tuple[str, str | None, str | None], list[int]] = {}
    for answer in answers:
        for row in answer():
            total = sums.setdefault((row.kind, row.owner, row.program), [0, 0, 0, 0])
            for position, value in enumerate((row.active_us, row.idle_held_us, row.unknown_us, row.durations_ms)):
                total[position] += value
    found = (_identity(*key, *total) for key, total in sums.items())
    return tuple(
        sorted(
            (identity for identity in found if identity.gpu_ms > 0),
            key=lambda i: (-i.gpu_ms, i.kind, i.owner or "", i.program or ""),
        )
    )


def _identity(  # noqa: PLR0913, PLR0917 - a row of the view
    kind: str,
    owner: str | None,
    program: str | None,
    active_us: int,
    idle_held_us: int,
    unknown_us: int,
    durations_ms: int,
) -> Identity:
    """Return one identity. Where processes were given more than their card had, nothing is left for the unlisted."""
    by_state = {ACTIVE: max(active_us, 0), IDLE_HELD: max(idle_held_us, 0), UNKNOWN: max(unknown_us, 0)}
    gpu_ms = sum(by_state.values()) / 1000
    return Identity(
        kind=kind,
        owner=owner,
        program=program,
        gpu_ms=gpu_ms,
        unsplit_ms=gpu_ms if kind == "unlisted" else durations_ms,
        # The ticks of cards that nothing holds belong to nobody.
        states={state: StateTime(gpu_ms=by_state.get(state, 0) / 1000) for state in STATES},
    )


def _time_of_day(rows: Iterable[TimeOfDayRow]) -> tuple[States, ...]:
    hours = [dict.fromkeys(STATES, StateTime(card_ticks=0)) for _ in range(_HOURS_OF_DAY)]
    for row in rows:
        hours[row.hour][row.state] = StateTime(gpu_ms=row.gpu_ms, card_ticks=row.card_ticks)
    return tuple(hours)
