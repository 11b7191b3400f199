"""Groups and cards: a line each, with its split as a bar and as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gua.core.plaintext import safe
from gua.report.kit.bars import states_bar
from gua.report.kit.figures import NONE, HourFormat, percent, percents, plural
from gua.report.kit.html_tables import BAR, NUMBER, Column, state_columns, table
from gua.report.kit.markup import Markup, join, name, tag
from gua.report.model import Card, Group, Report, Rollup
from gua.report.sections.groups.text import NOT_TOLD
from gua.report.states import IDLE_HELD, STATES, TRULY_IDLE, States

MOST_GROUPS: Final = 100
MOST_CARDS: Final = 256
Row = TypeVar("Row")


def groups(report: Report, hours: HourFormat) -> Markup | None:
    """Return a table a rollup; ``None`` where cards are in no groups."""
    if not report.rollups:
        return None
    first, *others = report.rollups  # the section's title says by what the first one is
    return join(
        [
            _rollup(first, hours),
            *(join([tag("h3", "Per ", name(rollup.by)), _rollup(rollup, hours)]) for rollup in others),
        ]
    )


def cards(report: Report, hours: HourFormat) -> Markup:
    """Return every card with its split; where there are very many, those that stood idle longest."""
    shown = most(report.cards, MOST_CARDS, lambda card: idle_ms(card.states))
    columns = [
        Column("card"),
        Column("host"),
        Column("", BAR),
        *state_columns(),
        Column("observed GPU-hours", NUMBER),
        Column("unobserved", NUMBER, "n"),
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


def _rollup(rollup: Rollup, hours: HourFormat) -> Markup:
    shown = most(rollup.groups, MOST_GROUPS, lambda group: idle_ms(group.states))
    rest = len(rollup.groups) - len(shown)
    columns = [
        Column(safe(rollup.by, 40)),
        Column("hosts", NUMBER),
        Column("cards", NUMBER),
        Column("", BAR),
        *state_columns(),
        Column("GPU-hours", NUMBER),
        Column("observed %", NUMBER, "n"),
    ]
    return table(
        "% of what was observed of each; the bar is of all expected time",
        columns,
        [_group(group, hours) for group in shown],
        note=f"And {plural(rest, 'more')} with less idle time; --json has every one." if rest else None,
    )


def _group(group: Group, hours: HourFormat) -> list[str]:
    return [
        NOT_TOLD if group.name is None else name(group.name, 32),
        f"{group.hosts:,}",
        f"{group.cards:,}",
        states_bar(group.states, unobserved_ms=group.unobserved_gpu_ms),
        *shares(group.states),
        hours.of(group.observed_gpu_ms),
        percent(group.ratio),
    ]


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
        shown = f"rest of {shown}"
    number = NONE if index is None else str(index)
    return tag("span", tag("span", number, class_="index"), " ", name(shown, 28), title=safe(gpu, 80))
