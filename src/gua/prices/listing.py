"""The list of a store's prices: kept in a file beside an embedded store, as a table and as JSON.

To read the kept list takes no engine. Nobody has to take it away: it says of which state of the tables' files it is,
and of any other it is not taken.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from gua.core.durations import to_rfc3339
from gua.core.plaintext import cells, pad, safe
from gua.prices.price import PriceRow
from gua.store.table_files import state_of

FORM: Final = "gua.kept-prices/1"
"""Of the file and of the SQL that it answers for; a change of either raises the number."""

_FILE: Final = "prices.json"
_TABLES: Final = ("prices", "card_info", "card_seen")
_MOST_BYTES: Final = 16 * 2**20
_WIDEST: Final = 60


class PriceList(NamedTuple):
    """The prices of a store, and how many cards of each model it has."""

    prices: Sequence[PriceRow]
    models: Mapping[str, int]


def state(store: Path) -> list[object] | None:
    """Return the state of the tables that the list is made of; ``None`` where it cannot be told."""
    return state_of(store, _TABLES)


def is_there(store: Path) -> bool:
    """Return whether a list was kept beside a store, of whichever state."""
    return (store / _FILE).exists()


def read(store: Path) -> PriceList | None:
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
        if said["form"] != FORM or said["state"] != state(store):
            return None
        return PriceList(prices=[PriceRow(**row) for row in said["prices"]], models=dict(said["models"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(store: Path, of_state: Sequence[object], found: PriceList) -> None:
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


def to_json(rows: Sequence[PriceRow], models: Mapping[str, int]) -> str:
    """Return rows of ``gua_report.prices`` and cards by model as one object, schema ``gua.prices/1``."""
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
    """Return the same as a table for people."""
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
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(pad(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    if not rows:
        lines = ["there are no prices yet: set one with gua prices set MODEL PRICE --currency EUR"]
    unpriced = [f"{model} ({count})" for model, count in _unpriced(rows, models).items()]
    if unpriced:
        lines.append(safe(f"without a price (cards): {', '.join(unpriced)}"))
    return "".join(f"{line}\n" for line in lines)


def _unpriced(rows: Sequence[PriceRow], models: Mapping[str, int]) -> dict[str, int]:
    priced = {row.model for row in rows}
    return {model: count for model, count in models.items() if model not in priced}
