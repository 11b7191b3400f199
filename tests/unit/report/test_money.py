"""Costs and energy: rows of the views as the report's parts."""

from __future__ import annotations

import pytest

from gua.core.ports import Row
from gua.report.model import Card
from gua.report.prices import COSTS, Price, Prices
from gua.report.sections.energy import ENERGY, StateEnergy, energy_of
from gua.report.sections.money import Money, money
from gua.report.states import STATES, StateTime

HOUR_MS = 3_600_000


def card(gpu: str, model: str | None, *hours: float) -> Card:
    """Return a card with these GPU-hours by state."""
    states = {state: StateTime(gpu_ms=hour * HOUR_MS) for state, hour in zip(STATES, hours, strict=True)}
    return Card(
        host="a",
        gpu=gpu,
        index=0,
        name=None,
        model=model,
        mig="none",
        parent=None,
        expected_gpu_ms=0,
        observed_gpu_ms=0,
        unobserved_gpu_ms=0,
        gaps=0,
        states=states,
    )


def priced(gpu: str, price: int, *hours: float) -> Row:
    """Return a row of ``gua_report.costs`` with these GPU-hours by state."""
    names = [f"{state.replace('-', '_')}_us" for state in STATES]
    times = (round(hour * HOUR_MS * 1000) for hour in hours)
    return {"host": "a", "gpu": gpu, "price": price, **dict(zip(names, times, strict=True))}


PRICES = Prices.within(
    [
        Price("H100", "USD", 3.0, 2_000, None, None),
        Price("H100", "EUR", 2.5, 1_000, None, 2_000),
        Price("H100", "EUR", 2.0, 500, None, 1_000),
        Price("L4", "EUR", 0.0, 0, None, None),
        Price("H100", "EUR", 9.0, 100, None, 500),
        Price("H100", "EUR", 9.0, 9_000, None, None),
    ],
    since_ms=500,
    until_ms=9_000,
)
CARDS = [
    card("1", "H100", 1, 7, 7, 0),
    card("2", None, 1, 0, 0, 0),
    card("3", "A100", 0, 0, 0, 9),
    card("4", "L4", 0, 3, 0, 0),
]
ROWS = [
    priced("1", 4, 0, 1, 0, 0),
    priced("1", 3, 1, 2, 0, 0),
    priced("1", 2, 0, 4, 0, 0),
    priced("1", 0, 0, 0, 7, 0),
    priced("2", 0, 1, 0, 0, 0),
    priced("3", 0, 0, 0, 0, 9),
    priced("4", 1, 0, 3, 0, 0),
]


def found(prices: Prices = PRICES) -> Money:
    return money(COSTS.parsed(ROWS) if prices else [], CARDS, prices)


def test_only_prices_that_count_at_some_time_of_the_window_are_looked_at() -> None:
    assert [(row.model, row.valid_from_ms) for row in PRICES.rows] == [
        ("L4", 0),
        ("H100", 500),
        ("H100", 1_000),
        ("H100", 2_000),
    ]


def test_a_model_has_a_cost_in_each_currency_and_one_without_for_what_has_no_price() -> None:
    costs = found().costs
    assert [(one.model, one.currency) for one in costs] == [
        ("A100", None),
        ("H100", "EUR"),
        ("H100", "USD"),
        ("H100", None),
        ("L4", "EUR"),
        (None, None),
    ]
    _, euros, dollars, rest, free, _ = costs
    assert euros.states["idle-held"].gpu_ms == 6 * HOUR_MS
    assert euros.states["idle-held"].cost == 2 * 2.5 + 4 * 2.0
    assert rest.states["truly-idle"].unpriced_gpu_ms == 7 * HOUR_MS
    costs_by_state = {state: part.cost for state, part in dollars.states.items()}
    assert costs_by_state == {"active": 0, "idle-held": 3.0, "truly-idle": 0, "unknown": 0}
    assert not any(part.unpriced_gpu_ms for one in (euros, dollars) for part in one.states.values())
    # A price of 0 is a price.
    assert free.states["idle-held"].gpu_ms == 3 * HOUR_MS
    assert free.states["idle-held"].cost == 0


@pytest.mark.parametrize("prices", [PRICES, Prices()])
def test_priced_and_unpriced_time_together_is_all_there_was(prices: Prices) -> None:
    every = sum(one.states[state].gpu_ms for one in CARDS for state in STATES)
    costs = found(prices).costs
    assert (
        sum(one.states[state].gpu_ms + one.states[state].unpriced_gpu_ms for one in costs for state in STATES) == every
    )


def test_prices_come_in_the_order_in_which_they_count() -> None:
    assert [(one.model, one.currency, one.per_gpu_hour) for one in found().prices] == [
        ("L4", "EUR", 0.0),
        ("H100", "EUR", 2.0),
        ("H100", "EUR", 2.5),
        ("H100", "USD", 3.0),
    ]
    assert found(Prices()).prices == ()


def test_measured_and_estimated_energy_are_separate_and_every_state_is_listed() -> None:
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
