"""Free now: the cards that nothing holds and nobody was promised, the longest free first; and those that look so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gua.core.words import Use
from gua.report.answers import Answers
from gua.report.forms.first_screen.ask import when
from gua.report.forms.first_screen.lines import Places, places
from gua.report.kit.basis import since
from gua.report.kit.figures import at_least
from gua.report.kit.style import Style
from gua.report.kit.words import NOT_KNOWN
from gua.report.model import Report
from gua.report.sections.allocation import allocation_name
from gua.report.sections.now_rows import FreeCard, PromisedCard

MOST_FREE: Final = 4
MOST_PROMISED: Final = 2
_NAME_WIDTH: Final = 14
NOT_LOOKED_AT: Final = "Allocation is not looked at: it may be promised to somebody."


def free(report: Report, told: Answers, style: Style, *, brief: bool = False) -> Iterator[str]:
    """Yield the free cards as a sentence, and whether anybody asked to whom they are promised.

    Then those that nothing holds either, and that are promised or may be; nothing where nobody looked.
    """
    if told.free is None:
        return
    where = places(report, style)
    first, *others = sentences(report, told, where, style)
    yield from style.wrap(f"{first}{_counted(told)}" if brief else " ".join([first, *others]), indent=0)


def sentences(report: Report, told: Answers, where: Places, style: Style) -> Iterator[str]:
    """Yield what is free, what is promised and held by nothing, and of what that is not known."""
    if not told.free:
        yield f"Free {when(report)}: none."
    else:
        shown = [
            f"{where(one.host, one.gpu)} for {at_least(one.free_ms, is_lower_bound=one.is_lower_bound)}"
            for one in told.free[:MOST_FREE]
        ]
        yield f"Free {when(report)}: {_listed(shown, len(told.free))}. {promised_to(told.free)}"
    if told.promised:
        cards = _by_card(told.promised)
        most = MOST_PROMISED if len(report.hosts) == 1 else 1  # there the names are longer
        promised = [_promised(report, of_card, where, style) for of_card in cards[:most]]
        yield f"Not free: {_listed(promised, len(cards), '; ')}."
    if told.maybe_promised:
        names = [where(one.host, one.gpu) for one in told.maybe_promised[:MOST_FREE]]
        yield f"Not known whether promised: {_listed(names, len(told.maybe_promised))}."


def _counted(told: Answers) -> str:
    """Return how many cards look free and are not, or may not be."""
    promised, maybe = len(_by_card(told.promised)), len(told.maybe_promised)
    parts = [
        *([f"{promised:,} that nothing holds {'is' if promised == 1 else 'are'} promised"] if promised else []),
        *([f"of {maybe:,} that is not known"] if maybe else []),
    ]
    return f" {', '.join(parts).capitalize()}." if parts else ""


def promised_to(cards: Sequence[FreeCard]) -> str:
    """Return whether anybody was promised free cards, as far as somebody looked."""
    unlooked = sum(one.allocation is None for one in cards)
    if unlooked == len(cards):
        return NOT_LOOKED_AT
    if unlooked:
        return f"Of {unlooked:,} of them allocation is not looked at; nobody was promised the others."
    return "Nobody was promised it." if len(cards) == 1 else "Nobody was promised them."


def _listed(shown: Iterable[str], total: int, between: str = ", ") -> str:
    every = list(shown)
    rest = total - len(every)
    return between.join(every) + (f"{between.rstrip(', ')} and {rest:,} more" if rest else "")


def _by_card(promised: Sequence[PromisedCard]) -> list[list[PromisedCard]]:
    """Return the allocations of each card, first the cards on which nobody is, the longest first."""
    cards: dict[tuple[str, str], list[PromisedCard]] = {}
    for one in promised:
        cards.setdefault((one.host, one.gpu), []).append(one)

    def order(of_card: Sequence[PromisedCard]) -> tuple[bool, int]:
        empty = [one.in_use_ms for one in of_card if one.use == Use.EMPTY]
        return (not empty, -max(empty, default=0))

    return sorted(cards.values(), key=order)


def _owner(one: PromisedCard, style: Style) -> str:
    return NOT_KNOWN if one.owner is None else style.name(one.owner, _NAME_WIDTH)


def _promised(report: Report, of_card: Sequence[PromisedCard], where: Places, style: Style) -> str:
    """Return ``GPU 3, promised to alice (slurm 1234), nobody there since 09:10``."""
    first, rest = of_card[0], len(of_card) - 1
    text = (
        f"{where(first.host, first.gpu)}, promised to {_owner(first, style)} "
        f"({allocation_name(first, style, _NAME_WIDTH)})"
        f"{f' and {rest:,} more' if rest else ''}"
    )
    if all(one.use == Use.EMPTY for one in of_card):
        before = "before " if first.is_lower_bound else ""
        return f"{text}, nobody there since {before}{since(first.use_since_ms, report.window)}"
    return text
