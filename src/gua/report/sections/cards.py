"""Section cards: one row per card with its time by state, as many columns as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from gua.core.plaintext import pad
from gua.core.words import Mig
from gua.report.costs import wasted, with_currencies
from gua.report.kit.amounts import AMOUNT_WIDTH, WASTED, Amounts
from gua.report.kit.fields import Cells, cells, columns, to_json
from gua.report.kit.figures import NONE, HourFormat, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import STACKED_BELOW, Drawn, Part, Rows, Table, lay, most_idle
from gua.report.kit.words import LEFT_OVER, short_name
from gua.report.model import Card, Report
from gua.report.section import Csv, Section
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE

MOST_CARDS: Final = 100
MOST_OF_A_FLEET: Final = 24  # section groups lists its hosts
_NAME_WIDTH: Final = 30
_ID_WIDTH: Final = 13
_SHORTEST_NAME: Final = 12


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row per card; above the limit only the cards with the longest idle time."""
    shown, left_out = _shown(report, style)
    yield _SAYS
    yield _table(report, shown, style, hours)
    yield from _notes(shown, left_out, hours)


def _table(report: Report, shown: Sequence[Card], style: Style, hours: HourFormat, *, is_drawn: bool = False) -> Table:
    """Return the table of cards; for a terminal without the host column and with UUIDs of one width."""
    twins = _twins(shown)
    amounts = Amounts.of_report(report)
    rows = Rows(shown)
    if len(report.hosts) > 1 and not is_drawn:
        rows.add(
            "host",
            lambda card: style.name(card.host, _NAME_WIDTH),
            left=True,
            shortest=_SHORTEST_NAME,
            is_head=True,
        )
    rows.add("gpu", lambda card: NONE if card.index is None else str(card.index), is_head=True)
    rows.add("name", lambda card: _label(card, twins, style), left=True, shortest=_SHORTEST_NAME, is_head=True)
    id_width = _ID_WIDTH if is_drawn else 0
    rows.add("uuid", lambda card: pad(style.name(card.gpu, _ID_WIDTH), id_width), left=True, leaves=2)
    rows.add(STATES, lambda card: percents([card.states[state].gpu_ms for state in STATES]))
    rows.add(amounts.titles(WASTED, style.name), lambda card: amounts.cells(wasted(card.costs)))
    rows.add("observed", lambda card: hours.of(card.observed_gpu_ms), leaves=1)
    rows.add("unobserved", lambda card: hours.of(card.unobserved_gpu_ms), leaves=1)
    return rows.table(bars=[card.states for card in shown])


def _drawn(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a block of cards per host, with bars where space allows."""
    if style.width - AMOUNT_WIDTH * len(Amounts.of_report(report).currencies) < STACKED_BELOW:
        yield from _text(report, style, hours)
        return
    shown, left_out = _shown(report, style)
    (head, *rows), bar_width = lay(_table(report, shown, style, hours, is_drawn=True), style)
    legend = ", ".join(f"{style.fill[state]} {state}" for state in STATES)
    yield f"{_SAYS}; bar: {legend}" if bar_width else _SAYS
    yield Drawn(head)
    for host, group in groupby(zip(shown, rows, strict=True), key=lambda one: one[0].host):
        if len(report.hosts) > 1:
            yield style.name(host)
        yield from (Drawn(row) for _, row in group)
    yield from _notes(shown, left_out, hours)


_SAYS: Final = "% of each card's observed GPU-hours"


def _shown(report: Report, style: Style) -> tuple[list[Card], list[Card]]:
    most = (MOST_CARDS if len(report.hosts) == 1 else MOST_OF_A_FLEET) * style.times
    return most_idle(report.cards, lambda card: card.states, most)


def _notes(shown: Sequence[Card], left_out: Sequence[Card], hours: HourFormat) -> Iterator[str]:
    if left_out:
        idle = sum(card.states[IDLE_HELD].gpu_ms + card.states[TRULY_IDLE].gpu_ms for card in left_out)
        yield (
            f"and {len(left_out):,} more with less idle time, {hours.of(idle)} idle GPU-hours together; "
            "--json has every card."
        )
    if any(card.mig for card in shown if card.mig not in {None, Mig.NONE}):
        yield "MIG: an instance counts with its part of a GPU, and so do unallocated MIG slices, which are not a card."


def _twins(every: Sequence[Card]) -> set[tuple[str, int | None, str]]:
    """Return the (host, index, name) that several cards share; these are shown with their UUID instead."""
    counted = Counter((card.host, card.index, _name(card)) for card in every)
    return {label for label, count in counted.items() if count > 1}


def _name(card: Card) -> str:
    name = short_name(card.name or card.model or "")
    if card.mig == Mig.PARENT:
        return LEFT_OVER
    if card.mig == Mig.INSTANCE:
        _, profile, slices = name.partition("MIG ")
        return profile + slices if slices else f"MIG of {name}" if name else "MIG"
    return name


def _label(card: Card, twins: set[tuple[str, int | None, str]], style: Style) -> str:
    name = _name(card)
    if not name or (card.host, card.index, name) in twins:
        return style.name(card.gpu, _NAME_WIDTH)
    return style.name(name, _NAME_WIDTH)


def _rows(report: Report, _report: Report) -> Iterator[Cells]:
    for card in report.cards:
        yield from with_currencies(cells(card), card.costs, ("host", "gpu", "index", "name"))


CARDS_SECTION = Section(
    name="cards",
    title="Per card",
    model=Report,
    text=_text,
    drawn=_drawn,
    json=lambda report: map(to_json, report.cards),  # lazy: all rows of 10,000 cards take 40 MB
    csv=Csv(columns(Card), _rows),
)
