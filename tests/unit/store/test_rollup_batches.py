"""How many hours are rolled up at once: as many as fit in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gua.core.errors import TransientError
from gua.store.hours import roll_up


class RollingUp:
    """Pending hours, of which a limited number can be rolled up at once."""

    def __init__(self, due: int, *, room: int) -> None:
        self.due = due
        self.room = room
        self.asked: list[int] = []

    def select(self, _sql: str) -> Sequence[Mapping[str, Any]]:
        return [{"host": "node-1", "hour": hour, "marks": 1} for hour in range(self.due)]

    def run(self, sql: str) -> None:
        found = re.fullmatch(
            r"INSERT INTO gua\.due_rollups \(host, hour, marks, fingerprint\) "
            r"SELECT host, hour, marks, fingerprint FROM gua\.due_hours LIMIT (\d+)",
            sql,
        )
        assert found
        most = int(found[1])
        self.asked.append(most)
        if min(most, self.due) > self.room:
            msg = "no memory"
            raise TransientError(msg)
        self.due -= min(most, self.due)


def test_full_batches_are_rolled_up_if_memory_suffices() -> None:
    hours = RollingUp(700, room=1_000)

    assert roll_up(hours.select, hours.run) == 700
    assert hours.asked == [500, 500]


def test_fewer_at_once_where_memory_is_short() -> None:
    hours = RollingUp(700, room=60)

    assert roll_up(hours.select, hours.run) == 700
    assert hours.asked[:4] == [500, 125, 31, 31]


def test_no_hour_that_can_be_counted_ends_it() -> None:
    hours = RollingUp(3, room=0)

    with pytest.raises(TransientError):
        roll_up(hours.select, hours.run)
    assert hours.asked[-1] == 1


def test_a_part_at_a_time_leaves_the_rest_to_later_calls() -> None:
    hours = RollingUp(700, room=200)

    written = [roll_up(hours.select, hours.run, most=300)]
    assert (written, hours.asked) == ([75], [300, 75])
    while hours.due:
        written.append(roll_up(hours.select, hours.run, most=150))
    assert sum(written) == 700
    assert roll_up(hours.select, hours.run, most=150) == 0


def test_hours_that_stay_due_end_the_calls() -> None:
    hours = RollingUp(7, room=10)
    assert roll_up(hours.select, lambda _: None, most=5) == 0
