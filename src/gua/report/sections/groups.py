"""Sections groups and cards: cards added up by host, cluster, model or a label, and one row per card."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from gua.core.plaintext import safe
from gua.core.words import Mig
from gua.report.costs import CostByState, added_by_state, wasted, with_currencies
from gua.report.filters import CLUSTER_KEY, Labels, check_key
from gua.report.kit.amounts import WASTED, Amounts
from gua.report.kit.fields import AS_IS, RATIO, ByState, Cells, Hours, cells, columns, grouped, to_json
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, most_idle
from gua.report.kit.words import LEFT_OVER, gpu_numbers, known, parts, short_name
from gua.report.model import Card, Report
from gua.report.section import Csv, Section
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, StateTime, times
from gua.report.window import BY_HOST, BY_MODEL

MOST_CARDS: Final = 100
MOST_OF_A_FLEET: Final = 24  # section groups lists its hosts
_CARD_WIDTH: Final = 30
_ID_WIDTH: Final = 13


def _cards_text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row per card; above the limit only the cards with the longest idle time."""
    most = (MOST_CARDS if len(report.hosts) == 1 else MOST_OF_A_FLEET) * style.times
    shown, left_out = most_idle(report.cards, lambda card: card.states, most)
    amounts = Amounts.of_report(report)
    # Cards of one host, index and name are shown with their UUID instead.
    counted = Counter((card.host, card.index, _card_name(card)) for card in shown)
    twins = {label for label, count in counted.items() if count > 1}
    yield "% of each card's observed GPU-hours"
    rows = Rows(shown)
    if len(report.hosts) > 1:
        rows.add("host", lambda card: style.name(card.host, _CARD_WIDTH), left=True, shortest=8, is_head=True)
    rows.add("gpu", lambda card: NONE if card.index is None else str(card.index), is_head=True)

    def label(card: Card) -> str:
        name = _card_name(card)
        return style.name(card.gpu if not name or (card.host, card.index, name) in twins else name, _CARD_WIDTH)

    rows.add("name", label, left=True, shortest=8, is_head=True)
    rows.add("uuid", lambda card: style.name(card.gpu, _ID_WIDTH), left=True, leaves=2)
    rows.add(STATES, lambda card: percents(times(card.states)))
    rows.add(amounts.titles(WASTED, style.name), lambda card: amounts.cells(wasted(card.costs)))
    rows.add("observed", lambda card: hours.of(card.observed_gpu_ms), leaves=1)
    rows.add("unobserved", lambda card: hours.of(card.unobserved_gpu_ms), leaves=1)
    yield rows.table(bars=[card.states for card in shown])
    if left_out:
        idle = sum(card.states[IDLE_HELD].gpu_ms + card.states[TRULY_IDLE].gpu_ms for card in left_out)
        yield (
            f"and {len(left_out):,} more with less idle time, {hours.of(idle)} idle GPU-hours together; "
            "--json has every card."
        )
    if any(card.mig for card in shown if card.mig not in {None, Mig.NONE}):
        yield "MIG: an instance counts with its part of a GPU, and so do unallocated MIG slices, which are not a card."


def _card_name(card: Card) -> str:
    name = short_name(card.name or card.model or "")
    if card.mig == Mig.PARENT:
        return LEFT_OVER
    if card.mig == Mig.INSTANCE:
        _, profile, slices = name.partition("MIG ")
        return profile + slices if slices else f"MIG of {name}" if name else "MIG"
    return name


def _card_rows(report: Report, _report: Report) -> Iterator[Cells]:
    for card in report.cards:
        yield from with_currencies(cells(card), card.costs, ("host", "gpu", "index", "name"))


