"""Prices of GPU time as people write and read them: what may be one, what fits beside others, and their table."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from gua.core.durations import to_rfc3339
from gua.core.errors import UsageError
from gua.core.moments import parse_moment_ms
from gua.core.plaintext import cells, pad, safe

ALWAYS_MS: Final = 0
"""Valid from ever, as 1970."""

_HOUR_MS: Final = 3_600_000
_LAST_MS: Final = 4_294_965_600_000  # where the column's time ends, in 2106
_WIDEST: Final = 60
_MOST: Final = 1e9
_AMOUNT: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}", re.ASCII)
_MAKER: Final = re.compile(r"^(nvidia\s+)?(geforce\s+)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPrice:
    """What an hour of a whole GPU of a model costs from a moment on (Unix ms, a whole UTC hour)."""

    model: str
    currency: str
    per_gpu_hour: float
    valid_from_ms: int
    source: str | None = None

    @property
    def since(self) -> str:
        """Return from when on it counts, for people."""
        return "the beginning" if self.valid_from_ms == ALWAYS_MS else to_rfc3339(self.valid_from_ms)

    def __str__(self) -> str:
        said = f" ({self.source})" if self.source else ""
        return f"{self.model}: {self.per_gpu_hour:.10g} {self.currency} per GPU-hour from {self.since}{said}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceRow(ModelPrice):
    """A price as the store has it: ``until_ms`` is when the next one of its model begins (Unix ms)."""

    until_ms: int | None


def parse_amount(text: str) -> float:
    """Return a price: 0 or more, with a point for decimals. Raises UsageError."""
    found = _AMOUNT.fullmatch(text.strip())
    amount = float(text) if found else math.nan
    if not amount <= _MOST:  # also what is no number
        msg = f"{text!r} is no price: write a number from 0 to 1000000000, with a point for decimals, as in 2.49"
        raise UsageError(msg)
    return amount


def parse_currency(text: str) -> str:
    """Return an ISO 4217 code in capitals. Raises UsageError."""
    if not _CURRENCY.fullmatch(text.strip()):
        msg = f"{text!r} is no currency: write three letters as in ISO 4217, EUR or USD"
        raise UsageError(msg)
    return text.strip().upper()


def parse_valid_from(text: str, *, now_ms: int) -> int:
    """Return from when a price counts, as Unix ms; a time without an offset is UTC. Raises UsageError.

    Counted hours are priced whole, so only the start of a UTC hour will do.
    """
    moment_ms = parse_moment_ms(text, now_ms=now_ms, timezone=UTC)
    if moment_ms % _HOUR_MS:
        before_ms = moment_ms - moment_ms % _HOUR_MS
        msg = f"a price begins with a UTC hour, and {text!r} is {to_rfc3339(moment_ms)}: write {to_rfc3339(before_ms)}"
        raise UsageError(msg)
    if not ALWAYS_MS <= moment_ms <= _LAST_MS:
        msg = f"a price begins between 1970 and 2106, not at {to_rfc3339(moment_ms)}"
        raise UsageError(msg)
    return moment_ms


def known_model(name: str, known: Iterable[str]) -> str | None:
    """Return the model of a store that ``name`` means, ``None`` if none. Raises UsageError if several fit.

    Reports leave the maker's name out, so h100 pcie is NVIDIA H100 PCIe.
    """
    models = list(known)
    if name in models:
        return name
    fitting = [model for model in models if _plain(model) == _plain(name)]
    if len(fitting) > 1:
        msg = f"{name!r} may be {' or '.join(map(repr, sorted(fitting)))}: write one of them in full"
        raise UsageError(msg)
    return fitting[0] if fitting else None


def check_currencies(there: Iterable[ModelPrice], new: Sequence[ModelPrice]) -> None:
    """Raise UsageError if a model would have prices in several currencies: its costs could not be added up."""
    first: dict[str, ModelPrice] = {}
    # Also beside a price that would be replaced: nobody should change a currency by a slip.
    for price in (*there, *new):
        other = first.setdefault(price.model, price)
        if other.currency != price.currency and price in new:
            msg = (
                f"{price.model} has a price in {other.currency} from {other.since}, this one is in {price.currency}: "
                "its costs would be in two currencies; give --change-currency if that is meant"
            )
            raise UsageError(msg)


def _plain(model: str) -> str:
    return " ".join(_MAKER.sub("", model.strip()).split()).casefold()


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
