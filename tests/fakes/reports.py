"""Whole reports made by hand: every section filled in, every figure of one week's hours, names that mean harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gua.core.words import AllocationStatus, Use
from gua.report.costs import Cost, Costs, added, added_by_state
from gua.report.forms.data import json_pieces
from gua.report.model import (
    Card,
    Claim,
    Claimant,
    Coverage,
    Extent,
    Filter,
    Headline,
    IdleSeconds,
    MostIdle,
    Overlap,
    Report,
    ReportedSource,
    Setting,
    Silent,
    Skew,
    UnknownReason,
    Window,
)
from gua.report.prices import CostsRow, Price, Prices
from gua.report.section_list import section_names
from gua.report.sections.allocation import Allocated, AllocatedHours, worst_first
from gua.report.sections.calendar import CalendarDay, DayHour, Days, TimeOfDay, Week, WeekHour
from gua.report.sections.card_streaks import IdleSplit
from gua.report.sections.contention import Contention, Contentions
from gua.report.sections.energy import CardEnergy, Energy, StateEnergy
from gua.report.sections.groups import Group, Grouping, Groupings
from gua.report.sections.money import Money, money
from gua.report.sections.notices import ChannelResult, Notices, SentNotice, notices_of
from gua.report.sections.now_rows import SILENT, AllocatedCard, CardNow, FreeCard, Holder, Now, OtherHolder
from gua.report.sections.previous import Previous
from gua.report.sections.right_size import CardSize, FitTime, Peak, ProgramOnCard, RightSize, fits_half, fits_slice
from gua.report.sections.slow_cards import SlowCard, SlowCards
from gua.report.sections.streaks import LONGER_THAN_MS, WHAT_IF_LIMITS_MS, StreakClass, Streaks, WhatIf, WhatIfEmpty
from gua.report.sections.timeline import CardTimeline, Presence, Timeline
from gua.report.sections.usage import OwnerUsage, Usage, UsageBy, UsageRow
from gua.report.sections.usefulness import (
    BusyWithFewSms,
    CardIdleTime,
    IdleTime,
    MeanActivity,
    OwnerActivity,
    Usefulness,
)
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, States, StateTime
from gua.report.uses import ALLOCATED, USES, Uses, total
from gua.report.window import BY_OWNER, BY_POD, BY_PROGRAM

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
TICK_MS: Final = 30_000
GIB: Final = 2**30
ZONE: Final = "Europe/Berlin"
SINCE_MS: Final = int(datetime(2026, 3, 23, tzinfo=ZoneInfo(ZONE)).timestamp() * 1000)
UNTIL_MS: Final = int(datetime(2026, 3, 30, tzinfo=ZoneInfo(ZONE)).timestamp() * 1000)

SCRIPT: Final = "<script>alert(1)</script>"
ATTRIBUTE: Final = '" onmouseover="alert(2)" x=\''
ESCAPES: Final = "tr\x1b[31mainer\x07\x00\x9b2J\r\n\tend"
RIGHT_TO_LEFT: Final = "\u202eexe.\u05d0\u05d1\u05d2\u2066"
MARKDOWN: Final = "|**b**|`c`|[x](http://evil.example)"
FORMULA: Final = '=HYPERLINK("http://evil.example")'
LONG: Final = "very-long-name-" * 667  # 10,005 characters
HOSTILE: Final = (SCRIPT, ATTRIBUTE, ESCAPES, RIGHT_TO_LEFT, MARKDOWN, FORMULA, LONG)
HOSTILE_HOST: Final = "lab-2\u202e.example\x1b[31m<b>"

Split = tuple[int, int, int, int]  # milliseconds of an hour in each state, in the order of STATES
Life = Callable[[datetime], Split]


@dataclass(frozen=True, kw_only=True)
class LivedCard:
    """A card and how each of its hours went, oldest first."""

    host: str
    gpu: str
    index: int | None
    name: str | None
    model: str | None
    hours: Sequence[Split] = field(default=())

    @property
    def key(self) -> tuple[str, str]:
        return self.host, self.gpu


def minutes(active: float = 0, held: float = 0, idle: float = 0, unknown: float = 0) -> Split:
    """Return an hour by minutes; what is left of 60 is unobserved."""
    return (
        int(active * MINUTE_MS),
        int(held * MINUTE_MS),
        int(idle * MINUTE_MS),
        int(unknown * MINUTE_MS),
    )


def states_of(splits: Iterable[Split]) -> dict[str, StateTime]:
    """Return the sum of hours by state, with their ticks."""
    sums = [0, 0, 0, 0]
    for split in splits:
        sums = [total + part for total, part in zip(sums, split, strict=True)]
    return {
        state: StateTime(gpu_ms=total, card_ticks=total // TICK_MS) for state, total in zip(STATES, sums, strict=True)
    }


def local_hours(since_ms: int, until_ms: int, zone: str = ZONE) -> list[datetime]:
    """Return the start of every hour of a window in its zone: 167 in a week in which the clock goes forward."""
    start = datetime.fromtimestamp(since_ms / 1000, UTC)
    return [
        (start + timedelta(hours=place)).astimezone(ZoneInfo(zone)) for place in range((until_ms - since_ms) // HOUR_MS)
    ]


def _trainer(at: datetime) -> Split:
    if at.weekday() < 5 and 8 <= at.hour < 20:
        return minutes(active=52 - at.hour % 3, held=8 + at.hour % 3)
    return minutes(active=4 if at.hour == 7 else 0, held=56 if at.hour == 7 else 60)


def _server(at: datetime) -> Split:
    busy = 22 if 9 <= at.hour < 18 else 6
    return minutes(active=busy, held=60 - busy)


def _abandoned(at: datetime) -> Split:
    return minutes(active=57, held=3) if at.day < 25 else minutes(held=60)


def _daily(at: datetime) -> Split:
    if at.day == 25 and 3 <= at.hour < 17:
        return minutes()
    if at.day == 27 and 10 <= at.hour < 13:
        return minutes(active=10, unknown=50)
    if 9 <= at.hour < 19:
        return minutes(active=45, held=10, idle=5)
    return minutes(idle=60)


def _spare(at: datetime) -> Split:
    return minutes(active=20, idle=40) if at.day == 26 and at.hour == 11 else minutes(idle=60)


_LIVES: Final[tuple[tuple[LivedCard, Life], ...]] = (
    (LivedCard(host="gpu-1", gpu="GPU-aaaa1111", index=0, name="NVIDIA H100 80GB HBM3", model="H100"), _trainer),
    (LivedCard(host="gpu-1", gpu="GPU-bbbb2222", index=1, name="NVIDIA H100 80GB HBM3", model="H100"), _server),
    (LivedCard(host="gpu-1", gpu="GPU-cccc3333", index=2, name="NVIDIA H100 80GB HBM3", model="H100"), _abandoned),
    (LivedCard(host=HOSTILE_HOST, gpu="GPU-dddd4444", index=0, name="NVIDIA L4", model="L4"), _daily),
    (LivedCard(host=HOSTILE_HOST, gpu="GPU-eeee5555", index=1, name=None, model=SCRIPT), _spare),
)


def week_report(*, has_source: bool = True) -> Report:
    """Return a week of five cards on two hosts with every section filled in: its hours add up in every section.

    ``has_source`` is whether sources report the allocations of its cards.
    """
    moments = local_hours(SINCE_MS, UNTIL_MS)
    cards = [replace(card, hours=[life(at) for at in moments]) for card, life in _LIVES]
    report = _report(cards, moments, Window(since_ms=SINCE_MS, until_ms=UNTIL_MS, timezone=ZONE))
    return with_allocation(report) if has_source else report


def fleet_report(hosts: int = 8, cards_a_host: int = 8, days: int = 30, cell_minutes: int = 60) -> Report:
    """Return a month of many cards whose hours differ from one to the next: the hardest to render."""
    window = Window(since_ms=UNTIL_MS - days * 24 * HOUR_MS, until_ms=UNTIL_MS, timezone=ZONE)
    moments = local_hours(window.since_ms, window.until_ms)

    def life(card: int, place: int) -> Split:
        busy = (card * 7 + place * 13 + (place * place) % 17) % 61
        held = (60 - busy) * ((card + place) % 4) // 3
        return minutes() if (place + card * 5) % 97 == 0 else minutes(active=busy, held=held, idle=60 - busy - held)

    cards = [
        LivedCard(
            host=f"gpu-{number // cards_a_host:03d}",
            gpu=f"GPU-{number:08x}",
            index=number % cards_a_host,
            name="NVIDIA H100 80GB HBM3",
            model="H100",
            hours=[life(number, place) for place in range(len(moments))],
        )
        for number in range(hosts * cards_a_host)
    ]
    report = _report(cards, moments, window)
    if cell_minutes == 60:
        return report
    each = 60 // cell_minutes
    finer = tuple(
        replace(
            card,
            cells=tuple(
                (cell[0] // each, cell[1] // each, cell[2] // each, cell[3] // each)
                for cell in card.cells
                for _ in range(each)
            ),
        )
        for card in report[Timeline].cards
    )
    return having(report, replace(report[Timeline], cell_ms=cell_minutes * MINUTE_MS, cards=finer))


def bare_report(report: Report, *sections: str) -> Report:
    """Return a report of these sections alone, everything that belongs to others ``None`` or empty."""
    return replace(
        report,
        sections=sections,
        models={kind: model for kind, model in report.models.items() if kind in {Usage, TimeOfDay}},
        overlaps=(),
        filters=(),
        silent=(),
        skewed=(),
        claimed=(),
    )


def having(report: Report, *models: object) -> Report:
    """Return a report with these models of sections, in place of those of the same classes."""
    return replace(report, models={**report.models, **{type(model): model for model in models}})


def lacking(report: Report, *kinds: type) -> Report:
    """Return a report without the models of these classes."""
    return replace(report, models={kind: model for kind, model in report.models.items() if kind not in kinds})


def with_allocation(report: Report) -> Report:
    """Return a report whose cards have allocations from sources, with all edge cases.

    A fifth of its observed time is of before anybody looked. One of the names is as long as names may be.
    """
    observed_ms = sum(time.gpu_ms for time in report.headline.states.values())
    slurm, pods = (
        (
            _allocated("slurm", "alice", observed_ms, (0.16, 0.05, 0, 0.02, 0), shared=0.01),
            _allocated("slurm", "bob", observed_ms, (0.02, 0.01, 0.01, 0.09, 0)),
            _allocated("slurm", LONG[:128], observed_ms, (0, 0, 0, 0.004, 0.001)),
            _allocated("slurm", None, observed_ms, (0.01, 0, 0, 0, 0)),
        ),
        (
            _allocated("kubernetes", SCRIPT, observed_ms, (0.03, 0, 0.02, 0.01, 0)),
            _allocated("kubernetes", ESCAPES, observed_ms, (0, 0, 0, 0.03, 0)),
            _allocated("kubernetes", MARKDOWN, observed_ms, (0.001, 0, 0, 0, 0)),
        ),
    )
    of_slurm, of_pods = _together("slurm", slurm), _together("kubernetes", pods)
    nobodys = {Use.UNALLOCATED_USE: 0.12 * observed_ms, Use.FREE: 0.18 * observed_ms, Use.UNKNOWN: 0.035 * observed_ms}
    uses = _added([of_slurm.uses, of_pods.uses, nobodys])
    sources = (
        ReportedSource(
            host=report.hosts[0],
            source="slurm",
            ok=False,
            reason="squeue gave no answer within 3 s",
            failed_ms=3 * HOUR_MS + 40 * MINUTE_MS,
            ok_ms=130 * HOUR_MS,
            last_ms=report.window.until_ms - 12_000,
        ),
        ReportedSource(
            host=report.hosts[-1],
            source="kubernetes",
            ok=True,
            reason=SCRIPT,
            failed_ms=30_000,
            ok_ms=134 * HOUR_MS,
            last_ms=report.window.until_ms - 12_000,
        ),
    )
    looked_at_ms = total(uses)
    whole = AllocatedHours(
        with_source_gpu_ms=looked_at_ms,
        without_source_gpu_ms=observed_ms - looked_at_ms,
        uses=uses,
        costs=None if report.headline.costs is None else {use: _cost(uses[use]) for use in USES},
        owners=worst_first((*slurm, *pods), Prices()),
        allocated=worst_first((of_slurm, of_pods), Prices()),
        sources=sources,
    )
    made = having(
        report,
        whole,
        _with_allocations(report, report[Now]),
        replace(report[Streaks], what_if_empty=_empty_limits(uses[Use.EMPTY])),
        Contentions(replace(one, contended_allocated_gpu_ms=one.contended_gpu_ms / 8) for one in report[Contentions]),
    )
    return replace(made, allocation_sources=sources)


def _empty_limits(empty_ms: float) -> tuple[WhatIfEmpty, ...]:
    return tuple(
        WhatIfEmpty(
            limit_ms=limit_ms,
            gpu_ms=empty_ms / (place + 1),
            cost=_cost(empty_ms / (place + 1)),
            reclaims=40 // (place + 1),
            holders=30 // (place + 1),
            false_alarms=4 // (place + 1),
        )
        for place, limit_ms in enumerate(WHAT_IF_LIMITS_MS)
    )


def _allocated(source: str, owner: str | None, whole_ms: float, parts: Sequence[float], shared: float = 0) -> Allocated:
    uses = {use: whole_ms * part for use, part in zip(ALLOCATED, parts, strict=True)}
    return Allocated(
        source=source,
        owner=owner,
        allocated_gpu_ms=total(uses),
        shared_gpu_ms=whole_ms * shared,
        uses=uses,
        costs={use: _cost(uses.get(use, 0)) for use in USES},
    )


def _added(every: Iterable[Uses]) -> Uses:
    sums: Counter[Use] = Counter()
    for uses in every:
        sums.update(uses)
    return {use: sums[use] for use in USES}


def _together(source: str, every: Sequence[Allocated]) -> Allocated:
    uses = _added(one.uses for one in every)
    return Allocated(
        source=source,
        owner=None,
        allocated_gpu_ms=total(uses),
        shared_gpu_ms=sum(one.shared_gpu_ms for one in every),
        uses=uses,
        costs={use: _cost(uses[use]) for use in USES},
    )


def _with_allocations(report: Report, now: Now) -> Now:
    cards = report.cards

    def allocated(place: int, owner: str | None, use: Use, hours: float, **values: str) -> AllocatedCard:
        card = cards[place % len(cards)]
        until_ms = report.window.until_ms
        return AllocatedCard(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            card_name=card.name,
            card_state=TRULY_IDLE if use in {Use.EMPTY, Use.UNKNOWN} else IDLE_HELD,
            as_of_ms=until_ms - 12_000,
            source=values.get("source", "slurm"),
            allocation_id=values.get("id", str(48_213 + place)),
            owner=owner,
            allocation_kind="job",
            job_name=values.get("job"),
            allocated_since_ms=until_ms - int(hours * HOUR_MS) - 20 * MINUTE_MS,
            allocated_until_ms=until_ms + 9 * HOUR_MS if place else None,
            use=use,
            use_since_ms=until_ms - int(hours * HOUR_MS),
            in_use_ms=int(hours * HOUR_MS),
            is_lower_bound=place == 2,
        )

    return replace(
        now,
        free=tuple(replace(one, allocation=AllocationStatus.UNALLOCATED) for one in now.free[:1]),
        maybe_allocated=tuple(replace(one, allocation=AllocationStatus.UNKNOWN) for one in now.free[1:]),
        allocations=(
            allocated(1, "alice", Use.HELD, 2.5),
            allocated(2, "bob", Use.EMPTY, 30.2, job=FORMULA),
            allocated(3, ESCAPES, Use.EMPTY, 1.4, source="kubernetes", id=SCRIPT, job=RIGHT_TO_LEFT),
            allocated(3, LONG[:128], Use.EMPTY, 0.3, id=LONG[:128], job=MARKDOWN),
            allocated(0, None, Use.UNKNOWN, 0.1),
        ),
    )


def empty_report() -> Report:
    """Return the report of a day of one card in which nothing was observed, with all sections."""
    window = Window(since_ms=SINCE_MS, until_ms=SINCE_MS + 24 * HOUR_MS, timezone="UTC")
    moments = local_hours(window.since_ms, window.until_ms, "UTC")
    card = replace(_LIVES[0][0], hours=[minutes()] * 24)
    report = _report([card], moments, window)
    timeline = report[Timeline]
    card_alone = replace(timeline.cards[0], holders=())
    return replace(
        bare_report(report, *section_names()),
        unknown=(),
        models={
            Usage: Usage(owners=()),
            TimeOfDay: report[TimeOfDay],
            Timeline: replace(timeline, cards=(card_alone,)),
        },
    )


def _report(cards: Sequence[LivedCard], moments: Sequence[datetime], window: Window) -> Report:
    sums = _sums(cards, moments)
    totals = states_of(split for _, split in sums)
    costs = added_by_state(_card(card).costs for card in cards)
    observed = sum(time.gpu_ms for time in totals.values())
    expected = float(len(cards) * len(moments) * HOUR_MS)
    hosts = tuple(sorted({card.host for card in cards}))
    model_cards = tuple(_card(card) for card in cards)
    models = (
        _idle_split(totals),
        _now(cards, window),
        Usage(owners=_identities(totals, window, costs), usage_by=_parties(totals, window, costs)),
        Groupings(
            (
                _rollup("host", model_cards, lambda card: card.host),
                _rollup("model", model_cards, lambda card: card.model),
                _rollup(ATTRIBUTE, model_cards, lambda card: LONG if card.index else None),
            )
        ),
        _streaks(totals),
        Contentions(_contention(hosts, len(cards), len(moments))),
        _money(cards, model_cards),
        _energy(cards),
        _usefulness(cards),
        _right_size(cards, totals),
        _slow_cards(cards),
        _notices(cards, window),
        TimeOfDay(
            DayHour(hour=hour, states=_of_hours(sums, lambda at, hour=hour: at.hour == hour)) for hour in range(24)
        ),
        Week(
            WeekHour(
                weekday=weekday,
                hour=hour,
                states=_of_hours(sums, lambda at, w=weekday, h=hour: (at.weekday(), at.hour) == (w, h)),
            )
            for weekday in range(7)
            for hour in range(24)
        ),
        Days(_days(sums)),
        Previous(
            since_ms=2 * window.since_ms - window.until_ms,
            until_ms=window.since_ms,
            coverage=Coverage(
                expected_gpu_ms=expected,
                observed_gpu_ms=expected * 0.9,
                unobserved_gpu_ms=expected * 0.1,
                ratio=0.9,
                gaps=4,
                effective_since_ms=2 * window.since_ms - window.until_ms,
                effective_until_ms=window.since_ms,
            ),
            states={
                state: StateTime(gpu_ms=expected * part)
                for state, part in zip(STATES, (0.21, 0.49, 0.2, 0.0), strict=True)
            },
        ),
        _timeline(cards, window),
    )
    return Report(
        window=window,
        hosts=hosts,
        extents=tuple(
            Extent(
                host=host,
                source="simulator" if host == HOSTILE_HOST else "agent",
                cards=sum(card.host == host for card in cards),
                first_ms=window.since_ms,
                last_ms=window.until_ms,
                interval_ms=TICK_MS,
            )
            for host in hosts
        ),
        rules=(
            Setting(key="active_utilization", value=0.05, is_default=False),
            Setting(key="held_memory_bytes", value=100 * 2**20, is_default=True),
            Setting(key="held_memory_ratio", value=0, is_default=True),
        ),
        coverage=Coverage(
            expected_gpu_ms=expected,
            observed_gpu_ms=observed,
            unobserved_gpu_ms=expected - observed,
            ratio=observed / expected,
            gaps=1,
            effective_since_ms=window.since_ms + HOUR_MS,
            effective_until_ms=window.until_ms,
        ),
        unknown=(
            UnknownReason(
                reason="utilization",
                gpu_ms=totals[UNKNOWN].gpu_ms * 0.8,
                card_ticks=int((totals[UNKNOWN].card_ticks or 0) * 0.8),
            ),
            UnknownReason(
                reason=SCRIPT,
                gpu_ms=totals[UNKNOWN].gpu_ms * 0.2,
                card_ticks=int((totals[UNKNOWN].card_ticks or 0) * 0.2),
            ),
        ),
        headline=replace(_headline(totals, len(cards)), costs=costs, idle_seconds=_idle_seconds(_usefulness(cards))),
        cards=model_cards,
        overlaps=(Overlap(host=hosts[-1], observed_ms=9 * HOUR_MS, elapsed_ms=8 * HOUR_MS),),
        filters=(Filter(key="team", values=("vision", SCRIPT)),),
        silent=(Silent(host=SCRIPT, since_ms=window.until_ms - 5 * HOUR_MS),),
        skewed=(Skew(host=RIGHT_TO_LEFT, ahead_ms=12 * MINUTE_MS, behind_ms=None),),
        claimed=(
            Claim(
                host="gpu-1",
                agents=tuple(
                    Claimant(host="gpu-1", instance=name, host_id="", first_ms=window.since_ms, last_ms=window.until_ms)
                    for name in (SCRIPT, "4f1c0a7be2d94f4e")
                ),
            ),
        ),
        sections=section_names(),
        models={type(model): model for model in models},
    )


def _headline(totals: States, cards: int) -> Headline:
    observed = sum(time.gpu_ms for time in totals.values())
    shares = {state: totals[state].gpu_ms / observed if observed else None for state in STATES}
    return Headline(
        states=totals,
        shares=shares,
        equivalent_gpus={state: None if part is None else part * cards for state, part in shares.items()},
    )


Sums = Sequence[tuple[datetime, Split]]


def _sums(cards: Sequence[LivedCard], moments: Sequence[datetime]) -> Sums:
    """Return every hour of all cards together."""
    hours = zip(*(card.hours for card in cards), strict=True)
    return [
        (
            at,
            (
                sum(s[0] for s in splits),
                sum(s[1] for s in splits),
                sum(s[2] for s in splits),
                sum(s[3] for s in splits),
            ),
        )
        for at, splits in zip(moments, hours, strict=True)
    ]


def _of_hours(sums: Sums, chosen: Callable[[datetime], bool]) -> dict[str, StateTime]:
    return states_of(split for at, split in sums if chosen(at))


def _card(card: LivedCard) -> Card:
    states = states_of(card.hours)
    observed = sum(time.gpu_ms for time in states.values())
    expected = float(len(card.hours) * HOUR_MS)
    return Card(
        host=card.host,
        gpu=card.gpu,
        index=card.index,
        name=card.name,
        model=card.model,
        mig="none",
        parent=None,
        expected_gpu_ms=expected,
        observed_gpu_ms=observed,
        unobserved_gpu_ms=expected - observed,
        gaps=int(observed < expected),
        states=states,
        recovery_action=0,
        recovery_ms=0,
        recovery_at_ms=UNTIL_MS,
        costs=PRICES.costs({state: time.gpu_ms * 1000 for state, time in states.items()}, _priced(card)),
    )


PRICES: Final = Prices(
    (
        Price("H100", "EUR", 2.85, SINCE_MS - 100 * 24 * HOUR_MS, f"the lab's contract {SCRIPT}", None),
        Price("L4", "USD", 0.8, SINCE_MS + 40 * HOUR_MS, None, None),
    )
)


def _priced(card: LivedCard) -> dict[tuple[int, str], int]:
    """Return a card's GPU time [us] by price and state: its hours from the first one of the price on."""
    found = {}
    for number, price in enumerate(PRICES.rows, 1):
        begins = max(0, (price.valid_from_ms - SINCE_MS) // HOUR_MS)
        if price.model == card.model:
            priced = states_of(card.hours[begins:])
            found |= {(number, state): round(priced[state].gpu_ms * 1000) for state in STATES}
    return found


def _part(costs: Costs | None, part: float) -> Costs | None:
    """Return the cost of a part of the time of cards; truly-idle time has no owner."""
    return costs and {
        state: Cost(
            amounts={currency: value * part * (state != TRULY_IDLE) for currency, value in cost.amounts.items()},
            unpriced_gpu_ms=cost.unpriced_gpu_ms * part * (state != TRULY_IDLE),
        )
        for state, cost in costs.items()
    }


def _rollup(by: str, cards: Sequence[Card], key: Callable[[Card], str | None]) -> Grouping:
    groups = []
    for name in dict.fromkeys(map(key, cards)):
        members = [card for card in cards if key(card) == name]
        expected_ms = sum(card.expected_gpu_ms for card in members)
        groups.append(
            Group(
                ratio=sum(card.observed_gpu_ms for card in members) / expected_ms if expected_ms else None,
                name=name,
                hosts=len({card.host for card in members}),
                gpus=len(members),
                cards=len(members),
                expected_gpu_ms=expected_ms,
                observed_gpu_ms=sum(card.observed_gpu_ms for card in members),
                unobserved_gpu_ms=sum(card.unobserved_gpu_ms for card in members),
                gaps=sum(card.gaps for card in members),
                states={
                    state: StateTime(
                        gpu_ms=sum(card.states[state].gpu_ms for card in members),
                        card_ticks=sum(card.states[state].card_ticks or 0 for card in members),
                    )
                    for state in STATES
                },
                costs=added_by_state(card.costs for card in members),
            )
        )
    return Grouping(by=by, groups=tuple(groups))


_PEOPLE: Final[tuple[tuple[str | None, str | None], ...]] = (
    ("alice", "python3"),
    ("bob", "jupyter-lab"),
    ("carol", "vllm"),
    (SCRIPT, ATTRIBUTE),
    (RIGHT_TO_LEFT, ESCAPES),
    (LONG, LONG),
    ("dave", MARKDOWN),
    ("erin", FORMULA),
    (None, None),
    ("frank", "train.py"),
    ("grace", "ollama"),
    ("heidi", "blender"),
)
_PARTS: Final = (0.24, 0.2, 0.16, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.005, 0.005)


def _identities(totals: States, window: Window, costs: Costs | None) -> tuple[OwnerUsage, ...]:
    held = {state: totals[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN)}
    rows = [
        OwnerUsage(
            kind="listed",
            owner=owner,
            program=program,
            gpu_ms=sum(held.values()) * part,
            process_ms=sum(held.values()) * part * 1.5,
            states={state: StateTime(gpu_ms=held.get(state, 0) * part) for state in STATES},
            costs=_part(costs, part),
            longest_idle_ms=int((30 - place) * HOUR_MS * part),
            sessions=place + 1,
            first_ms=window.since_ms + place * HOUR_MS,
            last_ms=window.until_ms - place * HOUR_MS,
        )
        for place, ((owner, program), part) in enumerate(zip(_PEOPLE, _PARTS, strict=True))
    ]
    rest = 1 - sum(_PARTS)
    rows.append(
        OwnerUsage(
            kind="unlisted",
            owner=None,
            program=None,
            gpu_ms=sum(held.values()) * rest,
            process_ms=0,
            states={state: StateTime(gpu_ms=held.get(state, 0) * rest) for state in STATES},
            costs=_part(costs, rest),
            longest_idle_ms=0,
            sessions=0,
        )
    )
    return tuple(rows)


def _parties(totals: States, window: Window, costs: Costs | None) -> tuple[UsageBy, ...]:
    held = {state: totals[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN)}
    total = sum(held.values())

    def row(name: str | None, part: float, place: int, kind: str = "listed") -> UsageRow:
        listed = kind == "listed"
        return UsageRow(
            kind=kind,
            name=name,
            gpu_ms=total * part,
            states={state: StateTime(gpu_ms=held.get(state, 0) * part) for state in STATES},
            costs=_part(costs, part),
            share=part if total else None,
            process_ms=total * part * 1.5 if listed else 0,
            longest_idle_ms=(30 - place) * HOUR_MS if listed else 0,
            sessions=place + 1 if listed else 0,
            first_ms=window.since_ms + place * HOUR_MS if listed else None,
            last_ms=window.until_ms - place * 30 * MINUTE_MS if listed else None,
        )

    def rows(place: int) -> tuple[UsageRow, ...]:
        listed = [row(people[place], part, at) for at, (people, part) in enumerate(zip(_PEOPLE, _PARTS, strict=True))]
        return (*listed, row(None, 1 - sum(_PARTS), 0, "unlisted"))

    pods = (row("3f2a9c1e-77aa-4a8e-9a53-0d6f8b6a2c11", 0.3, 0), row(None, 0.69, 1), row(None, 0.01, 0, "unlisted"))
    return (
        UsageBy(by=BY_OWNER, rows=rows(0)),
        UsageBy(by=BY_PROGRAM, rows=rows(1)),
        UsageBy(by=BY_POD, rows=pods),
    )


def _idle_split(totals: States) -> IdleSplit:
    held = totals[IDLE_HELD].gpu_ms
    return IdleSplit(
        never_used_gpu_ms=held * 0.55,
        never_used_long_gpu_ms=held * 0.5,
        low_gpu_ms=held * 0.45,
        low_long_gpu_ms=held * 0.06,
    )


def _now(cards: Sequence[LivedCard], window: Window) -> Now:
    def holder(place: int, owner: str | None, program: str | None, idle_hours: float, gib: float | None) -> Holder:
        card = cards[place % len(cards)]
        return Holder(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            card_name=card.name,
            card_state=IDLE_HELD if place != 1 else ACTIVE,
            as_of_ms=window.until_ms - 12_000,
            owner=owner,
            program=program,
            pid=None if program is None else 4000 + place,
            created_ms=None if program is None else window.since_ms + place * HOUR_MS,
            memory_bytes=None if gib is None else int(gib * GIB),
            idle_since_ms=window.until_ms - int(idle_hours * HOUR_MS),
            idle_ms=int(idle_hours * HOUR_MS),
            is_lower_bound=place == 2,
            is_alone=place != 1,
            active_24h_ms=None if place == 4 else int(place * 20 * MINUTE_MS),
            wasted_gpu_ms=idle_hours * HOUR_MS * 1.2,
            wasted_cost=None if place == 4 else Cost(amounts={"EUR": idle_hours * 1.2 * 2.85}, unpriced_gpu_ms=0),
            wasted_byte_ms=None if gib is None else idle_hours * HOUR_MS * gib * GIB,
            container_id="0d6f8b6a2c11" * 5 if place == 0 else None,
            pod_uid="3f2a9c1e-77aa-4a8e-9a53-0d6f8b6a2c11" if place == 0 else None,
            slurm_job_id="48213" if place == 1 else None,
            systemd_unit=ATTRIBUTE if place == 3 else None,
        )

    return Now(
        as_of_ms=window.until_ms,
        holders=(
            holder(2, "bob", "jupyter-lab", 118.4, 61.2),
            holder(0, "alice", "python3", 50.5, 42.0),
            holder(3, SCRIPT, ATTRIBUTE, 4.2, 0.0),
            holder(1, "carol", "vllm", 0.6, 70.1),
            holder(4, None, None, 0.3, None),
            holder(5, LONG, LONG, 0.25, 3.3),
            holder(6, RIGHT_TO_LEFT, ESCAPES, 0.1, 0.4),
        ),
        free=(
            FreeCard(
                host=cards[-1].host,
                gpu=cards[-1].gpu,
                index=cards[-1].index,
                card_name=cards[-1].name,
                as_of_ms=window.until_ms - 12_000,
                free_since_ms=window.until_ms - 84 * HOUR_MS,
                free_ms=83 * HOUR_MS,
                is_lower_bound=False,
                free_ratio_at_this_hour=0.97,
            ),
            FreeCard(
                host="gpu-9",
                gpu=SCRIPT,
                index=None,
                card_name=None,
                as_of_ms=window.until_ms,
                free_since_ms=window.until_ms - HOUR_MS,
                free_ms=HOUR_MS,
                is_lower_bound=True,
                free_ratio_at_this_hour=None,
            ),
        ),
        others=(
            OtherHolder(
                host=cards[0].host,
                gpu=cards[0].gpu,
                index=cards[0].index,
                card_name=cards[0].name,
                card_state=ACTIVE,
                as_of_ms=window.until_ms - 12_000,
                owner="dave",
                program=MARKDOWN,
                pid=4100,
                memory_bytes=12 * GIB,
                since_ms=window.until_ms - 7 * HOUR_MS,
            ),
        ),
        by_card=tuple(_card_now(place, card, window) for place, card in enumerate(cards)),
        cards={ACTIVE: 1, IDLE_HELD: 2, TRULY_IDLE: 1, UNKNOWN: 0, SILENT: 1},
    )


def _card_now(place: int, card: LivedCard, window: Window) -> CardNow:
    state = (ACTIVE, IDLE_HELD, IDLE_HELD, SILENT, TRULY_IDLE)[place % 5]
    since_ms = window.until_ms - (place + 1) * HOUR_MS if state in {IDLE_HELD, TRULY_IDLE} else None
    return CardNow(
        host=card.host,
        gpu=card.gpu,
        index=card.index,
        state=state,
        since_ms=since_ms,
        in_state_ms=None if since_ms is None else window.until_ms - since_ms,
        is_lower_bound=place == 2,
    )


def _cost(gpu_ms: float) -> Cost:
    """Return what the same half of all idle-held time cost wherever it stands."""
    return Cost(amounts={"EUR": gpu_ms / HOUR_MS / 2 * 2.85}, unpriced_gpu_ms=gpu_ms / 2)


def _streaks(totals: States) -> Streaks:
    held = totals[IDLE_HELD].gpu_ms
    parts = (1.0, 0.82, 0.61, 0.4)
    counts = ((412, 11), (38, 7), (9, 4), (3, 2))
    kept = (0.96, 0.9, 0.84, 0.8, 0.72, 0.66, 0.6, 0.39)
    return Streaks(
        classes=tuple(
            StreakClass(
                longer_than_ms=limit,
                streaks=streaks,
                holders=holders,
                idle_ms=int(held * part * 1.1),
                idle_held_gpu_ms=held * part,
                cost=_cost(held * part),
            )
            for limit, part, (streaks, holders) in zip(LONGER_THAN_MS, parts, counts, strict=True)
        ),
        what_if=tuple(
            WhatIf(
                limit_ms=limit,
                gpu_ms=held * part,
                cost=_cost(held * part),
                reclaims=400 // (place + 1) ** 2,
                holders=11 - place,
                false_alarms=max(0, 60 // (place + 1) ** 2 - 1),
            )
            for place, (limit, part) in enumerate(zip(WHAT_IF_LIMITS_MS, kept, strict=True))
        ),
    )


def _contention(hosts: Sequence[str], cards: int, hours: int) -> tuple[Contention, ...]:
    def row(host: str | None, count: int, parts: tuple[float, float, float, float]) -> Contention:
        free, contended, busy, unknown = (int(part * hours * HOUR_MS) for part in parts)
        return Contention(
            host=host,
            cards=count,
            share=contended / (free + contended + busy + unknown),
            free_ms=free,
            contended_ms=contended,
            busy_ms=busy,
            unknown_ms=unknown,
            contended_gpu_ms=contended * 1.7,
            cost=_cost(contended * 1.7),
        )

    each = max(1, cards // len(hosts))
    return (
        row(None, cards, (0.85, 0.06, 0.0, 0.09)),
        *(
            row(host, each, (0.0, 0.93, 0.07, 0.0) if place == 0 else (0.8, 0.02, 0.1, 0.08))
            for place, host in enumerate(hosts)
        ),
    )


def _money(lived: Sequence[LivedCard], cards: Sequence[Card]) -> Money:
    rows = []
    for card in lived:
        priced = _priced(card)
        rest = {state: round(time.gpu_ms * 1000) for state, time in states_of(card.hours).items()}
        for number in dict.fromkeys(number for number, _ in priced):
            rows.append(CostsRow(card.host, card.gpu, number, *(priced[number, state] for state in STATES)))
            rest = {state: us - priced[number, state] for state, us in rest.items()}
        rows.append(CostsRow(card.host, card.gpu, 0, *(rest[state] for state in STATES)))
    return money(rows, cards, PRICES)


def _energy(cards: Sequence[LivedCard]) -> Energy:
    def one(place: int, card: LivedCard) -> CardEnergy:
        watts = {ACTIVE: 512.0, IDLE_HELD: 121.7, TRULY_IDLE: 71.8, UNKNOWN: 100.0}
        totals = states_of(card.hours)
        states = {}
        for state in STATES:
            seconds = totals[state].gpu_ms / 1000
            states[state] = StateEnergy(
                measured_joules=seconds * watts[state] * 0.95,
                measured_ms=int(seconds * 950),
                estimated_joules=seconds * watts[state] * 0.04,
                estimated_ms=int(seconds * 40),
                unknown_ms=int(seconds * 10),
            )
        both = place == 3
        held_seconds = totals[IDLE_HELD].gpu_ms / 1000
        return CardEnergy(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            model=card.model,
            states=states,
            bare_watts=71.8 if totals[TRULY_IDLE].gpu_ms else None,
            held_watts=121.7 if totals[IDLE_HELD].gpu_ms else None,
            added_joules=held_seconds * 49.9 if both else None,
        )

    return Energy(cards=tuple(one(place, card) for place, card in enumerate(cards)))


def _idle_seconds(found: Usefulness) -> IdleSeconds | None:
    active = found.states[ACTIVE]
    if active.idle_share is None:
        return None
    worst = max(found.cards, key=lambda card: card.states[ACTIVE].idle_gpu_ms)
    return IdleSeconds(
        sampled_gpu_ms=active.sampled_gpu_ms,
        idle_gpu_ms=active.idle_gpu_ms,
        idle_share=active.idle_share,
        most_idle=MostIdle(
            host=worst.host, gpu=worst.gpu, index=worst.index, idle_gpu_ms=worst.states[ACTIVE].idle_gpu_ms
        ),
    )


def _usefulness(cards: Sequence[LivedCard]) -> Usefulness:
    """Return idle seconds: the first card has no samples, the second no power samples."""

    def part(gpu_ms: float, share: float, place: int) -> IdleTime:
        known_ms = 0.0 if place == 0 else gpu_ms * 0.98
        idle_ms, has_power = known_ms * share, bool(known_ms) and place != 1
        return IdleTime(
            gpu_ms=gpu_ms,
            sampled_gpu_ms=known_ms,
            idle_gpu_ms=idle_ms,
            idle_share=share if known_ms else None,
            measured_gpu_ms=idle_ms / 2 if has_power else 0.0,
            idle_joules=idle_ms / 2000 * 120 if has_power else None,
        )

    def added(parts: Sequence[IdleTime]) -> IdleTime:
        known_ms, idle_ms = sum(one.sampled_gpu_ms for one in parts), sum(one.idle_gpu_ms for one in parts)
        return IdleTime(
            gpu_ms=sum(one.gpu_ms for one in parts),
            sampled_gpu_ms=known_ms,
            idle_gpu_ms=idle_ms,
            idle_share=idle_ms / known_ms if known_ms else None,
            measured_gpu_ms=sum(one.measured_gpu_ms for one in parts),
            idle_joules=sum(one.idle_joules or 0 for one in parts),
        )

    found = [
        CardIdleTime(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            model=card.model,
            states={
                ACTIVE: part(states_of(card.hours)[ACTIVE].gpu_ms, min(0.07 * place, 0.6), place),
                IDLE_HELD: part(states_of(card.hours)[IDLE_HELD].gpu_ms, 0.9, place),
            },
            activity=_activity(states_of(card.hours)[ACTIVE].gpu_ms if place else 0.0, place),
        )
        for place, card in enumerate(cards)
    ]
    by_state = {state: [card.states[state] for card in found] for state in (ACTIVE, IDLE_HELD)}
    return Usefulness(
        states={state: added(parts) for state, parts in by_state.items()},
        loaded=added([part for parts in by_state.values() for part in parts]),
        cards=tuple(found),
        activity=_activity(sum(one.states[ACTIVE].gpu_ms for one in found[1:]), 1),
        owners=(
            OwnerActivity(owner=LONG, program="python", gpu_ms=9e6, sm=0.031, tensor=None, low_gpu_ms=8e6),
            OwnerActivity(owner=None, program=None, gpu_ms=3e6, sm=0.7, tensor=0.4, low_gpu_ms=0.0),
        ),
        busy_with_few_sms=(
            BusyWithFewSms(
                host=cards[-1].host,
                gpu=cards[-1].gpu,
                index=cards[-1].index,
                model=cards[-1].model,
                since_ms=SINCE_MS,
                until_ms=SINCE_MS + 9 * HOUR_MS,
                observed_ms=9 * HOUR_MS,
                gpu_ms=9 * HOUR_MS,
                sm=0.03,
                tensor=0.0,
                owners=("", "bo", LONG),
                programs=(),
            ),
        ),
    )


def _activity(gpu_ms: float, place: int) -> tuple[MeanActivity, ...]:
    """Return counters of a card's active time: the second has no tensor operations."""
    means = {"sm": 0.4 / place if place else 0, "occupancy": 0.2, "tensor": 0.1, "memory_bandwidth": 0.3}
    return tuple(
        MeanActivity(metric=metric, known_gpu_ms=gpu_ms, mean=mean, low_gpu_ms=gpu_ms * 0.25)
        for metric, mean in means.items()
        if gpu_ms and (metric, place) != ("tensor", 1)
    )


def _right_size(cards: Sequence[LivedCard], totals: States) -> RightSize:
    """Return a program a card: the first of unknown memory, the others take 6 GiB and three times as much each."""
    found = []
    for place, card in enumerate(cards):
        size = CardSize(card.host, card.gpu, place, card.model, 80 << 30, 1 << 30, int(place == 0), False, None, 0)  # noqa: FBT003
        peak = Peak(6 * 3 ** (place - 1) << 30 if place else None, is_whole=bool(place))
        in_slice, part = fits_slice(peak, size)
        gpu_ms = sum(states_of(card.hours)[state].gpu_ms for state in (ACTIVE, IDLE_HELD))
        one = ProgramOnCard(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            model=card.model,
            is_instance=False,
            owner=(LONG, "bo", None)[place % 3],
            program="python",
            job="4711" if place else None,
            gpu_ms=gpu_ms,
            unknown_gpu_ms=0.0 if place else gpu_ms,
            cost=added(cost for state, cost in (_card(card).costs or {}).items() if state in {ACTIVE, IDLE_HELD}),
            peak_bytes=peak.bytes,
            p95_bytes=peak.bytes,
            usable_bytes=size.usable_bytes,
            peak_utilization=0.97 if place else None,
            p95_utilization=0.9 if place else None,
            p95_sm_utilization=0.21 if place == 1 else None,
            fits_half=fits_half(peak, size),
            fits_slice=in_slice,
            slice=part,
            fits_smaller=None if place == 0 else place == 1,
            smaller_model="A30" if place == 1 else None,
        )
        found.append(one)
    whole_ms = sum(one.gpu_ms for one in found)

    def time(chosen: Callable[[ProgramOnCard], object]) -> FitTime:
        some = [one for one in found if chosen(one)]
        gpu_ms = sum(one.gpu_ms for one in some)
        share = gpu_ms / whole_ms if whole_ms else None
        return FitTime(workloads=len(some), gpu_ms=gpu_ms, share=share, cost=added(one.cost for one in some))

    return RightSize(
        held_gpu_ms=sum(totals[state].gpu_ms for state in (ACTIVE, IDLE_HELD, UNKNOWN)),
        every=time(lambda _: True),
        half=time(lambda one: one.fits_half),
        slice=time(lambda one: one.fits_slice),
        smaller=time(lambda one: one.fits_smaller),
        any=time(lambda one: one.fits),
        none=time(lambda one: one.fits is False),
        not_known=time(lambda one: one.fits is None),
        workloads=tuple(found),
    )


def _slow_cards(cards: Sequence[LivedCard]) -> SlowCards:
    """Return the first card without any reasons, the second slowed for hours, the others by the power cap alone."""
    found = []
    for place, card in enumerate(cards):
        observed_ms = round(sum(time.gpu_ms for time in states_of(card.hours).values()))
        known_ms, heat_ms = (observed_ms if place else 0), (observed_ms // 10 if place == 1 else 0)
        one = SlowCard(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            model=card.model,
            observed_ms=observed_ms,
            known_ms=known_ms,
            heat_ms=heat_ms,
            power_cap_ms=known_ms // 7,
            hardware_ms=heat_ms // 2,
            slowed_ms=heat_ms,
            xid_errors=(None, 1_000_064, 0)[min(place, 2)],
            xid=79 if place == 1 else None,
            ecc_errors=(None, 3, 0)[min(place, 2)],
            row_remap=(None, 1, 0)[min(place, 2)],
            recovery_action=None if place == 0 else 0,
        )
        found.append(one)
    return SlowCards(cards=tuple(sorted(found, key=lambda one: -one.slowed_ms)))


def _notices(cards: Sequence[LivedCard], window: Window) -> Notices:
    """Return two steps for one holder, which left after the second, and a notice of a killed run for another."""
    sent = []
    for place, step in enumerate((1, 2, 1)):
        card = cards[min(place // 2, len(cards) - 1)]
        sent_ms = window.since_ms + (place + 1) * 6 * HOUR_MS
        result = "started" if place == 2 else "sent"
        one = SentNotice(
            sent_ms=sent_ms,
            rule="idle",
            step=step,
            reminder=1,
            host=card.host,
            kind="process",
            holder=f"{card.host} {4000 + place // 2} {window.since_ms}",
            state="idle-held",
            owner="ana" if place < 2 else LONG,
            program="python",
            pid=4000 + place // 2,
            cards=1,
            since_ms=sent_ms - (2 + 6 * (step - 1)) * HOUR_MS,
            idle_ms=(2 + 6 * (step - 1)) * HOUR_MS,
            channels=(ChannelResult("1 mailto://smtp.example.org", result, ""),),
            idle_before_gpu_ms=2.0 * HOUR_MS,
            idle_after_gpu_ms=(8.5 - 6 * (step - 1)) * HOUR_MS,
            used_ms=sent_ms + 5 * MINUTE_MS if place == 2 else None,
            released_ms=window.since_ms + 14 * HOUR_MS + 30 * MINUTE_MS if place < 2 else None,
        )
        sent.append(one)
    return notices_of(sent)


def _days(sums: Sums) -> tuple[CalendarDay, ...]:
    dates: dict[str, float] = {}
    for at, _ in sums:
        dates[at.date().isoformat()] = dates.get(at.date().isoformat(), 0) + 3600
    return tuple(
        CalendarDay(
            date=date,
            seconds=seconds,
            states=_of_hours(sums, lambda at, date=date: at.date().isoformat() == date),
        )
        for date, seconds in dates.items()
    )


def _timeline(cards: Sequence[LivedCard], window: Window) -> Timeline:
    def presences(place: int) -> tuple[Presence, ...]:
        return tuple(
            Presence(
                host=cards[place].host,
                gpu=cards[place].gpu,
                owner=owner,
                program=program,
                pid=4000 + place * 10 + number,
                since_ms=window.since_ms + number * 9 * HOUR_MS,
                until_ms=window.until_ms - number * 31 * HOUR_MS,
                observed_ms=window.until_ms - window.since_ms - number * 40 * HOUR_MS,
                idle_ms=(60 - number * 20) * HOUR_MS,
                unknown_ms=0,
                processes=3,
                place=number,
            )
            for number, (owner, program) in enumerate((_PEOPLE * 3)[place * 3 : place * 3 + 3])
        )

    return Timeline(
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        cell_ms=HOUR_MS,
        cards=tuple(
            CardTimeline(
                host=card.host,
                gpu=card.gpu,
                index=card.index,
                card_name=card.name,
                cells=tuple(card.hours),
                holders=() if place == 4 else presences(place % 5),
                more_holders=14 if place == 1 else 0,
            )
            for place, card in enumerate(cards)
        ),
    )


def render_json(report: Report) -> str:
    """Return the report as JSON text."""
    return "".join(json_pieces(report))
