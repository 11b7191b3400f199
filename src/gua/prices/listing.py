"""The list of a store's prices, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from gua.core.durations import to_rfc3339
from gua.core.plaintext import cells, pad, safe
from gua.prices.price import PriceRow

_WIDEST: Final = 60


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
