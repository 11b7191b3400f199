"""When a report makes streaks: unasked up to a size, asked always, of ticks as far as memory goes."""

from __future__ import annotations

import pytest

from fakes.store import extent
from gua.core.errors import UnavailableError
from gua.report import section_names
from gua.report.hours import Hour
from gua.report.model import Extent
from gua.report.sections.streaks.query import MOST_CARD_HOURS, MOST_TICKED, skipped

DEFAULT = frozenset(section_names.DEFAULT)


def counted(hours: int) -> list[Hour]:
    return [Hour(hour=hour, is_counted=True, card_ticks=120) for hour in range(hours)]


def cards(number: int) -> list[Extent]:
    return [Extent(**extent("node-1", cards=number))]


def test_unasked_up_to_a_number_of_card_hours() -> None:
    most = MOST_CARD_HOURS // 100

    assert skipped(counted(most), cards(100), DEFAULT, ()) is None
    assert skipped(counted(most + 1), cards(100), DEFAULT, ()) == MOST_CARD_HOURS + 100


@pytest.mark.parametrize(
    "section", [section_names.NOW, section_names.STREAKS, section_names.WHAT_IF, section_names.CONTENTION]
)
def test_of_any_fleet_where_a_section_is_asked_for(section: str) -> None:
    assert skipped(counted(720), cards(10_000), frozenset({section}), ()) is None


def test_of_any_fleet_for_parties() -> None:
    assert skipped(counted(720), cards(10_000), DEFAULT, ("owner",)) is None


def test_ticks_that_are_too_many_are_left_out_unasked_and_refused_where_asked_for() -> None:
    waiting = [Hour(hour=1, is_counted=False, card_ticks=MOST_TICKED + 1)]

    assert skipped(waiting, cards(8), DEFAULT, ()) == 8
    with pytest.raises(UnavailableError, match=r"now: .* run gua rollup first"):
        skipped(waiting, cards(8), frozenset({section_names.NOW}), ())
