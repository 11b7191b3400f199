"""Prices of models: parsed from options and CSV, and the price list of a store, with one currency per model."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gua.core.errors import DataError, UsageError
from gua.core.moments import HOUR_MS, parse_moment_ms, to_rfc3339
from gua.core.plaintext import aligned, few, safe
from gua.core.view import Count, View
from gua.state.named_file import read_named_file

ALWAYS_MS: Final = 0
"""Start of a price without a start date: 1970 (Unix ms)."""

NEEDED: Final = ("model", "currency", "per_gpu_hour")
OPTIONAL: Final = ("valid_from", "source")
_MOST_BYTES: Final = 16 * 2**20
_NAMES: Final = f"{','.join(NEEDED)}, and valid_from and source if wanted"
_LAST_MS: Final = 4_294_965_600_000  # last full hour of the column's type DateTime, in 2106
_MOST: Final = 1e9
_AMOUNT: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}", re.ASCII)
_MAKER: Final = re.compile(r"^(nvidia\s+)?(geforce\s+)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPrice:
    """Price of one GPU-hour of a model, valid from a full UTC hour on (Unix ms)."""

    model: str
    currency: str
    per_gpu_hour: float
    valid_from_ms: int
    source: str | None = None

    @property
    def since(self) -> str:
        """Return the start of validity as text: RFC 3339, or ``the beginning``."""
        return "the beginning" if self.valid_from_ms == ALWAYS_MS else to_rfc3339(self.valid_from_ms)

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"{self.model}: {self.per_gpu_hour:.10g} {self.currency} per GPU-hour from {self.since}{source}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceRow(ModelPrice):
    """A price from the store; ``until_ms`` is when the model's next price begins (Unix ms), ``None`` for the last."""

    until_ms: int | None
    source: str | None  # no default, so that View selects the column


def parse_amount(text: str) -> float:
    """Return a price from 0 to 1e9, with a decimal point. Raises UsageError for anything else."""
    amount = float(text) if _AMOUNT.fullmatch(text.strip()) else math.nan
    if not amount <= _MOST:  # also true for NaN
        msg = f"{text!r} is no price: write a number from 0 to 1000000000, with a point for decimals, as in 2.49"
        raise UsageError(msg)
    return amount


def parse_currency(text: str) -> str:
    """Return an ISO 4217 currency code in upper case. Raises UsageError for anything but three letters."""
    if not _CURRENCY.fullmatch(text.strip()):
        raise UsageError(f"{text!r} is no currency: write three letters as in ISO 4217, EUR or USD")
    return text.strip().upper()


def parse_valid_from(text: str, *, now_ms: int) -> int:
    """Return the start of a price's validity as Unix ms; a time without an offset is UTC.

    Raises UsageError unless it is a full UTC hour from 1970 to 2106: hourly rollups are priced as a whole.
    """
    moment_ms = parse_moment_ms(text, now_ms=now_ms, timezone=UTC)
    if moment_ms % HOUR_MS:
        before_ms = moment_ms - moment_ms % HOUR_MS
        msg = f"a price begins with a UTC hour, and {text!r} is {to_rfc3339(moment_ms)}: write {to_rfc3339(before_ms)}"
        raise UsageError(msg)
    if not ALWAYS_MS <= moment_ms <= _LAST_MS:
        raise UsageError(f"a price begins between 1970 and 2106, not at {to_rfc3339(moment_ms)}")
    return moment_ms


def known_model(name: str, known: Iterable[str]) -> str | None:
    """Return the model in ``known`` that ``name`` matches, ``None`` if none. Raises UsageError if several match.

    Case and the prefixes NVIDIA and GeForce are ignored: ``h100 pcie`` matches ``NVIDIA H100 PCIe``.
    """
    models = list(known)
    if name in models:
        return name
    fitting = [model for model in models if _plain(model) == _plain(name)]
    if len(fitting) > 1:
        raise UsageError(f"{name!r} may be {' or '.join(map(repr, sorted(fitting)))}: write one of them in full")
    return fitting[0] if fitting else None


def check_currencies(there: Iterable[ModelPrice], new: Sequence[ModelPrice]) -> None:
    """Raise UsageError if a model would have prices in several currencies: its costs would not add up."""
    first: dict[str, ModelPrice] = {}
    # Prices about to be replaced count, too: a currency must not change by mistake.
    for price in (*there, *new):
        other = first.setdefault(price.model, price)
        if other.currency != price.currency and price in new:
            raise UsageError(
                f"{price.model} has a price in {other.currency} from {other.since}, this one is in {price.currency}: "
                "its costs would be in two currencies; give --change-currency if that is meant"
            )


def _plain(model: str) -> str:
    return " ".join(_MAKER.sub("", model.strip()).split()).casefold()


def read_prices(path: Path, *, now_ms: int) -> list[ModelPrice]:
    """Return the prices of a CSV file with a header, in file order.

    Raises DataError with the line for an invalid price and for two prices of a model from the same moment.
    Raises UsageError if the path is not a file, and UnavailableError if it cannot be read.
    """
    prices: list[ModelPrice] = []
    lines: dict[tuple[str, int], int] = {}
    for line, price in _rows(path, now_ms):
        before = lines.setdefault((price.model, price.valid_from_ms), line)
        if before != line:
            raise DataError(f"{path}:{line}: {price.model} has a price from {price.since} in line {before} already")
        prices.append(price)
    if not prices:
        raise DataError(f"{path}: holds no price: write a header, {_NAMES}, and a line for each")
    return prices


def _rows(path: Path, now_ms: int) -> Iterator[tuple[int, ModelPrice]]:
    content, _ = read_named_file(path, _MOST_BYTES, f"a CSV file with the header {_NAMES}")
    with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        names: list[str] | None = None
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if names is None:
                    names = [cell.strip().lower() for cell in cells]
                    unknown = [name for name in names if name not in {*NEEDED, *OPTIONAL}]
                    if unknown or not {*NEEDED} <= {*names} or len({*names}) < len(names):
                        raise DataError(
                            f"{path}:{reader.line_num}: the header is {','.join(names)}: it must be {_NAMES}, each once"
                        )
                    continue
                yield reader.line_num, _price(path, reader.line_num, names, cells, now_ms)
        except UnicodeDecodeError:
            msg = f"{path}: after line {reader.line_num} it is not UTF-8 text: save it as CSV in UTF-8"
            raise DataError(msg) from None
        except csv.Error as error:
            raise DataError(f"{path}:{reader.line_num}: is not CSV ({error})") from None


def _price(path: Path, line: int, names: list[str], cells: list[str], now_ms: int) -> ModelPrice:
    if len(cells) != len(names):
        msg = f"{path}:{line}: has {len(cells)} cells, the header {len(names)}: put what holds a comma in quotes"
        raise DataError(msg)
    row = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
    if not row["model"]:
        raise DataError(f"{path}:{line}: names no model")
    try:
        return ModelPrice(
            model=row["model"],
            currency=parse_currency(row["currency"]),
            per_gpu_hour=parse_amount(row["per_gpu_hour"]),
            valid_from_ms=parse_valid_from(row["valid_from"], now_ms=now_ms) if row.get("valid_from") else ALWAYS_MS,
            source=row.get("source") or None,
        )
    except UsageError as error:
        raise DataError(f"{path}:{line}: {error}") from None


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
