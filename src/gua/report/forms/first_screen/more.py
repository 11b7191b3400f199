"""The last line: the commands that go on from here, as they are typed for this host and its worst card."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gua.core.durations import to_rfc3339
from gua.report.forms.first_screen.heading import recorded_until_ms
from gua.report.forms.first_screen.lines import flow, uncut
from gua.report.kit.style import Style
from gua.report.kit.tables import shown_width
from gua.report.model import Card, Report
from gua.report.sections.money import price_command
from gua.report.states import IDLE_HELD


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The command that made a report, and what explains its cards; ``None`` where their store is gone.

    ``store`` is what names the store to other commands, ``None`` where nothing can be written into it.
    """

    report: str = "gua report"
    explain: str | None = "gua explain"
    store: str | None = ""
    then: str = ""


def more(report: Report, style: Style, steps: Steps) -> Iterator[str]:
    """Yield the commands."""
    told = [f"{steps.report} --full", f"{steps.report} --section what-if"]
    if steps.explain is not None and (card := worst(report)):
        words = [steps.explain, *map(shlex.quote, (card.host, _named(card, report)))]
        if not report.ends_now:
            words.append(to_rfc3339(recorded_until_ms(report) // 1000 * 1000))
        told.insert(1, " ".join(words))
    safe = [command for command in told if style.name(command) == command]
    if steps.then:
        safe.append(steps.then)
    items = [f"{command};" for command in safe[:-1]] + safe[-1:]
    items[0] = f"more: {items[0]}"
    if all(shown_width(item) <= style.width for item in items):
        yield from flow(items, style, indent=0, gap=" ")
        return
    for item in items:
        yield from typed(item, style)


def price_step(report: Report, style: Style, steps: Steps) -> Iterator[str]:
    """Yield the command that sets a price, where some card has none."""
    command = None if steps.store is None else price_command(report.cards)
    if command is not None:
        priced = any(cost.amounts for cost in (report.headline.costs or {}).values())
        head = "Some cards have no price" if priced else "To see its cost"
        yield from typed(f"{head}: {f'{command} {steps.store}'.rstrip()}", style)


def worst(report: Report) -> Card | None:
    """Return the card that wasted most."""
    return max(report.cards, key=lambda card: card.states[IDLE_HELD].gpu_ms, default=None)


def _named(card: Card, report: Report) -> str:
    """Return a card's index, or its UUID where another has that too: an instance, or who had it before or since."""
    alike = sum((one.host, one.index) == (card.host, card.index) for one in report.cards)
    return card.gpu if card.index is None or alike > 1 else str(card.index)


def typed(command: str, style: Style) -> Iterator[str]:
    """Yield a command, over several lines so that a shell takes them as one: half of it may mean something else."""
    if shown_width(command) <= style.width:
        yield command
        return
    *before, last = uncut(command, replace(style, width=style.width - 2), hanging=2)
    yield from (f"{line} \\" for line in before)
    yield last
