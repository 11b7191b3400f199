"""The prices of a store: read, written, and held to one currency a model.

The list of an embedded store as it was read last is kept in a file beside it: to read that takes no engine. Nobody has
to take it away. It says of which state of the tables' files it is, and of any other it is not taken.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gua.core.errors import GuaError, UsageError
from gua.core.view import Count, View
from gua.prices.price import ModelPrice, PriceRow, check_currencies, known_model
from gua.store.dsn import EmbeddedDsn
from gua.store.table_files import state_of

if TYPE_CHECKING:
    from gua.store.database import Store

FORM: Final = "gua.kept-prices/1"
"""Of the file and of the SQL that it answers for; a change of either raises the number."""

_FILE: Final = "prices.json"
_TABLES: Final = ("prices", "card_info", "card_seen")
_MOST_BYTES: Final = 16 * 2**20
_NAMED: Final = 5


class PriceList(NamedTuple):
    """The prices of a store, and how many cards of each model it has."""

    prices: Sequence[PriceRow]
    models: Mapping[str, int]


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


def listed(store: Store) -> PriceList:
    """Return prices and models of a store; an embedded one's are kept, so that the next who asks needs no engine."""
    if not isinstance(store.dsn, EmbeddedDsn):
        return PriceList(prices(store), models(store))
    path = store.dsn.path
    state = kept_state(path)
    found = PriceList(prices(store), models(store))
    # Parts that were merged meanwhile have the same rows; the next who asks keeps the list.
    if state is not None and state == kept_state(path):
        write_kept(path, state, found)
    return found


def keep(store: Store) -> None:
    """Keep the list of an embedded store that was changed. What is in the way is no fault of the change."""
    if store.is_embedded:
        with suppress(GuaError):
            listed(store)


def some(names: Iterable[str]) -> str:
    """Return some of the names for a message that stays short."""
    every = sorted(names)
    rest = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {rest} more" if rest > 0 else "") if every else "none"


def kept_state(store: Path) -> list[object] | None:
    """Return the state of the tables that the list is made of; ``None`` where it cannot be told."""
    return state_of(store, _TABLES)


def is_kept(store: Path) -> bool:
    """Return whether a list was kept beside a store, of whichever state."""
    return (store / _FILE).exists()


def read_kept(store: Path) -> PriceList | None:
    """Return the list of an embedded store as the engine would tell it now; ``None``: ask the engine."""
    try:
        descriptor = os.open(store / _FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_uid != store.stat().st_uid:
                return None
            text = file.read(_MOST_BYTES)
        checksum, _, body = text.partition(b"\n")
        if checksum != _checksum(body):
            return None
        said = json.loads(body)
        if said["form"] != FORM or said["state"] != kept_state(store):
            return None
        return PriceList(prices=[PriceRow(**row) for row in said["prices"]], models=dict(said["models"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_kept(store: Path, of_state: Sequence[object], found: PriceList) -> None:
    """Keep a list that was asked while the tables' state was ``of_state``, by the one process that has the store open.

    A list that cannot be kept, as on a full disk or beside another user's store, is asked for anew each time.
    """
    body = json.dumps(
        {
            "form": FORM,
            "state": of_state,
            "prices": [asdict(row) for row in found.prices],
            "models": found.models,
        }
    ).encode()
    new = store / f"{_FILE}.new"
    with suppress(OSError):
        if store.stat().st_uid != os.geteuid():
            return
        new.unlink(missing_ok=True)  # of a process that was killed, or a link
        try:
            # Not brought to the disk: after a crash of the machine no list is taken.
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_checksum(body) + b"\n" + body)
            new.replace(store / _FILE)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def _checksum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)
