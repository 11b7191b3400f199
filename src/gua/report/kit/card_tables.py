"""A table with a line a card: the first ones, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from gua.report.kit.figures import plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Part, Table, TableColumn
from gua.report.kit.words import NAME_WIDTH, card_name, index
from gua.report.model import Report

MOST_CARDS: Final = 24
_HOST: Final = TableColumn(title="host", left=True, shortest=8)
_CARD: Final = (TableColumn(title="gpu"), TableColumn(title="name", left=True, shortest=8))


class SomeCard(Protocol):
    """What names a card."""

    @property
    def host(self) -> str:
        """The host that it is in."""
        ...

    @property
    def gpu(self) -> str:
        """Its UUID."""
        ...

    @property
    def index(self) -> int | None:
        """Its index on the host."""
        ...

    @property
    def model(self) -> str | None:
        """What the driver calls it."""
        ...


def card_table(
    report: Report,
    style: Style,
    section: str,
    columns: Sequence[TableColumn],
    cards: Sequence[tuple[SomeCard, Sequence[str]]],
) -> Iterator[Part]:
    """Yield the first of the cards, with their host where there are several, and where the others of ``section`` are.

    ``columns`` and the cells of each card are what follows its name.
    """
    several = len(report.hosts) > 1
    shown = cards[: MOST_CARDS * style.times]
    yield Table(
        columns=[*([_HOST] if several else []), *_CARD, *columns],
        rows=[
            [
                *([style.name(card.host, NAME_WIDTH)] if several else []),
                index(card.index, card.gpu, style),
                card_name(card.model, card.gpu, style),
                *cells,
            ]
            for card, cells in shown
        ],
        heads=2 + several,
    )
    if len(cards) > len(shown):
        yield f"and {plural(len(cards) - len(shown), 'more card')}: --csv {section} has every one."
