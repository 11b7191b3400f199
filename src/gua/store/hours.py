"""The hourly rollup: hours that changed since they were rolled up are rolled up anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gua.core.errors import TransientError

MARK_ALL: Final = """
INSERT INTO gua.hour_marks (host, hour, marks, marked)
SELECT
    host,
    toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour,
    1 AS marks,
    now64(3, 'UTC') AS marked
FROM gua.card_ticks
GROUP BY
    host,
    hour
"""
"""Marks every hour that has ticks, so that it is due."""
_DUE: Final = "SELECT host, hour, marks FROM gua.due_hours"
_ROLL_UP: Final = (
    "INSERT INTO gua.due_rollups (host, hour, marks, fingerprint) "
    "SELECT host, hour, marks, fingerprint FROM gua.due_hours LIMIT {most}"
)
# Hours of hosts in one statement: a month of dozens of cards has too many ticks for the memory of one query.
_MOST_AT_ONCE: Final = 500
_FEWER: Final = 4

Rows = Sequence[Mapping[str, Any]]


def roll_up(select: Callable[[str], Rows], run: Callable[[str], None]) -> int:
    """Roll up the hours that are due, some at a time, and return how many (a host in an hour each) were written.

    What stays due all the same, as ticks keep arriving for it, is left to the next time. Raises TransientError where
    not even one hour can be rolled up.
    """
    written = 0
    before: Rows = []
    most = _MOST_AT_ONCE
    while (due := select(_DUE)) and due != before:
        try:
            run(_ROLL_UP.format(most=most))
        except TransientError:
            if most == 1:
                raise
            most = max(min(most, len(due)) // _FEWER, 1)
            continue
        written += min(len(due), most)
        before = due
    return written
