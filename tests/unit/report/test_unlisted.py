"""What no listed process had: what is left of the cards' time, but for what rounding leaves."""

from __future__ import annotations

import pytest

from gua.report.prices import CostsRow, Price, PricedState, Prices
from gua.report.sections.usage import OwnerSpanRow, Whole, owners_of, usage_of
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, StateTime

PLACE = STATES.index(IDLE_HELD) + 1
NO_PRICES = Prices.within((), since_ms=0, until_ms=1)
LISTED_US = 20_000_000


@pytest.mark.parametrize(("left_us", "kinds"), [(2, ["listed"]), (1000, ["listed", "unlisted"])])
def test_a_rounding_rest_of_cut_ticks_is_not_memory_without_a_listed_process(left_us: int, kinds: list[str]) -> None:
    states = dict.fromkeys((ACTIVE, TRULY_IDLE, UNKNOWN), StateTime(card_ticks=0, gpu_ms=0.0))
    states[IDLE_HELD] = StateTime(card_ticks=1, gpu_ms=(LISTED_US + left_us) / 1000)
    whole = Whole.of([states], NO_PRICES, ())
    row = OwnerSpanRow("ann", "python", 0, LISTED_US, 0, 20_000, 1, 0, 20_000, 20_000, ())
    assert [one.kind for one in owners_of([row], whole)] == kinds
    assert [one.kind for one in usage_of("owner", [row], whole).rows] == kinds


def test_memory_without_a_listed_process_is_reported_per_host_and_adds_up() -> None:
    """Hosts a and b have 30 s and 50 s of idle-held time each, of which processes had 20 s and 0; c has none left."""
    prices = Prices((Price("A30", "EUR", 3.6, 0, None, None),))
    left = {"a": (30, 20), "b": (50, 0), "c": (7, 7)}
    states = {
        host: {state: StateTime(gpu_ms=every * 1000 if state == IDLE_HELD else 0) for state in STATES}
        for host, (every, _) in left.items()
    }
    costs = {host: CostsRow(host, "GPU-0", 1, 0, every * 1_000_000, 0, 0) for host, (every, _) in left.items()}
    rows = [
        OwnerSpanRow(host, None, 0, us, 0, us // 1000, 1, 0, 1, None, (PricedState(1, PLACE, us),))
        for host, us in ((host, listed * 1_000_000) for host, (_, listed) in left.items())
        if us
    ]
    groups = {host: Whole.of([states[host]], prices, [costs[host]]) for host in left}
    found = usage_of("host", rows, Whole.of(states.values(), prices, costs.values()), groups).rows
    by_name = {(one.kind, one.name): (one.gpu_ms, one.costs[IDLE_HELD].amounts["EUR"]) for one in found if one.costs}
    assert by_name == {
        ("unlisted", "b"): (50_000, pytest.approx(0.05)),
        ("listed", "a"): (20_000, pytest.approx(0.02)),
        ("unlisted", "a"): (10_000, pytest.approx(0.01)),
        ("listed", "c"): (7_000, pytest.approx(0.007)),
    }
    assert sum(one.share or 0 for one in found) == pytest.approx(1)
    assert {one.sessions for one in found if one.kind == "unlisted"} == {None}
