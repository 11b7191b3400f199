"""Price list of a store: read, write with one currency per model, and format as a table or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gua.core.durations import to_rfc3339
from gua.core.errors import UsageError
from gua.core.plaintext import aligned, few, safe
from gua.core.view import Count, View
from gua.prices.price import ModelPrice, PriceRow, check_currencies, known_model

if TYPE_CHECKING:
    from gua.store.database import Store

_NAMED: Final = 5
_WIDEST: Final = 60


class ModelRow(NamedTuple):
    """A GPU model and its number of cards in the store."""

    model: str
    cards: Count


PRICES: Final = View("prices", PriceRow)
MODELS: Final = View("models", ModelRow)


def put(
    store: Store, new: Sequence[ModelPrice], *, unseen: Callable[[str], None], change_currency: bool
) -> tuple[list[ModelPrice], list[PriceRow]]:
    """Write prices under the store's model names; return the written prices and all prices from before.

    First calls ``unseen`` with a message for each model that the store does not know. Raises UsageError for an
    ambiguous model, two prices of one moment, or, unless ``change_currency``, a second currency of a model.
    """
    there = prices(store)
    seen = models(store)
    known = dict.fromkeys((*seen, *(price.model for price in there)))
    new = [replace(price, model=known_model(price.model, known) or price.model) for price in new]
    if len({(price.model, price.valid_from_ms) for price in new}) < len(new):
        raise UsageError("two names of one model have a price from the same moment: leave one out")
    if not change_currency:
        check_currencies(there, new)
    for name in dict.fromkeys(price.model for price in new):
        if name not in known:
            others = f"it has seen {some(seen)}" if seen else "it has seen none at all yet"
            unseen(f"the store has never seen a card of the model {name!r}; {others}")
    write(store, new, removed=False)
    return new, there


def write(store: Store, written: Iterable[ModelPrice], *, removed: bool) -> None:
    """Insert rows into the table ``prices``; with ``removed``, rows that mark these prices as removed."""
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
    """Return all prices of a store, ordered by model and start of validity."""
    return PRICES.rows(store, {})


def models(store: Store) -> dict[str, int]:
    """Return the number of cards of each model in the store."""
    return {row.model: row.cards for row in MODELS.rows(store, {})}


def some(names: Iterable[str]) -> str:
    """Return the first five names in order, and the number of others, for a message; ``none`` if empty."""
    return few(sorted(names), _NAMED) or "none"


def to_json(rows: Sequence[PriceRow], models: Mapping[str, int]) -> str:
    """Return prices, and cards of models without a price, as a JSON object with the schema ``gua.prices/1``."""
    shown = [
        {
            "model": row.model,
            "currency": row.currency,
            "per_gpu_hour": row.per_gpu_hour,
            "valid_from": to_rfc3339(row.valid_from_ms),
            "valid_until": None if row.until_ms is None else to_rfc3339(row.until_ms),
            "source": row.source,
        }
        for row in rows
    ]
    unpriced = [{"model": model, "cards": count} for model, count in _unpriced(rows, models).items()]
    return json.dumps({"schema": "gua.prices/1", "prices": shown, "unpriced": unpriced}, indent=2) + "\n"


def to_text(rows: Sequence[PriceRow], models: Mapping[str, int]) -> str:
    """Return prices, and cards of models without a price, as a text table."""
    table = [("model", "per GPU-hour", "from", "until", "source")] + [
        (
            safe(row.model, _WIDEST),
            f"{row.per_gpu_hour:.10g} {safe(row.currency)}",
            row.since,
            "" if row.until_ms is None else to_rfc3339(row.until_ms),
            safe(row.source or "", _WIDEST),
        )
        for row in rows
    ]
    lines = aligned(table)
    if not rows:
        lines = ["there are no prices yet: set one with gua prices set MODEL PRICE --currency EUR"]
    unpriced = [f"{model} ({count})" for model, count in _unpriced(rows, models).items()]
    if unpriced:
        lines.append(safe(f"without a price (cards): {', '.join(unpriced)}"))
    return "".join(f"{line}\n" for line in lines)


def _unpriced(rows: Sequence[PriceRow], models: Mapping[str, int]) -> dict[str, int]:
    priced = {row.model for row in rows}
    return {model: count for model, count in models.items() if model not in priced}
