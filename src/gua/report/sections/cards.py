"""Section cards: one row per card with its time by state, as many columns as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from gua.core.words import Mig
from gua.report.costs import wasted, with_currencies
from gua.report.kit.amounts import WASTED, Amounts
from gua.report.kit.fields import Cells, cells, columns, to_json
from gua.report.kit.figures import NONE, HourFormat, percents
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Rows, most_idle
from gua.report.kit.words import LEFT_OVER, short_name
from gua.report.model import Card, Report
from gua.report.section import Csv, Section
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE

MOST_CARDS: Final = 100
MOST_OF_A_FLEET: Final = 24  # section groups lists its hosts
_NAME_WIDTH: Final = 30
_ID_WIDTH: Final = 13


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield a row per card; above the limit only the cards with the longest idle time."""
    most = (MOST_CARDS if len(report.hosts) == 1 else MOST_OF_A_FLEET) * style.times
    shown, left_out = most_idle(report.cards, lambda card: card.states, most)
    amounts = Amounts.of_report(report)
    # Cards of one host, index and name are shown with their UUID instead.
    counted = Counter((card.host, card.index, _name(card)) for card in shown)
    twins = {label for label, count in counted.items() if count > 1}
    yield "% of each card's observed GPU-hours"
    rows = Rows(shown)
    if len(report.hosts) > 1:
        rows.add("host", lambda card: style.name(card.host, _NAME_WIDTH), left=True, shortest=8, is_head=True)
    rows.add("gpu", lambda card: NONE if card.index is None else str(card.index), is_head=True)

    def label(card: Card) -> str:
        name = _name(card)
        return style.name(card.gpu if not name or (card.host, card.index, name) in twins else name, _NAME_WIDTH)

    rows.add("name", label, left=True, shortest=8, is_head=True)
    rows.add("uuid", lambda card: style.name(card.gpu, _ID_WIDTH), left=True, leaves=2)
    rows.add(STATES, lambda card: percents([card.states[state].gpu_ms for state in STATES]))
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


def _name(card: Card) -> str:
    name = short_name(card.name or card.model or "")
    if card.mig == Mig.PARENT:
        return LEFT_OVER
    if card.mig == Mig.INSTANCE:
        _, profile, slices = name.partition("MIG ")
        return profile + slices if slices else f"MIG of {name}" if name else "MIG"
    return name


def _rows(report: Report, _report: Report) -> Iterator[Cells]:
    for card in report.cards:
        yield from with_currencies(cells(card), card.costs, ("host", "gpu", "index", "name"))


CARDS_SECTION = Section(
    name="cards",
    title="Per card",
    model=Report,
    text=_text,
    json=lambda report: map(to_json, report.cards),  # lazy: all rows of 10,000 cards take 40 MB
    csv=Csv(columns(Card), _rows),
)
