"""Every card, a line each, with its split as a bar and as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gua.core.plaintext import safe
from gua.report.kit.bars import states_bar
from gua.report.kit.figures import NONE, HourFormat, percents, plural
from gua.report.kit.html_tables import BAR, NUMBER, HtmlColumn, state_columns, table
from gua.report.kit.markup import Markup, name, tag
from gua.report.model import Card, Report
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States

MOST_CARDS: Final = 256
Row = TypeVar("Row")


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


def shares(states: States) -> list[str]:
    """Return every state's percent of what was observed."""
    return percents([states[state].gpu_ms for state in STATES])


def idle_ms(states: States) -> float:
    """Return the GPU time in ms that stood idle, held or not."""
    return states[IDLE_HELD].gpu_ms + states[TRULY_IDLE].gpu_ms


def most(every: Sequence[Row], count: int, amount: Callable[[Row], float]) -> list[Row]:
    """Return the ``count`` largest by ``amount`` in the order in which they came."""
    if len(every) <= count:
        return list(every)
    largest = sorted(range(len(every)), key=lambda place: -amount(every[place]))[:count]
    return [every[place] for place in sorted(largest)]


def card_label(index: int | None, called: str | None, gpu: str, mig: str | None = None) -> Markup:
    """Return ``0 H100 80GB HBM3``; the UUID shows where one points."""
    shown = (called or gpu).removeprefix("NVIDIA ").removeprefix("GeForce ")
    if mig == "parent":
        shown = "unallocated MIG slices"
    number = NONE if index is None else str(index)
    return tag("span", tag("span", number, class_="index"), " ", name(shown, 28), title=safe(gpu, 80))
