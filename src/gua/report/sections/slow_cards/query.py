"""Why cards were slow, and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gua.core.parameters import READ
from gua.core.view import Count, View
from gua.report.asking import Asking, Finish
from gua.report.questions import ask
from gua.report.sections.slow_cards.model import SlowCard, SlowCards


class SlowCardRow(NamedTuple):
    """A card: times in ms, errors that were told."""

    host: str
    gpu: str
    gpu_index: Count | None
    model: str | None
    observed_ms: Count
    told_ms: Count
    heat_ms: Count
    power_cap_ms: Count
    hardware_ms: Count
    slowed_ms: Count
    xid_errors: Count | None
    xid: Count | None
    ecc_errors: Count | None
    row_remap: Count | None


SLOW_CARDS_VIEW: Final = View("slow_cards", SlowCardRow, READ)


def slow_cards(asking: Asking) -> Finish:
    """Ask what each card's driver told."""
    answer = ask(asking.reader, SLOW_CARDS_VIEW, asking.read)
    return lambda _headline, _cards: slow_cards_of(answer())


def slow_cards_of(rows: Iterable[SlowCardRow]) -> SlowCards:
    """Return the rows of ``gua_report.slow_cards``, the most slowed first, then by their place."""
    found = [
        SlowCard(**{("index" if name == "gpu_index" else name): value for name, value in row._asdict().items()})
        for row in rows
    ]
    return SlowCards(cards=tuple(sorted(found, key=_order)))


def _order(card: SlowCard) -> tuple[object, ...]:
    errors = (card.xid_errors or 0) + (card.ecc_errors or 0)
    return (-card.slowed_ms, -errors, -card.power_cap_ms, card.host, card.index is None, card.index or 0, card.gpu)
