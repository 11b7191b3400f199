"""When a report makes streaks: unasked up to a size, asked always, of ticks as far as memory goes."""

from __future__ import annotations

import pytest

from fakes.store import extent
from gua.core.errors import UnavailableError
from gua.report.collect import _need_streaks
from gua.report.hours import Hour
from gua.report.model import Extent
from gua.report.section_list import default_sections
from gua.report.streak_limit import MOST_CARD_HOURS, MOST_TICKED, skipped
from gua.report.window import ReportRequest


def counted(hours: int) -> list[Hour]:
    return [Hour(hour=hour, is_counted=True, card_ticks=120) for hour in range(hours)]


def cards(number: int) -> list[Extent]:
    return [Extent(**extent("node-1", cards=number))]


def needed(*sections: str, by: tuple[str, ...] = (), if_cheap: frozenset[str] = frozenset()) -> list[str]:
    request = ReportRequest(now_ms=0, by=by, if_cheap=if_cheap)
    return _need_streaks(request, frozenset(sections or default_sections()))


def test_unasked_up_to_a_number_of_card_hours() -> None:
    most = MOST_CARD_HOURS // 100

    assert needed() == []
    assert skipped(counted(most), cards(100), []) is None
    assert skipped(counted(most + 1), cards(100), []) == MOST_CARD_HOURS + 100


@pytest.mark.parametrize("section", ["now", "streaks", "what-if", "contention"])
def test_of_any_fleet_where_a_section_is_asked_for(section: str) -> None:
    assert needed(section) == [section]
    assert needed(section, if_cheap=frozenset({section})) == []
    assert skipped(counted(720), cards(10_000), [section]) is None


def test_of_any_fleet_for_what_processes_are_added_up_by() -> None:
    assert needed(by=("owner",)) == ["owner"]


def test_ticks_that_are_too_many_are_left_out_unasked_and_refused_where_asked_for() -> None:
    waiting = [Hour(hour=1, is_counted=False, card_ticks=MOST_TICKED + 1)]

    assert skipped(waiting, cards(8), []) == 8
    with pytest.raises(UnavailableError, match=r"now: .* run gua rollup first"):
        skipped(waiting, cards(8), ["now"])
