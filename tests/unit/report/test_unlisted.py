"""What no listed process had: what is left of the cards' time, but for what rounding leaves."""

from __future__ import annotations

import pytest

from gua.report.model import Headline
from gua.report.prices import Prices
from gua.report.sections.usage.by_parts import OwnerHoursRow, owners_of_parts
from gua.report.sections.usage.query import OwnerSpanRow, Whole, owners_of, usage_of
from gua.report.states import ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN, StateTime

NO_PRICES = Prices.within((), since_ms=0, until_ms=1)
LISTED_US = 20_000_000


@pytest.mark.parametrize(("left_us", "kinds"), [(2, ["listed"]), (1000, ["listed", "unlisted"])])
def test_what_rounding_leaves_of_ticks_that_are_cut_is_nobodys_memory(left_us: int, kinds: list[str]) -> None:
    states = dict.fromkeys((ACTIVE, TRULY_IDLE, UNKNOWN), StateTime(card_ticks=0, gpu_ms=0.0))
    states[IDLE_HELD] = StateTime(card_ticks=1, gpu_ms=(LISTED_US + left_us) / 1000)
    whole = Whole(headline=Headline(states=states, shares={}, equivalent_gpus={}), prices=NO_PRICES, priced={})
    row = OwnerSpanRow("ann", "python", 0, LISTED_US, 0, 20_000, 1, 0, 20_000, 20_000, (), ())
    assert [one.kind for one in owners_of([row], whole)] == kinds
    assert [one.kind for one in usage_of("owner", [row], whole).rows] == kinds
    parts = [
        OwnerHoursRow("listed", "ann", "python", 0, 0, LISTED_US, 0, 20_000),
        OwnerHoursRow("unlisted", None, None, 0, 0, left_us, 0, 0),
    ]
    assert [one.kind for one in owners_of_parts([lambda: parts], NO_PRICES)] == kinds
