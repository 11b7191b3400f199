"""The strips of the timeline, on the page and in text, and the marks of its axis."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gua.report.kit.style import Style
from gua.report.sections.timeline import HEIGHT, CardTimeline, Timeline, line_of, marks, strip_of

HOUR_MS = 3_600_000
Cell = tuple[int, int, int, int]
ACTIVE: Cell = (HOUR_MS, 0, 0, 0)
HELD: Cell = (0, HOUR_MS, 0, 0)
NOTHING: Cell = (0, 0, 0, 0)


def strip(
    *cells: Cell, cells_a_column: int = 1, until_ms: int | None = None
) -> tuple[float, list[list[tuple[float, ...]]]]:
    """Return the width of a strip and its boxes (left, top, right, height) by state."""
    card = CardTimeline(host="h", gpu="g", index=0, card_name=None, cells=cells, holders=(), more_holders=0)
    drawn = Timeline(since_ms=0, until_ms=until_ms or len(cells) * HOUR_MS, cell_ms=HOUR_MS, cards=(card,))
    made = strip_of(card, drawn, cells_a_column)
    boxes = [
        [tuple(map(float, box)) for box in re.findall(r"M(\S+) (\S+)H(\S+?)v(\S+?)H\S+?z", path)] for path in made.paths
    ]
    return made.width, boxes


def text_line(*cells: Cell, room: int, until_ms: int | None = None) -> str:
    card = CardTimeline(host="h", gpu="g", index=0, card_name=None, cells=cells, holders=(), more_holders=0)
    drawn = Timeline(since_ms=0, until_ms=until_ms or len(cells) * HOUR_MS, cell_ms=HOUR_MS, cards=(card,))
    return line_of(card, drawn, room, Style(unicode=False))


def test_equal_neighbours_are_one_box() -> None:
    width, (active, held, idle, unknown) = strip(ACTIVE, ACTIVE, HELD, HELD)
    assert active == [(0, 0, width / 2, HEIGHT)]
    assert held == [(width / 2, 0, width, HEIGHT)]
    assert idle == unknown == []


def test_unobserved_time_is_left_blank() -> None:
    width, (active, held, *_) = strip(ACTIVE, NOTHING, ACTIVE)
    assert active == [(0, 0, width / 3 - width % 3, HEIGHT), (width / 3 * 2, 0, width, HEIGHT)]
    assert held == []


def test_a_character_of_text_is_blank_if_less_than_half_of_it_was_observed() -> None:
    active, held = Style(unicode=False).fill["active"], Style(unicode=False).fill["idle-held"]
    half, less = (HOUR_MS // 2, 0, 0, 0), (HOUR_MS // 2 - 1000, 0, 0, 0)
    assert text_line(ACTIVE, NOTHING, half, less, HELD, room=5) == f"{active} {active} {held}"
    assert text_line(ACTIVE, NOTHING, ACTIVE, NOTHING, room=2) == f"{active}{active}"
    assert text_line(ACTIVE, NOTHING, room=4) == f"{active}{active}  "
    mixed = (HOUR_MS // 4, HOUR_MS // 3, 0, 0)
    assert text_line(mixed, room=1) == held


def test_the_last_cell_of_text_may_reach_beyond_the_window() -> None:
    active = Style(unicode=False).fill["active"]
    assert text_line(ACTIVE, (HOUR_MS // 4, 0, 0, 0), room=5, until_ms=HOUR_MS * 5 // 4) == 5 * active


def test_states_of_one_cell_are_stacked_from_the_bottom_and_leave_room_for_what_is_unobserved() -> None:
    _, (active, held, *_) = strip((HOUR_MS // 2, HOUR_MS // 4, 0, 0))
    assert active[0][1::2] == (HEIGHT / 2, HEIGHT / 2)
    assert held[0][1::2] == (HEIGHT / 4, HEIGHT / 4)


def test_what_was_there_for_a_moment_is_seen() -> None:
    _, (active, held, *_) = strip((HOUR_MS - 1000, 1000, 0, 0))
    assert held[0][3] > 0
    assert active[0][3] + held[0][3] == HEIGHT


def test_cells_are_added_up_where_there_are_too_many() -> None:
    width, (active, held, *_) = strip(ACTIVE, HELD, HELD, HELD, cells_a_column=2)
    assert active == [(0, HEIGHT / 2, width / 2, HEIGHT / 2)]
    assert held == [(0, 0, width / 2, HEIGHT / 2), (width / 2, 0, width, HEIGHT)]


def test_a_last_cell_that_reaches_beyond_the_window_is_cut() -> None:
    width, (active, *_) = strip(ACTIVE, (HOUR_MS // 2, 0, 0, 0), until_ms=HOUR_MS * 3 // 2)
    assert active == [(0, 0, width, HEIGHT)]
    assert width == 750


def moment_ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)  # type: ignore[misc,arg-type] # a date's parts


def test_midnights_of_a_week_are_local_ones_across_a_clock_change() -> None:
    since_ms, until_ms = moment_ms(2026, 3, 24), moment_ms(2026, 4, 1)
    found = marks(since_ms, until_ms, "Europe/Berlin")
    assert [words for _, words in found][-2:] == ["Mon 30 Mar", "Tue 31 Mar"]
    assert found[-2][0] == (moment_ms(2026, 3, 30) - since_ms) / (until_ms - since_ms)


def test_hours_are_whole_ones_where_the_clock_is_half_an_hour_off() -> None:
    since_ms = int(datetime(2026, 5, 1, tzinfo=ZoneInfo("Asia/Kolkata")).timestamp() * 1000)
    found = marks(since_ms, since_ms + 24 * HOUR_MS, "Asia/Kolkata")
    assert found[:2] == [(0, "Fri 01 May"), (0.125, "03:00")]


def test_hours_of_a_day_are_marked_by_the_clock() -> None:
    found = marks(moment_ms(2026, 5, 1), moment_ms(2026, 5, 2), "Europe/Berlin")
    assert [words for _, words in found][:3] == ["Fri 01 May", "03:00", "06:00"]


@pytest.mark.parametrize("hours", [1, 7, 24, 50, 24 * 7, 24 * 30, 24 * 400, 24 * 3000])
def test_marks_are_few_and_lie_within(hours: int) -> None:
    since_ms = moment_ms(2026, 1, 3, 4)
    found = marks(since_ms, since_ms + hours * HOUR_MS + 1234, "Europe/Berlin")
    assert 1 <= len(found) <= 12
    assert all(0 <= place < 1 for place, _ in found)


def test_no_time_has_no_marks() -> None:
    assert marks(5, 5, "UTC") == []
