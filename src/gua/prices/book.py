"""The prices of a store: read, written, and held to one currency a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gua.core.errors import UsageError
from gua.core.view import Count, View
from gua.prices.price import ModelPrice, PriceRow, check_currencies, known_model

if TYPE_CHECKING:
    from gua.store.database import Store

_NAMED: Final = 5


class ModelRow(NamedTuple):
    """A model, and how many cards of it the store has."""

    model: str
    cards: Count


PRICES: Final = View("prices", PriceRow)
MODELS: Final = View("models", ModelRow)


def put(
    store: Store, given: Sequence[ModelPrice], *, unseen: Callable[[str], None], change_currency: bool
) -> tuple[list[ModelPrice], list[PriceRow]]:
    """Write prices under the names that the store has; return them, and those that were there.

    ``unseen`` is told, before anything is written, of a model that the store never saw a card of. Raises UsageError for
    a name that several models have, and for a second currency of a model, unless ``change_currency``.
    """
    there = prices(store)
    found = models(store)
    known = dict.fromkeys((*found, *(price.model for price in there)))
    new = [replace(price, model=known_model(price.model, known) or price.model) for price in given]
    if len({(price.model, price.valid_from_ms) for price in new}) < len(new):
        msg = "two names of one model have a price from the same moment: leave one out"
        raise UsageError(msg)
    if not change_currency:
        check_currencies(there, new)
    for name in dict.fromkeys(price.model for price in new):
        if name not in known:
            seen = f"it has seen {some(found)}" if found else "it has seen none at all yet"
            unseen(f"the store has never seen a card of the model {name!r}; {seen}")
    write(store, new, removed=False)
    return new, there


def write(store: Store, written: Iterable[ModelPrice], *, removed: bool) -> None:
    """Write prices, or with ``removed`` take them back."""
    store.insert_json(
        "prices",
        [
            {
                "model": price.model,
                "valid_from": price.valid_from_ms // 1000,
                "currency": price.currency,
                "per_gpu_hour": price.per_gpu_hour,
                "source": price.source,
                "removed": removed,
            }
            for price in written
        ],
    )


def prices(store: Store) -> list[PriceRow]:
    """Return all prices of a store, by model and moment."""
    return PRICES.rows(store, {})


def models(store: Store) -> dict[str, int]:
    """Return how many cards of each model the store has."""
    return {row.model: row.cards for row in MODELS.rows(store, {})}


def some(names: Iterable[str]) -> str:
    """Return some of the names for a message that stays short."""
    every = sorted(names)
    rest = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {rest} more" if rest > 0 else "") if every else "none"
