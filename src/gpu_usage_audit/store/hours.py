"""Counted hours: rows of ``gua.host_hours``, made anew from the ticks wherever these, or the rules, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_MARK: Final = """
INSERT INTO gua.hour_marks (host, hour, marks, marked)
SELECT
    host,
    toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour,
    1 AS marks,
    now64(3, 'UTC') AS marked
FROM gua.card_ticks
"""
_UNMARKED: Final = "WHERE (host, hour) GLOBAL NOT IN (SELECT host, hour FROM gua.hour_marks)\n"
_BY: Final = "GROUP BY host, hour"
MARK_ALL: Final = f"{_MARK}{_BY}"
# Ticks of an insert that began before gua.hour_marks was there, and ended after MARK_ALL had read what there was.
MARK_UNMARKED: Final = f"{_MARK}{_UNMARKED}{_BY}"
_DUE: Final = "SELECT host, hour, marks FROM gua_report.due_hours"
_COUNT: Final = "INSERT INTO gua.host_hours${LOCAL} SELECT * FROM gua_report.counted_hours"

Rows = Sequence[Mapping[str, Any]]


def count(select: Callable[[str], Rows], run: Callable[[str], None], *, local: str = "") -> int:
    """Count the hours that are due, some at a time, and return how many (a host in an hour each) were written.

    What stays due all the same, as ticks keep arriving for it, is left to the next time.
    """
    written = 0
    before: Rows = []
    while (due := select(_DUE)) and due != before:
        run(_COUNT.replace("${LOCAL}", local))
        written += len(due)
        before = due
    return written
