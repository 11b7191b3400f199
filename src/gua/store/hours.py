"""The hourly rollup: recomputes hours that changed since their last rollup."""

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
"""SQL that marks every hour with ticks as pending."""
_DUE: Final = "SELECT host, hour, marks FROM gua.due_hours"
_ROLL_UP: Final = (
    "INSERT INTO gua.due_rollups (host, hour, marks, fingerprint) "
    "SELECT host, hour, marks, fingerprint FROM gua.due_hours LIMIT {most}"
)
# Rows (host and hour) per statement: a month of dozens of cards exceeds one query's memory limit.
_MOST_AT_ONCE: Final = 500
_FEWER: Final = 4

Rows = Sequence[Mapping[str, Any]]


def roll_up(select: Callable[[str], Rows], run: Callable[[str], None]) -> int:
    """Roll up the pending hours in batches; return the number of rows (one per host and hour) written.

    Stops if the same hours stay pending, as ticks keep arriving for them. Batches shrink when a query fails.
    Raises TransientError if not even one hour can be rolled up.
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
