"""Prices as an embedded store keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gua.prices import book
from gua.prices.book import ModelPrice, PriceRow
from gua.store.database import open_store

pytestmark = pytest.mark.engine


def test_every_field_of_a_price_is_read_back(tmp_path: Path, made_store: Callable[[Path], str]) -> None:
    given = ModelPrice(model="H100", currency="EUR", per_gpu_hour=2.49, valid_from_ms=3_600_000, source="contract 12")
    with open_store(made_store(tmp_path / "store")) as store:
        book.write(store, [given, replace(given, valid_from_ms=7_200_000, source=None)], removed=False)
        assert book.prices(store) == [
            PriceRow(**asdict(given), until_ms=7_200_000),
            PriceRow(**asdict(replace(given, valid_from_ms=7_200_000, source=None)), until_ms=None),
        ]
