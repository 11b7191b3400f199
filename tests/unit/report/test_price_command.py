"""The command that sets a price: ready to be typed into a shell, whatever a driver calls its cards."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from fakes.reports import HOSTILE, week_report
from gua.report.costs import Cost
from gua.report.model import Card
from gua.report.sections.money import price_command
from gua.report.states import STATES, StateTime

CARD = week_report().cards[0]


def card(model: str | None, held_ms: float = 1, *, currency: str | None = None) -> Card:
    amounts = {} if currency is None else {currency: 1.0}
    costs = {state: Cost(amounts=amounts, unpriced_gpu_ms=0) for state in STATES}
    states = {**CARD.states, "idle-held": StateTime(gpu_ms=held_ms)}
    return replace(CARD, name=None, model=model, states=states, costs=costs)


def test_it_names_the_model_that_wasted_most_without_a_price() -> None:
    cards = [
        card("NVIDIA L4", 3),
        card("NVIDIA H100 80GB HBM3", 2),
        card("NVIDIA H100 80GB HBM3", 2),
        card("A", 9, currency="EUR"),
    ]
    assert price_command(cards) == "gua prices set 'NVIDIA H100 80GB HBM3' 2.50 --currency EUR"


def test_the_price_command_is_none_if_every_card_has_a_price() -> None:
    assert price_command([card("A", currency="EUR"), card("B", currency="USD")]) is None
    assert price_command([]) is None


def test_without_any_price_cards_cost_nothing_known() -> None:
    assert price_command([replace(card("L4"), costs=None)]) == "gua prices set L4 2.50 --currency EUR"


@pytest.mark.parametrize("model", ["it's $(reboot); `x`", 'a "b" \\ c', "H100 && rm -rf /"])
def test_what_a_shell_would_take_for_its_own_is_quoted(model: str) -> None:
    command = price_command([card(model)])
    assert command is not None
    assert shlex.split(command)[3] == model


@pytest.mark.parametrize("model", [None, "", "--force", "-x", "H100\u202e", "H\x1b[31m", "ä", *HOSTILE])
def test_a_name_that_cannot_be_typed_as_it_stands_is_not_printed(model: str | None) -> None:
    assert price_command([card(model)]) == "gua prices set MODEL 2.50 --currency EUR"
    assert price_command([card(model, 9), card("L4")]) == "gua prices set L4 2.50 --currency EUR"
