"""Each card in one line, the one that wasted most first; of many cards on several hosts each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.costs import wasted
from gua.report.forms.first_screen.ask import when
from gua.report.forms.first_screen.lines import places, rows
from gua.report.kit.amounts import Amounts
from gua.report.kit.figures import NONE, HourFormat, at_least, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, card_name
from gua.report.model import Card, Report
from gua.report.sections.groups import Group, Groupings, added
from gua.report.sections.now_rows import SILENT, CardNow, Now
from gua.report.states import IDLE_HELD, STATES
from gua.report.window import BY_HOST

MOST_CARDS: Final = 10
MOST_HOSTS: Final = 8
_HOURS: Final = tuple(TableColumn(title=state) for state in STATES)
_MODEL: Final = TableColumn(title="model", left=True, shortest=6, leaves=2)


def cards(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the GPU-hours of each card by state, with what it does now and for how long; of many those of the hosts."""
    shown = sorted(report.cards, key=lambda card: -card.states[IDLE_HELD].gpu_ms)
    if len(shown) <= MOST_CARDS:
        yield from rows(_table(report, shown, style, hours), style)
    elif len(hosts := _hosts(report)) > 1:
        yield from rows(_table_of_hosts(report, hosts, style, hours), style)
    else:
        yield from rows(_table(report, shown[: MOST_CARDS - 1], style, hours), style)
        rest = len(shown) - MOST_CARDS + 1
        yield from style.wrap(f"and {rest:,} more with less idle-held time: --section cards")


def _hosts(report: Report) -> Sequence[Group]:
    return next((one.groups for one in report.get(Groupings) or () if one.by == BY_HOST), ())


def _table_of_hosts(report: Report, hosts: Sequence[Group], style: Style, hours: HourFormat) -> Table:
    worst = sorted(hosts, key=lambda host: -host.states[IDLE_HELD].gpu_ms)
    shown = [(style.name(host.name or "", NAME_WIDTH), host) for host in worst]
    if len(shown) > MOST_HOSTS + 1:
        rest = worst[MOST_HOSTS:]
        shown = [*shown[:MOST_HOSTS], (plural(len(rest), "other host"), added(rest))]
    found = report.get(Now)
    held = Counter(one.host for one in found.by_card if one.state == IDLE_HELD) if found else None
    now = [] if held is None else [TableColumn(title=f"idle-held {when(report)}")]
    money = Amounts.of_report(report)
    costs = money.rows([wasted(host.costs) for _, host in shown], 0)
    return Table(
        columns=[
            TableColumn(title="GPU-hours of", left=True, shortest=12),
            TableColumn(title="GPUs"),
            *_HOURS,
            *_costs(money, style),
            *now,
        ],
        rows=[
            [
                name,
                f"{host.gpus:,}",
                *_hours(host, hours),
                *cost,
                *([] if held is None else [_held(host, held)]),
            ]
            for (name, host), cost in zip(shown, costs, strict=True)
        ],
    )


def _costs(money: Amounts, style: Style) -> list[TableColumn]:
    return [TableColumn(title=title, leaves=1) for title in money.titles("", style.name)]


def _held(host: Group, held: Counter[str]) -> str:
    return "" if host.name is None else f"{held[host.name]:,}"


def _table(report: Report, shown: Sequence[Card], style: Style, hours: HourFormat) -> Table:
    found = report.get(Now)
    newest = {} if found is None else {(one.host, one.gpu): one for one in found.by_card}
    where, money = places(report, style), Amounts.of_report(report)
    now = (TableColumn(title=when(report), left=True), TableColumn(title="for")) if newest else ()
    return Table(
        columns=[TableColumn(title="GPU-hours of", left=True), *now, *_HOURS, *_costs(money, style), _MODEL],
        rows=[
            [
                where(card.host, card.gpu),
                *(_now(newest.get((card.host, card.gpu))) if newest else ()),
                *_hours(card, hours),
                *money.cells(wasted(card.costs), 0),
                card_name(card.name, card.gpu, style).partition(" MIG ")[0],
            ]
            for card in shown
        ],
    )


def _now(one: CardNow | None) -> list[str]:
    if one is None:
        return ["", ""]
    if one.state == SILENT or one.in_state_ms is None:
        return [one.state, ""]
    return [one.state, at_least(one.in_state_ms, is_lower_bound=one.is_lower_bound)]


def _hours(one: Card | Group, hours: HourFormat) -> list[str]:
    written = hours.parts([one.states[state].gpu_ms for state in STATES])
    return [NONE if not one.observed_gpu_ms else part for part in written]
