"""Which card is meant: by its index, its UUID or how that begins; and an error that says which there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.errors import UsageError
from gua.core.plaintext import safe
from gua.core.view import Count, Moment
from gua.core.words import Mig

_MOST_NAMED: Final = 16
_LONGEST: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedCard:
    """A card of a host as the store knows it; moments in Unix ms, interval in ms, unknown is ``None``."""

    host: str
    gpu: str
    gpu_index: Count | None
    name: str | None
    mig: str | None
    parent: str | None
    driver_version: str | None
    pci: str | None
    source: str
    interval_ms: Count | None
    first_ms: Moment
    last_ms: Moment


# How a report names a card; a beginning of a UUID as short as an index is none.
_NUMBERED: Final = re.compile(r"(?:gpu[ -]?)?([0-9]{1,4})", re.ASCII | re.IGNORECASE)


def choose_card(cards: Sequence[ExplainedCard], text: str, *, at_ms: int) -> ExplainedCard:
    """Return the card that is meant. Raises UsageError where it is none of them, or could be several.

    An index, also as reports write it (``GPU 3``), is the card's of that moment where several had it one after the
    other, and the whole card's rather than those of its MIG instances. A UUID may be cut short, with or without its
    ``GPU-`` or ``MIG-``.
    """
    numbered = _NUMBERED.fullmatch(text.strip())
    wanted = numbered[1] if numbered else text.strip()
    found = [card for card in cards if numbered and card.gpu_index == int(wanted)]
    if found:
        found = _of_the_time(_whole(found), at_ms)
    elif wanted and not numbered:
        found = [card for card in cards if _begins(card.gpu, wanted)]
        found = [card for card in found if card.gpu.casefold() == wanted.casefold()] or found
    if len(found) == 1:
        return found[0]
    host = cards[0].host if cards else "that host"
    shown = safe(wanted, _LONGEST)
    if not found:
        msg = f"{host} has no card {shown!r}: there are {_named(cards)}"
        raise UsageError(msg)
    msg = f"{shown!r} may be any of {len(found)} cards of {host}: write more of its UUID, of {_named(found)}"
    raise UsageError(msg)


def _begins(uuid: str, wanted: str) -> bool:
    whole, asked = uuid.casefold(), wanted.casefold()
    return whole.startswith(asked) or whole.partition("-")[2].startswith(asked)


def _whole(cards: Sequence[ExplainedCard]) -> list[ExplainedCard]:
    return [card for card in cards if card.mig != Mig.INSTANCE] or list(cards)


def _of_the_time(cards: Sequence[ExplainedCard], at_ms: int) -> list[ExplainedCard]:
    return [card for card in cards if card.first_ms < at_ms <= card.last_ms] or list(cards)


def _named(cards: Sequence[ExplainedCard]) -> str:
    told = [
        f"{'-' if card.gpu_index is None else card.gpu_index} ({safe(card.gpu, _LONGEST)})"
        for card in cards[:_MOST_NAMED]
    ]
    rest = len(cards) - _MOST_NAMED
    return ", ".join(told) + (f" and {rest} more" if rest > 0 else "") if told else "none"
