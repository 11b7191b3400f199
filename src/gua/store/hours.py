"""Counted hours: rows of ``gua.host_hours``, made anew from the ticks wherever these, or the rules, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gua.core.errors import TransientError

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
# Hours that were counted while the schema grew, when what arrived told of allocations already, and what counts did not.
MARK_LOOKED_AT: Final = f"{_MARK.replace('gua.card_ticks', 'gua.allocation_source_ticks')}{_BY}"
# Runs of processes are most of what hours take; of their times neighbours differ by little, and harder work pays once.
_PACKED: Final = {
    **dict.fromkeys(("start_ms", "end_ms"), "Delta, ZSTD(6)"),
    **dict.fromkeys(
        (
            "pid",
            "created_ms",
            "first_span_ms",
            "last_span_ms",
            "duration_ms",
            "gpu_time_ms",
            "memory_kib_ms",
            "memory_known_ms",
            "memory_bytes",
        ),
        "ZSTD(6)",
    ),
}
# A nested column has one codec for all it holds where a table is made.
PACK: Final = "ALTER TABLE gua.host_hours${LOCAL} ${ON_CLUSTER} " + ", ".join(
    f"MODIFY COLUMN `process_runs.{name}` CODEC({codec})" for name, codec in _PACKED.items()
)
_DUE: Final = "SELECT host, hour, marks FROM gua_report.due_hours"
# The view's own query, of fewer hours than all that are due: of cards by the dozen a month has too many ticks for the
# memory of one question.
_COUNTED: Final = "SELECT as_select FROM system.tables WHERE database = 'gua_report' AND name = 'counted_hours'"
_DUE_VIEW: Final = "gua_report.due_hours"
_INSERT: Final = "INSERT INTO gua.host_hours${LOCAL} "
_MOST_AT_ONCE: Final = 1_000
_FEWER: Final = 4

Rows = Sequence[Mapping[str, Any]]


def count(
    select: Callable[[str], Rows], run: Callable[[str], None], *, local: str = "", counted: str | None = None
) -> int:
    """Count the hours that are due, some at a time, and return how many (a host in an hour each) were written.

    ``counted`` is the query of the view that counts; where it is not given the store is asked for it. What stays due
    all the same, as ticks keep arriving for it, is left to the next time. Raises TransientError where not even one hour
    can be counted.
    """
    written = 0
    before: Rows = []
    most = _MOST_AT_ONCE
    while (due := select(_DUE)) and due != before:
        try:
            run(_statement(counted or str(select(_COUNTED)[0]["as_select"]), most, local))
        except TransientError:
            if most == 1:
                raise
            most = max(min(most, len(due)) // _FEWER, 1)
            continue
        written += min(len(due), most)
        before = due
    return written


def _statement(counted: str, most: int, local: str) -> str:
    due = f"(SELECT * FROM {_DUE_VIEW} LIMIT {most})"  # noqa: S608 - a name and a number of ours
    return _INSERT.replace("${LOCAL}", local) + counted.replace(_DUE_VIEW, due, 1)
