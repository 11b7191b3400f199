"""Costs and energy: rows of the views as the report's parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from gua.core.ports import Row
from gua.report.sections.energy.model import StateEnergy
from gua.report.sections.energy.query import ENERGY, energy, energy_of
from gua.report.sections.money.query import COSTS, money, money_of
from gua.report.states import STATES

HOUR_MS = 3_600_000


def cost(model: str | None, currency: str | None, price: float | None, valid_from_ms: int | None, *hours: float) -> Row:
    """Return a row of ``gua_report.costs`` with these GPU-hours by state."""
    names = [state.replace("-", "_") for state in STATES]
    return {
        "model": model,
        "currency": currency,
        "per_gpu_hour": price,
        "valid_from_ms": valid_from_ms,
        "source": None,
        **{f"{name}_gpu_ms": hour * HOUR_MS for name, hour in zip(names, hours, strict=True)},
        **{f"{name}_cost": None if price is None else hour * price for name, hour in zip(names, hours, strict=True)},
    }


ROWS = [
    cost("H100", "USD", 3.0, 2_000, 0, 1, 0, 0),
    cost("H100", "EUR", 2.5, 1_000, 1, 2, 0, 0),
    cost("H100", "EUR", 2.0, 500, 0, 4, 0, 0),
    cost("H100", None, None, None, 0, 0, 7, 0),
    cost(None, None, None, None, 1, 0, 0, 0),
    cost("A100", None, None, None, 0, 0, 0, 9),
    cost("L4", "EUR", 0.0, 0, 0, 3, 0, 0),
]


def test_a_model_has_a_cost_in_each_currency_and_its_unpriced_time_once() -> None:
    found = money_of(COSTS.parsed(ROWS))
    assert [(one.model, one.currency) for one in found.costs] == [
        ("A100", None),
        ("H100", "EUR"),
        ("H100", "USD"),
        ("L4", "EUR"),
        (None, None),
    ]
    _, euros, dollars, free, _ = found.costs
    assert euros.gpu_ms["idle-held"] == 6 * HOUR_MS
    assert euros.cost["idle-held"] == 2 * 2.5 + 4 * 2.0
    assert euros.unpriced_gpu_ms["truly-idle"] == 7 * HOUR_MS
    assert dollars.cost == {"active": 0, "idle-held": 3.0, "truly-idle": 0, "unknown": 0}
    assert sum(dollars.unpriced_gpu_ms.values()) == 0
    # A price of 0 is a price.
    assert free.gpu_ms["idle-held"] == 3 * HOUR_MS
    assert free.cost["idle-held"] == 0


def test_priced_and_unpriced_time_together_is_all_there_was() -> None:
    every = sum(row[f"{state.replace('-', '_')}_gpu_ms"] for row in ROWS for state in STATES)
    found = money_of(COSTS.parsed(ROWS))
    assert sum(one.gpu_ms[state] + one.unpriced_gpu_ms[state] for one in found.costs for state in STATES) == every


def test_prices_come_in_the_order_in_which_they_count() -> None:
    assert [(one.model, one.currency, one.per_gpu_hour) for one in money_of(COSTS.parsed(ROWS)).prices] == [
        ("H100", "EUR", 2.0),
        ("H100", "EUR", 2.5),
        ("H100", "USD", 3.0),
        ("L4", "EUR", 0.0),
    ]


def test_measured_and_estimated_energy_stay_apart_and_every_state_is_told() -> None:
    rows: list[Row] = [
        {
            "host": "b",
            "gpu": "GPU-2",
            "gpu_index": None,
            "model": None,
            "states": [],
            "bare_watts": None,
            "held_watts": None,
            "added_joules": None,
        },
        {
            "host": "b",
            "gpu": "GPU-1",
            "gpu_index": 1,
            "model": "H100",
            "states": [("idle-held", 7_320_500, 60_000, 3_600_000, 30_000, 10)],
            "bare_watts": 72.0,
            "held_watts": 122.0,
            "added_joules": 3_000.0,
        },
    ]
    known, unknown = energy_of(ENERGY.parsed(rows)).cards
    assert known.states["idle-held"] == StateEnergy(
        measured_joules=7_320.5, measured_ms=60_000, estimated_joules=3_600, estimated_ms=30_000, unknown_ms=10
    )
    assert set(known.states) == set(unknown.states) == set(STATES)
    assert known.states["active"].measured_ms == 0
    assert (unknown.bare_watts, unknown.held_watts, unknown.added_joules) == (None, None, None)


@pytest.mark.parametrize(("view", "asking"), [("costs", money), ("energy", energy)])
def test_a_view_is_asked_with_what_the_report_reads(view: str, asking: object) -> None:
    class Store:
        is_concurrent = False

        def rows(self, asked: str, parameters: Mapping[str, object]) -> Iterable[Row]:
            assert (asked, parameters) == (view, read)
            return []

    read: dict[str, object] = {"since_ms": 1, "until_ms": 2, "hosts": [], "tick_hours": [-1], "use_hourly": 1}
    assert callable(asking)
    assert not any(vars_of(asking(Store(), read)()))


def vars_of(part: object) -> list[object]:
    return [getattr(part, name) for name in getattr(part, "__slots__", ())]