CARDS_SECTION = Section(
    name="cards",
    title="Per card",
    model=Report,
    text=_cards_text,
    json=lambda report: map(to_json, report.cards),  # lazy: all rows of 10,000 cards take 40 MB
    csv=Csv(columns(Card), _card_rows),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The sum of a group's cards; times in ms of GPU time.

    ``name`` is ``None`` where unknown. ``cards`` counts MIG instances and GPUs that are not partitioned. ``ratio`` is
    observed / expected time, ``None`` if nothing was expected.
    """

    name: Annotated[str | None, AS_IS.named("group")]
    hosts: int
    cards: int
    expected_gpu_ms: Hours[float]
    observed_gpu_ms: Hours[float]
    unobserved_gpu_ms: Hours[float]
    ratio: Annotated[float | None, replace(RATIO, column="observed_ratio")]
    gaps: int
    states: ByState
    gpus: int
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouping:
    """All cards of a report in groups ``by`` host, model, cluster or a label's key."""

    by: str
    groups: tuple[Group, ...]


class Groupings(tuple[Grouping, ...]):
    """The requested groupings in the requested order, then by host if there are several hosts."""

    __slots__ = ()


BY_CLUSTER: Final = "cluster"
_DECIMALS: Final = 3


def needs_labels(by: Iterable[str]) -> bool:
    """Return whether the requested groups need the hosts' labels."""
    return any(one not in {BY_HOST, BY_MODEL} for one in by)


def check_by(by: Iterable[str], hosts: Iterable[str], labels: Labels) -> None:
    """Raise UsageError, listing the existing labels, for a group key that none of the hosts has."""
    among = {host: labels.get(host, {}) for host in hosts}
    for one in by:
        if one not in {BY_HOST, BY_MODEL}:
            check_key(_label(one), among)


def rollups(cards: Sequence[Card], by: Sequence[str], labels: Labels) -> tuple[Grouping, ...]:
    """Return the requested groupings, and the one by host if there are several hosts."""
    several = len({card.host for card in cards}) > 1
    every = dict.fromkeys([*by, *([BY_HOST] if several else [])])
    return tuple(rollup(cards, one, labels) for one in every)


def rollup(cards: Sequence[Card], by: str, labels: Labels) -> Grouping:
    """Return the cards grouped by ``by``: ``host``, ``model``, ``cluster`` or a label's key.

    Cards without a value are in the group ``None``.
    """
    values = {BY_HOST: lambda card: card.host, BY_MODEL: lambda card: card.model or card.name}
    groups = grouped(cards, values.get(by, lambda card: labels.get(card.host, {}).get(_label(by))))
    ordered = sorted(groups, key=lambda name: (name is None, name or ""))
    return Grouping(by=by, groups=tuple(group_of(name, groups[name]) for name in ordered))


def group_of(name: str | None, cards: Sequence[Card]) -> Group:
    """Return the sum of cards, rounded to 0.001 ms as the store's rows are."""
    return _added(
        name,
        cards,
        hosts=len({card.host for card in cards}),
        gpus=gpu_numbers(parts(cards))[0],
        cards=sum(card.mig != Mig.PARENT for card in cards),
    )


def added(groups: Sequence[Group]) -> Group:
    """Return the sum of groups without common cards; a host with cards in several groups counts in each."""
    return _added(
        None,
        groups,
        hosts=sum(group.hosts for group in groups),
        gpus=sum(group.gpus for group in groups),
        cards=sum(group.cards for group in groups),
    )


def _added(name: str | None, every: Sequence[Card] | Sequence[Group], *, hosts: int, gpus: int, cards: int) -> Group:
    expected_ms = _sum(one.expected_gpu_ms for one in every)
    observed_ms = _sum(one.observed_gpu_ms for one in every)
    return Group(
        name=name,
        hosts=hosts,
        gpus=gpus,
        cards=cards,
        expected_gpu_ms=expected_ms,
        observed_gpu_ms=observed_ms,
        ratio=observed_ms / expected_ms if expected_ms > 0 else None,
        unobserved_gpu_ms=_sum(one.unobserved_gpu_ms for one in every),
        gaps=sum(one.gaps for one in every),
        states={
            state: StateTime(
                gpu_ms=_sum(one.states[state].gpu_ms for one in every),
                card_ticks=sum(one.states[state].card_ticks or 0 for one in every),
            )
            for state in STATES
        },
        costs=added_by_state(one.costs for one in every),
    )


def _sum(values: Iterable[float]) -> float:
    """Return a sum independent of the order of its values, which have at most three decimals."""
    return round(math.fsum(values), _DECIMALS)


def _label(by: str) -> str:
    return CLUSTER_KEY if by == BY_CLUSTER else by


MOST_GROUPS: Final = 40
_NAME_WIDTH: Final = 40
_SHORTEST_NAME: Final = 12


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a table per key; above the limit only the groups with the longest idle time, the rest as one row."""
    for number, grouping in enumerate(report[Groupings]):
        if number:
            yield Heading(f"Per {style.name(grouping.by, _NAME_WIDTH)}")
        yield f"% of each {'host' if grouping.by == BY_HOST else 'group'}'s observed GPU-hours"
        shown = _shown(grouping, style)
        amounts = Amounts.of_report(report)
        costs = amounts.rows([wasted(group.costs) for _, group in shown])
        rows = Rows([(name, group, cost) for (name, group), cost in zip(shown, costs, strict=True)])
        rows.add(style.name(grouping.by, _NAME_WIDTH), lambda one: one[0], left=True, shortest=_SHORTEST_NAME)
        if grouping.by != BY_HOST:
            rows.add("hosts", lambda one: f"{one[1].hosts:,}", leaves=3)
        rows.add("GPUs", lambda one: f"{one[1].gpus:,}")
        rows.add(STATES, lambda one: percents(times(one[1].states)))
        rows.add(amounts.titles(WASTED, style.name), lambda one: one[2])
        rows.add("GPU-hours", lambda one: hours.of(one[1].observed_gpu_ms), leaves=1)
        rows.add("observed %", lambda one: percent(one[1].ratio), leaves=2)
        yield rows.table(bars=[group.states for _, group in shown])
        if len(shown) < len(grouping.groups):
            yield "others: those with less idle time; --json has every one."


def _shown(grouping: Grouping, style: Style) -> list[tuple[str, Group]]:
    """Return the groups that are shown, each with its name; the last one adds up all others if there are more."""
    most = MOST_GROUPS * style.times
    is_whole = len(grouping.groups) <= most
    shown, rest = most_idle(grouping.groups, lambda group: group.states, most if is_whole else most - 1)
    rows = [(known(group.name, style, _NAME_WIDTH), group) for group in shown]
    return [*rows, (plural(len(rest), "other"), added(rest))] if rest else rows


def _rows(groupings: Groupings, _report: Report) -> Iterator[Cells]:
    for grouping in groupings:
        for group in grouping.groups:
            yield from with_currencies({"by": grouping.by, **cells(group)}, group.costs, ("by", "group"))


GROUPS_SECTION = Section(
    name="groups",
    title=lambda report: f"Per {safe(report[Groupings][0].by, _NAME_WIDTH)}",
    model=Groupings,
    collect=lambda context: (
        lambda _headline, cards: Groupings(rollups(cards, context.request.groups_by, context.labels))
    ),
    text=_text,
    csv=Csv(("by", *columns(Group)), _rows),
)
