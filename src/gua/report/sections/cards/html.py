"""Every card, a line each, with its split as a bar and as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.report.kit.bars import states_bar
from gua.report.kit.figures import HourFormat, plural
from gua.report.kit.html_cards import card_label, idle_ms, most, shares
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table
from gua.report.kit.markup import Markup, name
from gua.report.model import Card, Report

MOST_CARDS: Final = 256


def cards(report: Report, hours: HourFormat) -> Markup:
    """Return every card with its split; where there are very many, those that stood idle longest."""
    shown = most(report.cards, MOST_CARDS, lambda card: idle_ms(card.states))
    columns = [
        HtmlColumn("card"),
        HtmlColumn("host"),
        HtmlColumn("", BAR),
        *state_columns(),
        HtmlColumn("observed GPU-hours", NUMBER),
        HtmlColumn("unobserved", NUMBER, "n"),
    ]
    rows = [
        (
            card_label(card.index, card.name or card.model, card.gpu, card.mig),
            name(card.host, 28),
            states_bar(card.states, unobserved_ms=card.unobserved_gpu_ms),
            *shares(card.states),
            hours.of(card.observed_gpu_ms),
            hours.of(card.unobserved_gpu_ms),
        )
        for card in shown
    ]
    return table(
        "% of each card's observed GPU-hours; the bar is of all expected time",
        columns,
        rows,
        note=_left_out(report.cards, shown, hours),
    )


def _left_out(every: Sequence[Card], shown: Sequence[Card], hours: HourFormat) -> str | None:
    if len(every) == len(shown):
        return None
    idle = sum(idle_ms(card.states) for card in every) - sum(idle_ms(card.states) for card in shown)
    return (
        f"{plural(len(every) - len(shown), 'card')} with less idle time left out, {hours.of(idle)} idle GPU-hours "
        "together; --json has every card."
    )
