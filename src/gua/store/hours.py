"""The hourly rollup: recomputes hours that changed since their last rollup, and merges their days."""

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
_DUE_HOURS: Final = "SELECT host, hour, marks FROM gua.due_hours"
_ROLL_UP_HOURS: Final = (
    "INSERT INTO gua.due_rollups (host, hour, marks, fingerprint) "
    "SELECT host, hour, marks, fingerprint FROM gua.due_hours LIMIT {most}"
)
_DUE_DAYS: Final = "SELECT host, day, rollups_written_ms FROM gua.due_days"
_ROLL_UP_DAYS: Final = (
    "INSERT INTO gua.due_day_rollups (host, day, rollups, rollups_written_ms) "
    "SELECT host, day, rollups, rollups_written_ms FROM gua.due_days LIMIT {most}"
)
# Rows (host and hour, host and day) per statement: a month of dozens of cards exceeds one query's memory limit.
_MOST_HOURS: Final = 500
_MOST_DAYS: Final = 100
_FEWER: Final = 4

Rows = Sequence[Mapping[str, Any]]


def roll_up(select: Callable[[str], Rows], run: Callable[[str], None], *, most: int | None = None) -> int:
    """Roll up the pending hours, then merge the pending days; return the number of hours of hosts written.

    With ``most``, roll up at most so many hours; without pending hours merge the days, and return 0.
    Stops if the same hours stay pending, as ticks keep arriving for them. Batches shrink when a query fails.
    Raises TransientError if not even one hour or day can be written.
    """
    is_part = most is not None
    size = _MOST_HOURS if most is None else most
    written = _in_batches(select, run, due=_DUE_HOURS, write=_ROLL_UP_HOURS, most=size, once=is_part)
    if not (is_part and written):
        _in_batches(select, run, due=_DUE_DAYS, write=_ROLL_UP_DAYS, most=_MOST_DAYS)
    return written


def _in_batches(  # noqa: PLR0913 - keyword-only, what differs between hours and days
    select: Callable[[str], Rows],
    run: Callable[[str], None],
    *,
    due: str,
    write: str,
    most: int,
    once: bool = False,
) -> int:
    """Run ``write`` for up to ``most`` rows at a time until the query ``due`` has no new rows; return their number.

    ``once`` ends it after the first rows that could be written; 0 if the same rows are due after it.
    """
    written = 0
    before: Rows = []
    while (pending := select(due)) and pending != before:
        try:
            run(write.format(most=most))
        except TransientError:
            if most == 1:
                raise
            most = max(min(most, len(pending)) // _FEWER, 1)
            continue
        written += min(len(pending), most)
        before = pending
        if once:
            return 0 if select(due) == pending else written
    return written
