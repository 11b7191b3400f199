"""How many hours are counted at once: as many as memory takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gua.core.errors import TransientError
from gua.store.hours import count


class Counting:
    """Hours that are due, of which so many at most can be counted at once."""

    def __init__(self, due: int, *, room: int) -> None:
        self.due = due
        self.room = room
        self.asked: list[int] = []

    def select(self, sql: str) -> Sequence[Mapping[str, Any]]:
        if "as_select" in sql:
            return [{"as_select": "SELECT host, hour FROM gua_report.due_hours"}]
        return [{"host": "node-1", "hour": hour, "marks": 1} for hour in range(self.due)]

    def run(self, sql: str) -> None:
        found = re.fullmatch(
            r"INSERT INTO gua\.host_hours_local SELECT host, hour FROM "
            r"\(SELECT \* FROM gua_report\.due_hours LIMIT (\d+)\)",
            sql,
        )
        assert found
        most = int(found[1])
        self.asked.append(most)
        if min(most, self.due) > self.room:
            msg = "no memory"
            raise TransientError(msg)
        self.due -= min(most, self.due)


def test_all_at_once_where_there_is_room() -> None:
    hours = Counting(700, room=1_000)

    assert count(hours.select, hours.run, local="_local") == 700
    assert hours.asked == [1_000]


def test_fewer_at_once_where_memory_is_short() -> None:
    hours = Counting(700, room=60)

    assert count(hours.select, hours.run, local="_local") == 700
    assert hours.asked[:4] == [1_000, 175, 43, 43]


def test_no_hour_that_can_be_counted_ends_it() -> None:
    hours = Counting(3, room=0)

    with pytest.raises(TransientError):
        count(hours.select, hours.run, local="_local")
    assert hours.asked[-1] == 1
