"""Amounts in columns: a currency each, zero is zero, and what has no price is not known."""

from __future__ import annotations

import pytest

from gua.report.costs import Cost
from gua.report.kit.amounts import Amounts


@pytest.mark.parametrize(
    ("cost", "cells"),
    [
        (Cost(amounts={"EUR": 1234.5}, unpriced_gpu_ms=9), ["1,234.50", "0.00"]),
        (Cost(amounts={"EUR": 0.001, "USD": 2}, unpriced_gpu_ms=0), ["<0.01", "2.00"]),
        (Cost(amounts={}, unpriced_gpu_ms=0), ["0.00", "0.00"]),
        (Cost(amounts={}, unpriced_gpu_ms=9), ["-", "-"]),
        (None, ["-", "-"]),
    ],
)
def test_a_cost_of_0_is_shown_if_a_price_exists(cost: Cost | None, cells: list[str]) -> None:
    amounts = Amounts(("EUR", "USD"))
    assert amounts.cells(cost) == cells
    assert Amounts(()).cells(cost) == []
